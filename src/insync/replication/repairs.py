"""Repairing damaged batches: they are verified, withheld from readers, and replaced from another replica (D6).

    suspected -> (verified) -> damaged -> leadership handed over -> fetched again -> written -> verified

A batch becomes suspect by the scrub, by a fetch whose checksums were verified, by a follower that asks for the same
offset again and again, or by a compaction that cannot read on. The whole segment is then verified off the event loop. A
damaged range is withheld from all readers from then on. If another member of the ISR can lead, a leader asks the
controller to elect it (AssignReplicasToDirs with Kafka's LOST directory), and goes on as a follower. Then the range is
fetched again, first from the leader, then from any other replica, as Kafka's replica verification tool does (replica id
-2: up to the high watermark of the replica that is asked). Below the high watermark all intact replicas hold the same.

Notes: batch_suspected(partition, offset, cause), batch_sound(partition, segment), batch_repaired(partition, offsets,
source), repair_failed(partition, source, why), index_rebuilt(partition, segment). Findings: corrupt_batch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from insync.findings import CRITICAL, WARNING
from insync.metadata.partition import PartitionKey
from insync.replication.fetch_session import DEBUG_CONSUMER, FINAL_EPOCH, NO_SESSION
from insync.replication.leader import Leader
from insync.replication.replica import Replica
from insync.replication.state import ReplicationState
from insync.storage.repair import Replacement, SegmentRepair
from insync.storage.verification import Verification
from insync.wire.errors import ErrorCode
from insync.wire.messages import assign_replicas_to_dirs, fetch
from insync.wire.metadata_records import LOST_DIRECTORY
from insync.wire.types import ms

CHANNEL = "repair"
CONTROLLER_CHANNEL = "controller"
CORRUPT_BATCH = "corrupt_batch"
FETCH_BYTES = 1 << 20
MAX_RANGE_BYTES = 1 << 28
"""A damaged range is held in memory while it is repaired."""
MAX_BACKOFF_MS = 30_000
NO_RESPONSE = "it does not answer"
MIN_RESIGN_INTERVAL_MS = 600_000


@dataclass(slots=True, eq=False, kw_only=True)
class Repair:
    """One replica with suspect or damaged batches."""

    replica: Replica
    due: int
    resign_after: int
    busy: bool = False
    """A job or a request is in flight."""
    suspects: dict[int, None] = field(default_factory=dict)
    """Base offsets of segments to verify."""
    sources: list[int] = field(default_factory=list)
    """Brokers still to ask in this round."""
    exhausted: dict[int, None] = field(default_factory=dict)
    """Brokers that answered in this round and have no intact copy."""
    failures: int = 0
    sole_leader: bool = False
    """The controller has no other candidate for leadership."""
    why: str = ""


class Repairs:
    def __init__(self, state: ReplicationState, finish_step: Callable[[int], None]) -> None:
        self._state = state
        self._finish_step = finish_step
        self.active: dict[PartitionKey, Repair] = {}
        """Repairs that have not ended."""
        self.repaired = 0
        """Damaged ranges that were replaced since the broker started."""

    def suspect(self, replica: Replica, offset: int, cause: str, now: int) -> None:
        """Verify the segment that holds `offset`, unless it is already known to be damaged."""
        if replica.log.damage.of_segment(replica.log.find_segment(offset).base):
            return
        repair = self.active.get(replica.key)
        if repair is None or repair.replica is not replica:
            repair = self.active[replica.key] = Repair(replica=replica, due=now, resign_after=now)
        base = replica.log.find_segment(offset).base
        if base not in repair.suspects:
            self._state.out.note("batch_suspected", partition=replica.partition.name, offset=offset, cause=cause)
            repair.suspects[base] = None
            repair.due = min(repair.due, now)

    def tick(self, now: int) -> None:
        for replica, (offset, cause) in self._state.suspects.items():
            self.suspect(replica, offset, cause, now)
        self._state.suspects.clear()
        for repair in list(self.active.values()):
            if not repair.busy and repair.due <= now:
                self._advance(repair, now)

    def next_deadline(self) -> int | None:
        return min((repair.due for repair in self.active.values() if not repair.busy), default=None)

    def on_role_changed(self, key: PartitionKey, now: int) -> None:
        repair = self.active.get(key)
        if repair is not None:
            repair.due = min(repair.due, now)

    def _advance(self, repair: Repair, now: int) -> None:
        replica = repair.replica
        log = replica.log
        if self._state.replicas.get(replica.key) is not replica:
            self._end(repair)
            return
        log.damage.keep_within(log.log_start, log.leo)
        if repair.suspects:
            self._verify(repair)
        elif not log.damage:
            self._end(repair)
        elif isinstance(replica.role, Leader) and self._should_resign(repair, now):
            self._report(repair, "leadership is handed over first")
            self._resign(repair, now)
        else:
            self._fetch_from_next(repair, now)

    def _end(self, repair: Repair) -> None:
        self.active.pop(repair.replica.key, None)
        self._state.findings.clear(CORRUPT_BATCH, repair.replica.partition.name)

    def _retry_after(self, repair: Repair, now: int, delay_ms: int) -> None:
        repair.busy = False
        repair.due = now + delay_ms

    def _backoff(self, repair: Repair) -> int:
        return min(self._state.config.replica_fetch_backoff_ms << min(repair.failures, 8), MAX_BACKOFF_MS)

    # --- verifying ---------------------------------------------------------------------------------------------------

    def _verify(self, repair: Repair) -> None:
        log = repair.replica.log
        base = next(iter(repair.suspects))
        segment = log.find_segment(base)
        work = Verification(log, segment, limit_offset=log.leo)
        repair.busy = True
        self._state.out.sync(work, lambda now: self._on_verified(repair, base, work, now))

    def _on_verified(self, repair: Repair, base: int, work: Verification, now: int) -> None:
        replica = repair.replica
        self._retry_after(repair, now, 0)
        if work.is_current():
            work.mark_verified()
            del repair.suspects[base]
            damage = replica.log.damage
            if damage.of_segment(work.segment.base) != work.damaged:
                damage.replace_segment(work.segment.base, work.damaged)
            if work.index_is_wrong:
                work.segment.rebuild_index()
                self._state.out.note("index_rebuilt", partition=replica.partition.name, segment=work.segment.base)
            if not work.damaged:
                work.segment.broken = False
                self._state.out.note("batch_sound", partition=replica.partition.name, segment=work.segment.base)
            replica.wake_fetches(self._state.woken)
        self._finish_step(now)

    # --- handing leadership over -------------------------------------------------------------------------------------

    def _should_resign(self, repair: Repair, now: int) -> bool:
        """D6: only if another member can lead, and not often: leadership would circulate among damaged members."""
        hopeless = repair.sole_leader or repair.replica.log.damage.irreparable or now < repair.resign_after
        return not hopeless and self._has_other_isr_member(repair.replica)

    def _has_other_isr_member(self, replica: Replica) -> bool:
        return any(
            broker != self._state.broker_id and not self._state.cluster.is_fenced(broker)
            for broker in replica.partition.isr
        )

    def _resign(self, repair: Repair, now: int) -> None:
        """D6: ask the controller to elect another member of the ISR before this replica repairs its log."""
        controller = self._state.cluster.controller_id
        if controller < 0:
            self._retry_after(repair, now, self._state.config.alter_partition_backoff_ms)
            return
        topic_id, index = repair.replica.key
        partition = assign_replicas_to_dirs.RequestPartition(partition_index=index)
        topic = assign_replicas_to_dirs.RequestTopic(topic_id=topic_id, partitions=(partition,))
        directory = assign_replicas_to_dirs.RequestDirectory(id_=LOST_DIRECTORY, topics=(topic,))
        request = assign_replicas_to_dirs.AssignReplicasToDirsRequest(
            broker_id=self._state.broker_id, broker_epoch=self._state.cluster.broker_epoch, directories=(directory,)
        )
        repair.busy = True

        def on_response(response: assign_replicas_to_dirs.AssignReplicasToDirsResponse | None, now: int) -> None:
            self._retry_after(repair, now, self._state.config.alter_partition_backoff_ms)
            if response is not None and response.error_code is ErrorCode.none:
                results = [p for d in response.directories for t in d.topics for p in t.partitions]
                repair.resign_after = now + MIN_RESIGN_INTERVAL_MS
                repair.sole_leader = any(p.error_code is ErrorCode.eligible_leaders_not_available for p in results)
            self._finish_step(now)

        timeout = self._state.config.alter_partition_timeout_ms
        self._state.out.send(controller, CONTROLLER_CHANNEL, request, on_response, timeout)

    # --- fetching the range again ------------------------------------------------------------------------------------

    def _fetch_from_next(self, repair: Repair, now: int) -> None:
        replica = repair.replica
        repair.sole_leader = False  # ask the controller again in the next round
        if not repair.sources:
            repair.sources = self._candidates(replica)
            repair.exhausted.clear()
        if not repair.sources:
            self._on_round_failed(repair, now)
            return
        source = repair.sources.pop(0)
        self._report(repair, f"fetching it again from broker {source}", stuck=isinstance(replica.role, Leader))
        self._fetch(repair, source, Replacement(replica.log, replica.log.damage.ranges[0]), now)

    def _candidates(self, replica: Replica) -> list[int]:
        """The leader first, because it has every committed record."""
        partition = replica.partition
        order = dict.fromkeys([partition.leader, *partition.isr, *partition.replicas])
        return [
            broker
            for broker in order
            if broker >= 0 and broker != self._state.broker_id and not self._state.cluster.is_fenced(broker)
        ]

    def _fetch(self, repair: Repair, source: int, replacement: Replacement, now: int) -> None:
        repair.busy = True
        replica = repair.replica

        def on_response(response: fetch.FetchResponse | None, now: int) -> None:
            repair.busy = False
            problem = self._add_fetched(replacement, response)
            if problem is not None:
                self._on_source_failed(repair, source, problem, now)
            elif replacement.is_complete:
                self._write(repair, source, replacement, now)
            else:
                self._fetch(repair, source, replacement, now)
            self._finish_step(now)

        request = _make_request(replica, replacement.fetch_offset)
        self._state.out.send(source, CHANNEL, request, on_response, self._state.config.replica_fetch_timeout_ms)

    def _add_fetched(self, replacement: Replacement, response: fetch.FetchResponse | None) -> str | None:
        if response is None:
            return NO_RESPONSE
        partitions = [data for topic in response.responses for data in topic.partitions]
        error = response.error_code
        if error is ErrorCode.none:
            if not partitions:
                return "its response lacks the partition"
            error = partitions[0].error_code
        if error is not ErrorCode.none:
            return f"it answers {error.name}"
        before = replacement.next_offset
        problem = replacement.add(partitions[0].records or b"")
        if problem is None and replacement.next_offset == before:
            problem = f"it has nothing committed at offset {before}"
        return "the damaged range is too large" if replacement.size > MAX_RANGE_BYTES else problem

    def _on_source_failed(self, repair: Repair, source: int, why: str, now: int) -> None:
        name = repair.replica.partition.name
        self._state.out.note("repair_failed", partition=name, source=source, why=why)
        repair.why = f"broker {source}: {why}"
        if why != NO_RESPONSE:
            repair.exhausted[source] = None
        self._retry_after(repair, now, 0)
        if not repair.sources:
            self._on_round_failed(repair, now)

    def _on_round_failed(self, repair: Repair, now: int) -> None:
        """No running replica has an intact copy, but a stopped one may have one."""
        partition, damage = repair.replica.partition, repair.replica.log.damage
        others = [broker for broker in partition.replicas if broker != self._state.broker_id]
        damage.irreparable = all(broker in repair.exhausted for broker in others)
        if damage.irreparable:
            status = "no other replica has an intact copy: restore the file from a backup, or delete the records"
        else:
            down = [broker for broker in others if broker not in repair.exhausted]
            status = f"waiting for broker {', '.join(map(str, down))}, which may have an intact copy"
        self._report(repair, f"{status} ({repair.why})" if repair.why else status, stuck=True)
        # The file may be restored in the meantime, so verify it again before the next round.
        repair.suspects.update(dict.fromkeys(damaged.segment_base for damaged in damage.ranges))
        repair.failures += 1
        self._retry_after(repair, now, self._backoff(repair))

    # --- writing -----------------------------------------------------------------------------------------------------

    def _write(self, repair: Repair, source: int, replacement: Replacement, now: int) -> None:
        log, damaged = repair.replica.log, replacement.damaged
        if damaged not in log.damage.ranges or not log.damage.ranges:
            self._retry_after(repair, now, 0)
            return
        work = SegmentRepair(log, replacement)
        repair.busy = True

        def done(now: int) -> None:
            self._retry_after(repair, now, 0)
            repair.sources.clear()
            if self._state.replicas.get(repair.replica.key) is not repair.replica:
                work.abandon()
            elif work.finish():
                repair.failures = 0
                self.repaired += 1
                name = repair.replica.partition.name
                offsets = (damaged.start_offset, damaged.end_offset)
                self._state.out.note("batch_repaired", partition=name, offsets=offsets, source=source)
                self._state.changed[repair.replica] = None
                repair.replica.wake_fetches(self._state.woken)
            else:
                log.damage.remove(damaged)
                repair.suspects[log.find_segment(damaged.start_offset).base] = None
            self._finish_step(now)

        self._state.out.sync(work, done)

    # --- reporting ---------------------------------------------------------------------------------------------------

    def _report(self, repair: Repair, status: str, *, stuck: bool = False) -> None:
        replica = repair.replica
        ranges = replica.log.damage.ranges
        more = f" (and {len(ranges) - 1} more ranges)" if len(ranges) > 1 else ""
        critical = stuck and (replica.log.damage.irreparable or isinstance(replica.role, Leader))
        text = f"{ranges[0]}{more}. These records are not served; {status}."
        self._state.findings.report(CORRUPT_BATCH, replica.partition.name, text, CRITICAL if critical else WARNING)


def _make_request(replica: Replica, offset: int) -> fetch.FetchRequest:
    topic_id, index = replica.key
    partition = fetch.FetchPartition(
        partition=index,
        current_leader_epoch=replica.partition.leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=FETCH_BYTES,
    )
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=DEBUG_CONSUMER, replica_epoch=-1),
        max_wait=ms(0),
        min_bytes=0,
        max_bytes=FETCH_BYTES,
        isolation_level=0,
        session_id=NO_SESSION,
        session_epoch=FINAL_EPOCH,
        topics=(fetch.FetchTopic(topic_id=topic_id, partitions=(partition,)),),
        forgotten_topics_data=(),
    )
