"""Mutants that change one decision instead of removing a check: small errors of the kind that reviews overlook.

Most of them lose nothing at once. They append what cannot be committed, end a reassignment too early, elect without
need, or wait too short or too long.
"""

from __future__ import annotations

from typing import Any

from insync.sim.mutants import patches
from insync.sim.mutants.mutant import Mutant, make_mutant


def _as_if_acks_1(original: Any) -> Any:
    """The append of an acks=all batch is decided as if it were acks=1; its response still waits."""

    def append(
        self: Any, topic_id: Any, data: Any, acks: int, result: Any, uncommitted: Any, now: int, *args: Any, **kw: Any
    ) -> None:
        original(self, topic_id, data, 1 if acks == -1 else acks, result, uncommitted, now, *args, **kw)

    return append


def _done_with_first_added(_original: Any) -> Any:
    def is_reassignment_done(self: Any) -> bool:
        added = [replica in self.isr for replica in self.adding]
        return (any(added) or not added) and bool(self.keeps_min_isr())

    return is_reassignment_done


def _drops_old_target(original: Any) -> Any:
    """A replaced target gives up at once what only the old target wanted."""

    def start(state: Any, partition: Any, target: Any, made: Any) -> Any:
        from dataclasses import replace

        from insync.controller.partition_change import without
        from insync.controller.reassignment import OK

        dropped = without(partition.adding, target)
        if not dropped:
            return original(state, partition, target, made)
        builder = state.change(partition)
        kept = replace(
            partition,
            replicas=without(partition.replicas, dropped),
            isr=without(partition.isr, dropped),
            adding=without(partition.adding, dropped),
        )
        builder.isr = kept.isr
        builder.adding = without(target, without(kept.replicas, kept.adding))
        builder.removing = without(kept.replicas, target)
        builder.replicas = (*target, *builder.removing)
        record = state.build(builder, "reassignment")
        if record is not None:
            made.append(record)
        return OK

    return start


def _epoch_with_every_isr_change(original: Any) -> Any:
    def elect(self: Any) -> None:
        original(self)
        self.new_leader_epoch = self.new_leader_epoch or self.isr != self.before.isr

    return elect


def _last_candidate(_original: Any) -> Any:
    def first_candidate(self: Any) -> int:
        from insync.metadata.partition import NO_LEADER

        return next((replica for replica in reversed(self.replicas) if self.is_candidate(replica)), NO_LEADER)

    return first_candidate


def _straight_to_candidate(_original: Any) -> Any:
    def become_prospective(self: Any, now: int, retries: int = 0) -> None:
        self.become_candidate(now, retries)

    return become_prospective


def _without_producer_ids(original: Any) -> Any:
    def iter_records(*args: Any) -> Any:
        from insync.wire.metadata_records import ProducerIdsRecord

        return (record for record in original(*args) if not isinstance(record, ProducerIdsRecord))

    return iter_records


def _five_seconds_later(original: Any) -> Any:
    return lambda state, broker_id: original(state, broker_id) + 5_000


def _only_below_min_isr(original: Any) -> Any:
    def maybe_expand_isr(self: Any, now: int) -> None:
        if not self.has_min_isr():
            original(self, now)

    return maybe_expand_isr


DECISION_MUTANTS: tuple[Mutant, ...] = (
    make_mutant(
        "appends-below-min-isr",
        "P2",
        "refusing acks=all before the append while the ISR is below MinISR",
        ("replication.produce_server:ProduceServer._append", _as_if_acks_1),
    ),
    make_mutant(
        "completes-with-first-added",
        "R2",
        "waiting for every added replica, and not just for the first",
        ("controller.partition_change:PartitionChangeBuilder.is_reassignment_done", _done_with_first_added),
    ),
    make_mutant(
        "new-target-drops-replicas",
        "R5",
        "keeping what only the replaced target wanted until the reassignment completes",
        ("controller.reassignment:_start", _drops_old_target),
    ),
    make_mutant(
        "epoch-with-every-isr-change",
        "M2",
        "a leader epoch that stays while the leader and its replicas stay",
        ("controller.partition_change:PartitionChangeBuilder._elect", _epoch_with_every_isr_change),
    ),
    make_mutant(
        "leader-not-kept",
        "E1",
        "keeping a leader that may stay",
        ("controller.partition_change:PartitionChangeBuilder._first_candidate", _last_candidate),
    ),
    make_mutant(
        "sessions-too-long",
        "B4",
        "fencing a broker as soon as its session has expired",
        ("controller.heartbeats:_session_deadline", _five_seconds_later),
    ),
    make_mutant(
        "leaderless-left-alone",
        "E1",
        "electing when a candidate appears for a partition without a leader",
        ("controller.elections:elect_leaderless", patches.always(None)),
    ),
    make_mutant(
        "shutdown-does-not-wait",
        "B7",
        "waiting until the other brokers know the new leaders",
        ("controller.heartbeats:others_have_read", patches.always(True)),
    ),
    make_mutant(
        "pre-votes-always-granted",
        "Q4",
        "refusing a pre-vote while the leader is heard from",
        ("quorum.follower:Follower.refuses_pre_votes", patches.always(False)),
        ("quorum.leader:Leader.refuses_pre_votes", patches.always(False)),
    ),
    make_mutant(
        "no-pre-votes",
        "Q4",
        "asking for pre-votes before the epoch is raised",
        ("quorum.transitions:RoleTransitions.become_prospective", _straight_to_candidate),
    ),
    make_mutant(
        "producer-ids-not-in-snapshots",
        "Q6",
        "the next producer id in snapshots of the metadata",
        ("metadata.snapshot:iter_records", _without_producer_ids),
    ),
    make_mutant(
        "expands-below-min-isr-only",
        "I2",
        "proposing every follower that may join",
        ("replication.leader:Leader.maybe_expand_isr", _only_below_min_isr),
    ),
)
