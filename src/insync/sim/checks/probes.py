"""Probes: situations that the simulator must reach sometimes, since otherwise it proves nothing about them.

Most are recognised by the notes and responses of nodes; the checker reports those that need to know more than one node
(`hit`).
"""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable
from typing import Any

from insync.sansio import Effect, Event, Message, Note, Reply, Response, Stop
from insync.sim.engine.principals import STRANGER
from insync.wire.errors import ErrorCode
from insync.wire.messages import alter_partition, alter_partition_reassignments, broker_registration, fetch, produce

PROBES: dict[str, str] = {
    # in sync
    "isr_expanded": "a leader proposed to take a follower into the ISR",
    "isr_shrunk": "a leader proposed to drop a slow follower from the ISR",
    "isr_shrunk_by_controller": "the controller took a member out of an ISR",
    "expand_follows_expand": "a follower that was ready while an expansion was in flight joined right after it",
    "hwm_advances_during_expand": "records were committed with the maximal ISR while an expansion was in flight",
    "hwm_advances_during_shrink": "records were committed with the maximal ISR while a shrink was in flight",
    "log_overtakes_alter_partition": "an ISR change reached the leader by the metadata log before the response",
    "alter_partition_overtakes_log": "an ISR change reached the leader by the response before the metadata log",
    "alter_partition_answer_lost": "the response to an AlterPartition never came",
    "alter_partition_met_failover": "the controller was replaced while an AlterPartition was in flight",
    "refused_ineligible_replica": "an ISR with a member that is fenced, stopping or in another incarnation was refused",
    "proposal_withdrawn": "a refused ISR change was withdrawn, because a copy of it might still arrive",
    "refused_partition_epoch": "an AlterPartition based on an old partition epoch was refused",
    "refused_leader_epoch": "an AlterPartition of a replaced leader was refused",
    "refused_stale_broker_epoch": "an AlterPartition of an earlier incarnation was refused",
    # fetching and divergence
    "divergence_c": "a follower ahead in the same epoch was truncated",
    "divergence_d": "a follower ahead in a newer epoch was truncated",
    "divergence_e": "a follower and its leader had each continued in an epoch of their own",
    "divergence_f": "a follower had left the shared epoch before its leader did",
    "divergence_g": "a follower and its leader had no epoch in common",
    "truncated_below_hwm": "a follower truncated records below its own high watermark",
    "restarted_at_log_start": "a follower below its leader's log start began again there",
    "hwm_went_down": "a follower's high watermark went down",
    "late_fetch_answer_epoch": "a fetch response of an earlier leader epoch was dropped",
    "late_fetch_answer_removed": "a fetch response for a partition that is no longer fetched was dropped",
    "fetch_with_old_leader_epoch": "a leader refused a follower that does not know its epoch yet",
    "stale_leader_refuses_fetch": "a replaced leader refused a follower of a newer epoch",
    "fetch_of_earlier_incarnation": "a leader refused a fetch of an earlier incarnation of its sender",
    "fetch_session_lost": "a fetch session was unknown to the leader and was opened again",
    "merged_remove_and_add": "a broker saw a replica's removal and its return as one change",
    "replica_deleted": "a replica left the replica set and its log was deleted",
    "end_offset_unknown": "a new leader refused to list the end offset before it knew it",
    # rights
    "denied_by_acl": "a produce was refused because of an ACL that was created under way",
    "impostor_refused": "a client that posed as a node was refused",
    "node_taken_for_stranger": "a node refused another whose credentials were wrong",
    # producing
    "duplicate_acknowledged": "a repeated idempotent batch was acknowledged with its first offset",
    "out_of_order_sequence": "a gap in a producer's sequence was refused",
    "not_enough_replicas": "acks=all was refused below MinISR",
    "not_enough_replicas_after_append": "the ISR fell below MinISR while acks=all waited",
    "produce_timed_out": "an acks=all produce timed out",
    "produce_lost_its_leader": "a produce met a broker that does not lead, or no longer does",
    "zombie_leader_appends": "a replaced leader appended records that were never committed",
    "segment_deleted": "retention deleted a segment",
    # elections and recovery
    "clean_election": "a member of the ISR was elected",
    "elr_election": "a member of the ELR was elected",
    "preferred_election": "leadership went back to the preferred replica",
    "unclean_election": "a replica outside ISR and ELR was elected",
    "unclean_election_by_operator": "an operator asked for an unclean election and got it",
    "unclean_election_lost_nothing": "an unclean election found a complete log",
    "unclean_election_lost_records": "an unclean election lost committed records",
    "no_leader": "a partition was without a leader",
    "balanced_recovery": "a balanced recovery ended",
    "balanced_recovery_chose": "a balanced recovery chose between logs of different length",
    "proactive_recovery": "a proactive recovery ended",
    "manual_recovery_waits": "a partition waits for an operator, as its topic says",
    "recovery_cleared": "a leader that was elected uncleanly reported that it had recovered",
    "elr_filled": "a replica went from the ISR to the ELR",
    "unclean_registration_left_elr": "a broker that came back unclean was taken out of an ELR",
    "clean_registration_kept_elr": "a broker that came back clean kept its place in an ELR",
    "min_isr_raised_with_elr": "MinISR was raised while an ELR had members",
    # brokers
    "controlled_shutdown": "a controlled shutdown was completed",
    "shutdown_moved_leaders": "a controlled shutdown moved leadership or ISR membership away",
    "duplicate_registration_refused": "a registration was refused because the earlier incarnation was not fenced yet",
    "broker_fenced": "a broker was fenced",
    "back_in_the_same_incarnation": "a fenced broker sent a heartbeat and was unfenced under the same broker epoch",
    "disk_failure_stopped_node": "a node stopped because its disk failed or was full",
    "failed_sync_stopped_node": "a node stopped because a sync failed",
    "crash_lost_bytes": "a crash took bytes of a replica's log",
    "tail_cut": "a torn or corrupt end of a log was truncated at start",
    # metadata quorum
    "controller_failover": "another controller became active",
    "decisions_dropped": "a deposed controller dropped decisions that were not committed",
    "quorum_resigned": "a quorum leader resigned",
    "pre_vote_refused": "a pre-vote was refused",
    "vote_refused": "a vote was refused",
    "metadata_truncated": "a node truncated uncommitted metadata",
    "snapshot_reloaded": "a node started from its own snapshot",
    "snapshot_installed": "a lagging node installed a snapshot of its leader",
    # groups
    "groups_loaded": "a coordinator loaded a partition of the offsets topic",
    "group_generation": "a group began a new generation",
    # reassignment
    "reassignment_started": "a reassignment was begun",
    "reassignment_completed": "a reassignment was completed by an ISR change",
    "reassignment_completed_at_once": "a reassignment was completed in the request itself",
    "reassignment_replaced": "a new target replaced one under way",
    "reassignment_cancelled": "a reassignment was cancelled",
    "cancel_refused": "a cancel was refused because too few of the original replicas are in sync",
    "reassignment_ended_a_term": "an accepted ISR change completed a reassignment and ended its leader's term",
}

_BY_KIND: dict[str, str] = {
    "isr_expand_proposed": "isr_expanded",
    "isr_shrink_proposed": "isr_shrunk",
    "isr_shrunk_by_controller": "isr_shrunk_by_controller",
    "isr_withdrawn": "proposal_withdrawn",
    "alter_partition_overtaken": "log_overtakes_alter_partition",
    "stale_broker_epoch_fetch": "fetch_of_earlier_incarnation",
    "replica_deleted": "replica_deleted",
    "hwm_unknown": "end_offset_unknown",
    "duplicate_produce": "duplicate_acknowledged",
    "segments_deleted": "segment_deleted",
    "leader_lost": "no_leader",
    "broker_fenced": "broker_fenced",
    "quorum_resigned": "quorum_resigned",
    "quorum_truncated": "metadata_truncated",
    "groups_loaded": "groups_loaded",
    "group_generation": "group_generation",
    "reassignment_cancelled": "reassignment_cancelled",
    "reassignment_replaced": "reassignment_replaced",
    "reassignment_started": "reassignment_started",
}

_BY_FIELD: dict[str, tuple[str, dict[Any, str]]] = {
    "alter_partition_refused": (
        "error",
        {
            "ineligible_replica": "refused_ineligible_replica",
            "invalid_update_version": "refused_partition_epoch",
            "fenced_leader_epoch": "refused_leader_epoch",
        },
    ),
    "authorization_denied": ("principal", {STRANGER: "node_taken_for_stranger"}),
    "fetch_refused": (
        "error",
        {"fenced_leader_epoch": "fetch_with_old_leader_epoch", "unknown_leader_epoch": "stale_leader_refuses_fetch"},
    ),
    "late_fetch_answer_dropped": (
        "reason",
        {
            "epoch": "late_fetch_answer_epoch",
            "removed": "late_fetch_answer_removed",
        },
    ),
    "leader_elected": (
        "how",
        {
            "clean": "clean_election",
            "elr": "elr_election",
            "preferred": "preferred_election",
            "unclean": "unclean_election",
        },
    ),
    "unclean_recovery_finished": ("strategy", {"balanced": "balanced_recovery", "proactive": "proactive_recovery"}),
    "quorum_snapshot_loaded": ("installed", {True: "snapshot_installed", False: "snapshot_reloaded"}),
    "quorum_vote_refused": ("pre_vote", {True: "pre_vote_refused", False: "vote_refused"}),
    "truncated": ("case", {"C": "divergence_c", "F": "divergence_f", "G": "divergence_g"}),
}

_PRODUCE_ERRORS: dict[ErrorCode, str] = {
    ErrorCode.out_of_order_sequence_number: "out_of_order_sequence",
    ErrorCode.not_enough_replicas: "not_enough_replicas",
    ErrorCode.not_enough_replicas_after_append: "not_enough_replicas_after_append",
    ErrorCode.request_timed_out: "produce_timed_out",
    ErrorCode.not_leader_or_follower: "produce_lost_its_leader",
}
_SESSION_ERRORS = (ErrorCode.fetch_session_id_not_found, ErrorCode.invalid_fetch_session_epoch)


class Probes:
    """How often each probe was reached, by name."""

    __slots__ = ("_active", "_cluster", "seen")

    def __init__(self, cluster: Any) -> None:
        self.seen: Counter[str] = Counter()
        self._active = -1
        self._cluster = cluster

    def hit(self, name: str) -> None:
        self.seen[name] += 1

    def after_step(self, node: Any, event: Event, request: Message | None, effects: list[Effect]) -> None:
        """`request` is that of the step, taken out of its envelope."""
        notes: list[Note] | None = None
        for effect in effects:
            kind = type(effect)
            if kind is Note:
                notes = notes or []
                notes.append(effect)  # type: ignore[arg-type]
            elif kind is Reply:
                inspect = _REPLIES.get(type(effect.response))  # type: ignore[union-attr]
                if inspect is not None:
                    inspect(self, effect.response)  # type: ignore[union-attr]
            elif kind is Stop:
                self._stopped(effect)  # type: ignore[arg-type]
        if notes:
            self._notes(node, request, notes)
        if type(event) is Response and type(event.send.request) is alter_partition.AlterPartitionRequest:
            self._alter_partition_answer(event.response)

    def _stopped(self, stop: Stop) -> None:
        self.hit("controlled_shutdown" if stop.clean else "disk_failure_stopped_node")
        if f"[Errno {errno.EIO}]" in stop.reason:
            self.hit("failed_sync_stopped_node")

    # --- notes ---------------------------------------------------------------------------------------------------

    def _notes(self, node: Any, request: Message | None, notes: list[Note]) -> None:
        by_kind: dict[str, list[dict[str, Any]]] = {}
        for note in notes:
            by_kind.setdefault(note.kind, []).append(note.fields)
            if note.kind in _BY_KIND:
                self.hit(_BY_KIND[note.kind])
            elif note.kind in _BY_FIELD:
                field, names = _BY_FIELD[note.kind]
                if note.fields.get(field) in names:
                    self.hit(names[note.fields[field]])
        for kind, handle in _BY_NOTES_OF_STEP.items():
            if kind in by_kind:
                handle(self, node, request, by_kind)

    def _truncated(self, node: Any, request: Message | None, notes: dict[str, list[dict[str, Any]]]) -> None:
        for fields in notes["truncated"]:
            if fields["cause"] == "log_start":
                self.hit("restarted_at_log_start")
            elif fields["to_offset"] < fields["hwm"]:
                self.hit("truncated_below_hwm")
            if fields["case"] == "D/E":
                self.hit("divergence_e" if self._leader_went_on(node, fields) else "divergence_d")

    def _leader_went_on(self, node: Any, fields: dict[str, Any]) -> bool:
        """Whether the leader's log continues where the follower's was truncated; the follower does not know."""
        partition = _find(node, fields["partition"])
        leader = self._cluster.node(partition.leader) if partition and partition.leader >= 0 else None
        replica = leader.replicas.replicas.get(partition.key) if leader else None
        return replica is not None and replica.log.leo > fields["to_offset"]

    def _isr_committed(self, node: Any, request: Message | None, notes: dict[str, list[dict[str, Any]]]) -> None:
        proposed = [fields["partition"] for fields in notes.get("isr_expand_proposed", ())]
        for fields in notes["isr_committed"]:
            if fields["partition"] in proposed:
                self.hit("expand_follows_expand")
            known = _find(node, fields["partition"])
            if known is not None and known.partition_epoch < fields["partition_epoch"]:
                self.hit("alter_partition_overtakes_log")

    def _elr_changed(self, node: Any, request: Message | None, notes: dict[str, list[dict[str, Any]]]) -> None:
        if any(fields["elr"] for fields in notes["elr_changed"]):
            self.hit("elr_filled")

    def _broker_registered(self, node: Any, request: Message | None, notes: dict[str, list[dict[str, Any]]]) -> None:
        if any(not fields["clean"] for fields in notes["broker_registered"]) and "elr_changed" in notes:
            self.hit("unclean_registration_left_elr")

    def _controlled_shutdown(self, node: Any, request: Message | None, notes: dict[str, list[dict[str, Any]]]) -> None:
        if any(fields["partitions"] for fields in notes["controlled_shutdown"]):
            self.hit("shutdown_moved_leaders")

    def _reassignment_completed(
        self, node: Any, request: Message | None, notes: dict[str, list[dict[str, Any]]]
    ) -> None:
        at_once = type(request) is alter_partition_reassignments.AlterPartitionReassignmentsRequest
        self.hit("reassignment_completed_at_once" if at_once else "reassignment_completed")

    def _controller_active(self, node: Any, request: Message | None, notes: dict[str, list[dict[str, Any]]]) -> None:
        if self._active not in (-1, node.id):
            self.hit("controller_failover")
        self._active = node.id

    def _controller_inactive(self, node: Any, request: Message | None, notes: dict[str, list[dict[str, Any]]]) -> None:
        if any(fields["dropped"] for fields in notes["controller_inactive"]):
            self.hit("decisions_dropped")

    # --- answers -------------------------------------------------------------------------------------------------

    def _alter_partition_answer(self, response: Any) -> None:
        if response is None:
            self.hit("alter_partition_answer_lost")
        elif response.error_code is ErrorCode.not_controller:
            self.hit("alter_partition_met_failover")

    def _reply_alter_partition(self, response: Any) -> None:
        if response.error_code is ErrorCode.stale_broker_epoch:
            self.hit("refused_stale_broker_epoch")
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.error_code is ErrorCode.new_leader_elected:
                    self.hit("reassignment_ended_a_term")

    def _reply_reassignments(self, response: Any) -> None:
        for topic in response.responses:
            for partition in topic.partitions:
                if partition.error_code is ErrorCode.invalid_replica_assignment and "in sync" in (
                    partition.error_message or ""
                ):
                    self.hit("cancel_refused")

    def _reply_registration(self, response: Any) -> None:
        if response.error_code is ErrorCode.duplicate_broker_registration:
            self.hit("duplicate_registration_refused")

    def _reply_fetch(self, response: Any) -> None:
        if response.error_code in _SESSION_ERRORS:
            self.hit("fetch_session_lost")

    def _reply_produce(self, response: Any) -> None:
        for topic in response.responses:
            for partition in topic.partition_responses:
                if partition.error_code in _PRODUCE_ERRORS:
                    self.hit(_PRODUCE_ERRORS[partition.error_code])


def _find(node: Any, name: str) -> Any:
    topic, _, index = name.rpartition("-")
    return node.image.find(topic, int(index))


_BY_NOTES_OF_STEP: dict[str, Callable[[Probes, Any, Message | None, dict[str, list[dict[str, Any]]]], None]] = {
    "truncated": Probes._truncated,
    "isr_committed": Probes._isr_committed,
    "elr_changed": Probes._elr_changed,
    "broker_registered": Probes._broker_registered,
    "controlled_shutdown": Probes._controlled_shutdown,
    "reassignment_completed": Probes._reassignment_completed,
    "controller_active": Probes._controller_active,
    "controller_inactive": Probes._controller_inactive,
}

_REPLIES: dict[type[Any], Callable[[Probes, Any], None]] = {
    alter_partition.AlterPartitionResponse: Probes._reply_alter_partition,
    alter_partition_reassignments.AlterPartitionReassignmentsResponse: Probes._reply_reassignments,
    broker_registration.BrokerRegistrationResponse: Probes._reply_registration,
    fetch.FetchResponse: Probes._reply_fetch,
    produce.ProduceResponse: Probes._reply_produce,
}
