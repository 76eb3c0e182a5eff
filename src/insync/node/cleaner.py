"""Schedules log compaction: one log at a time, the most urgent first, a little in every step.

It knows only logs with cleanup.policy=compact that have changed; a broker without such logs has no timer for it. A pass
whose log was truncated or deleted meanwhile is dropped and starts again later.

Notes: log_compacted(partition, clean_to, removed_bytes, segments).
"""

from __future__ import annotations

from collections.abc import Callable

from insync.node.config import NodeConfig
from insync.replication.replica import Replica
from insync.sansio import Outbox
from insync.storage import compaction
from insync.storage.compaction import Compaction
from insync.storage.disk import SyncLater
from insync.storage.log import Log
from insync.storage.log_store import LogKey, LogStore


class Cleaner:
    def __init__(
        self,
        config: NodeConfig,
        log_store: LogStore,
        out: Outbox,
        on_damage: Callable[[LogKey, int, int], None] | None = None,
    ) -> None:
        """`on_damage`: called with (log, offset, now) when a pass stopped at a damaged batch (D6)."""
        self._on_damage = on_damage
        self._config = config
        self._log_store = log_store
        self._out = out
        self._logs: dict[Log, _Progress] = {}
        self._pass: Compaction | None = None
        self._check_at: int | None = None
        self._step_at: int | None = None  # also None while waiting for a sync

    def on_change(self, replica: Replica, now: int) -> None:
        """A log with compaction has changed."""
        if replica.log not in self._logs:
            self._logs[replica.log] = _Progress(replica.key, replica.partition.name)
        if self._check_at is None:
            self._check_at = now + self._config.cleaner_interval_ms

    def next_deadline(self) -> int | None:
        return self._check_at if self._pass is None else self._step_at

    def tick(self, now: int) -> None:
        if self._pass is None and self._check_at is not None and now >= self._check_at:
            self._begin(now)
        if self._pass is not None and self._step_at is not None and now >= self._step_at:
            self._step(self._pass, now)

    @property
    def _wall_offset(self) -> int:
        return self._config.wall_offset_ms

    def _begin(self, now: int) -> None:
        self._forget_stale()
        self._check_at = now + self._config.cleaner_interval_ms if self._logs else None
        wall = now + self._wall_offset
        ranked = [(compaction.urgency(log, it.first_dirty(log), wall), log) for log, it in self._logs.items()]
        urgent, log = max(ranked, key=lambda pair: pair[0], default=(0.0, None))
        if log is not None and urgent > 0:
            first_dirty = self._logs[log].first_dirty(log)
            self._pass = Compaction(log, first_dirty, wall, self._config.cleaner_max_keys)
            self._step_at = now

    def _forget_stale(self) -> None:
        """T7: logs that were deleted, and those that are no longer compacted."""
        logs = self._log_store.logs
        for log in [log for log, it in self._logs.items() if logs.get(it.key) is not log or not log.config.compacts]:
            del self._logs[log]

    def _step(self, work: Compaction, now: int) -> None:
        if self._log_store.logs.get(self._logs[work.log].key) is not work.log:
            work.abort()
        sync = None if work.done else work.step(self._config.cleaner_step_bytes)
        self._step_at = now + self._config.cleaner_step_ms
        if sync is not None:
            self._step_at = None
            self._out.sync(_Job(sync), self._synced)
        elif work.done:
            self._finish(work, now)

    def _synced(self, now: int) -> None:
        self._step_at = now
        self.tick(now)

    def _finish(self, work: Compaction, now: int) -> None:
        self._pass = self._step_at = None
        self._check_at = now + (self._config.cleaner_interval_ms if work.aborted else 0)  # another log may be waiting
        it = self._logs[work.log]
        if work.damaged_at is not None and self._on_damage is not None:
            self._on_damage(it.key, work.damaged_at, now)
        if not work.aborted:
            it.cleaned(work)
            self._out.note(
                "log_compacted",
                partition=it.name,
                clean_to=work.clean_to,
                removed_bytes=work.removed_bytes,
                segments=work.segments,
            )


class _Progress:
    """How far one log is clean; unknown after a truncation."""

    __slots__ = ("_clean_to", "_truncation_count", "key", "name")

    def __init__(self, key: LogKey, name: str) -> None:
        self.key = key
        self.name = name
        self._clean_to = 0
        self._truncation_count = -1

    def first_dirty(self, log: Log) -> int:
        return self._clean_to if self._truncation_count == log.truncation_count else log.segments[0].base

    def cleaned(self, work: Compaction) -> None:
        self._clean_to = work.clean_to
        self._truncation_count = work.log.truncation_count


class _Job:
    __slots__ = ("_sync",)

    def __init__(self, sync: SyncLater) -> None:
        self._sync = sync

    def run(self) -> None:
        self._sync()
