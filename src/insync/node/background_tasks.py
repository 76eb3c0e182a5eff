"""A broker's periodic work: checkpoints, background flushes, retention, compaction.

Flushes and checkpoints are effects that run off the event loop. A log's recovery point moves only when its flush is
done, so a checkpoint never claims more than the disk holds.

Notes: segments_deleted; those of cleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from insync.node.cleaner import Cleaner
from insync.node.config import NodeConfig
from insync.replication.manager import ReplicaManager
from insync.replication.replica import Replica
from insync.sansio import Outbox
from insync.storage.log import Log
from insync.storage.log_store import LogKey, LogStore


class BackgroundTasks:
    def __init__(
        self, config: NodeConfig, log_store: LogStore, replicas: ReplicaManager, out: Outbox, now: int
    ) -> None:
        self._log_store = log_store
        self._replicas = replicas
        self._out = out
        self._wall_offset = config.wall_offset_ms
        self._cleaner = Cleaner(config, log_store, out, self._on_damage)
        self._checkpointing = False
        self._unflushed: dict[Log, LogKey] = {}  # in the order in which they were written to
        self._tasks = [
            PeriodicTask(config.hwm_checkpoint_interval_ms, self._checkpoint_high_watermarks, now),
            PeriodicTask(config.recovery_point_checkpoint_interval_ms, self._checkpoint_offsets, now),
            PeriodicTask(config.flush_check_interval_ms, self._flush, now),
            PeriodicTask(config.retention_check_interval_ms, self._apply_retention, now),
        ]
        self._next_due = min(task.due for task in self._tasks)

    def on_replicas_changed(self, replicas: Iterable[Replica], now: int) -> None:
        for replica in replicas:
            log = replica.log
            if log.leo > log.recovery_point:
                self._unflushed[log] = replica.key
            if log.config.compacts:
                self._cleaner.on_change(replica, now)

    def tick(self, now: int) -> None:
        self._cleaner.tick(now)
        if now < self._next_due:
            return
        for task in self._tasks:
            if now >= task.due:
                task.due = now + task.interval
                task.run(now)
        self._next_due = min(task.due for task in self._tasks)

    def next_deadline(self) -> int:
        cleaning = self._cleaner.next_deadline()
        return self._next_due if cleaning is None else min(self._next_due, cleaning)

    def _on_damage(self, key: LogKey, offset: int, now: int) -> None:
        replica = self._replicas.replicas.get(key)
        if replica is not None:
            self._replicas.suspect(replica, offset, "compaction", now)

    def _checkpoint_high_watermarks(self, now: int) -> None:
        self._out.write_file(*self._log_store.checkpoint_high_watermarks())

    def _checkpoint_offsets(self, now: int) -> None:
        """One at a time: on a slow disk the previous one may still be running."""
        if self._checkpointing:
            return
        self._checkpointing = True
        job = self._log_store.begin_checkpoint()

        def on_done(_now: int) -> None:
            self._checkpointing = False
            self._log_store.finish_checkpoint(job)

        self._out.sync(job, on_done)

    @property
    def unflushed(self) -> int:
        return len(self._unflushed)

    def _flush(self, now: int) -> None:
        """Flush the logs that are due; the others wait for the next check."""
        self._forget_deleted()
        for log in [log for log in self._unflushed if log.is_flush_due(now)]:
            del self._unflushed[log]
            self._begin_flush(log)

    def _forget_deleted(self) -> None:
        """T7: a deleted log has no files to sync."""
        logs = self._log_store.logs
        for log in [log for log, key in self._unflushed.items() if logs.get(key) is not log]:
            del self._unflushed[log]

    def _begin_flush(self, log: Log) -> None:
        job = log.begin_flush()
        self._out.sync(job, lambda _now: log.finish_flush(job))

    def _apply_retention(self, now: int) -> None:
        moved = []
        for replica in self._replicas.replicas.values():
            if replica.log.apply_retention(now + self._wall_offset):
                moved.append(replica)
                self._out.note("segments_deleted", partition=replica.partition.name, log_start=replica.log.log_start)
        if moved:
            self._replicas.on_log_starts_moved(moved, now)


class PeriodicTask:
    __slots__ = ("due", "interval", "run")

    def __init__(self, interval: int, run: Callable[[int], None], now: int) -> None:
        self.interval = interval
        self.run = run
        self.due = now + interval
