"""Reads all committed batches from time to time, slowly, to find those that changed on disk (D6).

One log after the other, one segment after the other, a piece at a time: each piece is read and verified off the event
loop, and the next one waits long enough to keep the configured rate. The position of a pass is not stored; after a
restart it starts again. A pass over little data ends early, and the next one starts after the interval.

Notes: scrub_completed(logs, bytes, took_ms).
"""

from __future__ import annotations

from insync.metadata.partition import PartitionKey
from insync.node.config import NodeConfig
from insync.replication.manager import ReplicaManager
from insync.replication.replica import Replica
from insync.sansio import Outbox
from insync.storage.segment import Segment
from insync.storage.verification import Verification

STEP_BYTES = 1 << 18
"""Jobs are short because they share the interpreter with the event loop."""
FIRST_PASS_MS = 60_000
"""After the start, so that a node that restarts often verifies its logs too."""
MAX_SKIPPED = 500
"""Logs without anything to verify that one step may skip."""


class Scrubber:
    def __init__(self, config: NodeConfig, replicas: ReplicaManager, out: Outbox, now: int) -> None:
        self._rate = config.scrub_bytes_per_second
        self._interval_ms = config.scrub_interval_ms
        self._wall_offset_ms = config.wall_offset_ms
        self._replicas = replicas
        self._out = out
        self._due: int | None = now + min(self._interval_ms, FIRST_PASS_MS) if self._rate > 0 else None
        self._to_do: list[PartitionKey] | None = None  # the logs of the pass under way, the next one last
        self._started_at = now
        self._logs = 0
        self._pass_bytes = 0
        self._position = _Position()
        self.passes = 0
        self.bytes = 0
        self.completed_at_ms = 0
        """When the last complete pass ended, by the wall clock; 0: none in this incarnation."""

    def next_deadline(self) -> int | None:
        return self._due

    def tick(self, now: int) -> None:
        if self._due is None or now < self._due:
            return
        if self._to_do is None:
            self._begin(now)
        self._step(now)

    def _begin(self, now: int) -> None:
        self._to_do = list(reversed(self._replicas.replicas))
        self._started_at = now
        self._logs = len(self._to_do)
        self._pass_bytes = 0
        self._position = _Position()

    def _step(self, now: int) -> None:
        """Verify the next piece, or end the pass."""
        skipped = 0
        while self._to_do and skipped < MAX_SKIPPED:
            replica = self._replicas.replicas.get(self._to_do[-1])
            segment = None if replica is None else self._position.next_segment(replica)
            if replica is not None and segment is not None:
                self._verify(replica, segment)
                return
            self._to_do.pop()
            self._position = _Position()
            skipped += 1
        if self._to_do:
            self._due = now
        else:
            self._end(now)

    def _verify(self, replica: Replica, segment: Segment) -> None:
        place, log = self._position, replica.log
        work = Verification(
            log,
            segment,
            limit_offset=log.hwm,
            position=place.position,
            expected=place.expected,
            budget=min(STEP_BYTES, max(1, self._rate)),
        )
        self._due = None
        self._out.sync(work, lambda now: self._verified(replica, work, now))

    def _verified(self, replica: Replica, work: Verification, now: int) -> None:
        self.bytes += work.cost
        self._pass_bytes += work.cost
        self._due = now + work.cost * 1_000 // self._rate
        if not work.is_current():
            self._position.restart_segment()
        else:
            self._position.passed(work)
            work.mark_verified()
            if self._replicas.replicas.get(replica.key) is replica and (work.damaged or work.index_is_wrong):
                offset = work.damaged[0].start_offset if work.damaged else work.segment.base
                self._replicas.suspect(replica, offset, "scrub", now)

    def _end(self, now: int) -> None:
        self._to_do = None
        self._due = max(now, self._started_at + self._interval_ms)
        self.passes += 1
        self.completed_at_ms = now + self._wall_offset_ms
        if self._pass_bytes:
            took = now - self._started_at
            self._out.note("scrub_completed", logs=self._logs, bytes=self._pass_bytes, took_ms=took)


class _Position:
    """How far one log is verified."""

    __slots__ = ("_base", "expected", "position")

    def __init__(self) -> None:
        self._base = 0  # segments below it are done
        self.position = 0
        self.expected = -1

    def next_segment(self, replica: Replica) -> Segment | None:
        log = replica.log
        segment = next((s for s in log.segments if s.base >= self._base and s.size), None)
        if segment is None or segment.base >= log.hwm or (self.expected >= log.hwm and segment.base == self._base):
            return None
        if segment.base != self._base or self.position > segment.size:
            self._base = segment.base
            self.restart_segment()
        return segment

    def restart_segment(self) -> None:
        self.position, self.expected = 0, -1

    def passed(self, work: Verification) -> None:
        self.position, self.expected = work.position, work.expected
        if work.done:
            self._base = work.segment.base + 1
            self.restart_segment()
