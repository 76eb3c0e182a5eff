"""All logs of one broker, and the files that they share.

`log_loader` opens the logs on start. When a recovery point or a log start is lowered, the checkpoints are written at
once, because a stale one could vouch for bytes that were never synced. The regular checkpoint is written off the event
loop, and discarded if the checkpoints were written meanwhile. High watermarks are only hints: the driver writes them.

A log is deleted only by `delete`. Anything else in the way of a new log is set aside as a stray (B9).
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from insync.errors import InvariantError
from insync.findings import Findings
from insync.sansio import Outbox
from insync.storage import checkpoints, clean_shutdown, epoch_cache, log_loader, strays
from insync.storage import disk as disks
from insync.storage.checkpoints import TopicPartition
from insync.storage.clean_shutdown import LogEnd
from insync.storage.config import LogConfig
from insync.storage.disk import Disk
from insync.storage.log import Log
from insync.storage.log_loader import ConfigOf, LogLoader

LogKey = tuple[UUID, int]
PENDING = ".next"
"""Suffix of a checkpoint that has not replaced the previous one yet."""


class OffsetsCheckpoint:
    """The blocking part of a regular checkpoint: writes and syncs its files under temporary names."""

    __slots__ = ("_disk", "files", "writes")

    def __init__(self, disk: Disk, files: dict[str, bytes], writes: int) -> None:
        self._disk = disk
        self.files = files
        self.writes = writes
        """How often the store had written the checkpoints itself when this one was begun."""

    def run(self) -> None:
        for path, data in self.files.items():
            disks.write_plainly(self._disk, path + PENDING, data, sync=True)


class LogStore:
    __slots__ = (
        "_config_of",
        "_disk",
        "_ends",
        "_findings",
        "_lost",
        "_names",
        "_pending_delete",
        "_renamed",
        "_stored",
        "_writes",
        "clean",
        "logs",
        "root",
    )

    def __init__(
        self,
        disk: Disk,
        root: str,
        config_of: ConfigOf | None = None,
        findings: Findings | None = None,
    ) -> None:
        """`config_of` returns the configuration for the logs of a topic, on start; it can be changed later."""
        self._disk = disk
        self.root = root
        self._config_of = config_of or (lambda _: LogConfig())
        self._findings = Findings(Outbox()) if findings is None else findings
        self.logs: dict[LogKey, Log] = {}
        self._names: dict[TopicPartition, LogKey] = {}
        self._stored: dict[TopicPartition, bool] = {}
        self._ends: Mapping[TopicPartition, LogEnd] = {}
        self._lost: dict[TopicPartition, int] = {}
        self._pending_delete: list[str] = []
        self._renamed = False
        self._writes = 0  # of recovery points and log starts, other than the regular ones
        self.clean = False

    def start(self) -> int:
        """Open every log; returns the broker epoch of the last incarnation if it stopped cleanly and its logs did not
        change since, else -1 (B5)."""
        self._disk.mkdir(self.root)
        loaded = LogLoader(self._disk, self.root, self._config_of, self._findings).load()
        self.clean, self._stored, self._lost, self._ends = loaded.clean, loaded.stored, loaded.lost, loaded.ends
        for name, log in loaded.logs.items():
            self._add(name, log)
        self._make_recovery_durable()
        return loaded.broker_epoch

    def create(self, topic: str, index: int, topic_id: UUID, config: LogConfig) -> Log:
        """The log of this partition, created if there is none. A log of another topic of that name is set aside."""
        log = self.logs.get((topic_id, index))
        if log is not None:
            if log.name != f"{topic}-{index}":
                log_loader.report_misnamed(self._findings, log, f"{topic}-{index}")
            return log
        name = (topic, index)
        if name in self._names:
            self.set_aside(*self._names[name], cause="the metadata names another topic with this name")
        if name in self._lost:
            log_loader.report_lost(self._findings, name, self._lost.pop(name))
        if name in self._stored:
            self._forget_offsets()  # those of an earlier log with this name must not be used for the new one
        directory = self._path(f"{topic}-{index}")
        if self._disk.exists(directory):
            self._clear_directory(
                directory, None, "something other than the broker made it while the broker was running"
            )
        log = log_loader.open_log(self._disk, directory, topic_id=topic_id, config=config)
        self._add(name, log)
        return log

    def get(self, topic_id: UUID, index: int) -> Log | None:
        return self.logs.get((topic_id, index))

    def delete(self, topic_id: UUID, index: int) -> None:
        """T7: the log is out of use; `sweep` removes its files."""
        log = self.logs.pop((topic_id, index), None)
        if log is not None:
            self._forget(log)
            self._pending_delete.append(log.delete())

    def sweep(self) -> None:
        """T7: the logs deleted so far, and their files, are gone for good on return."""
        if self._pending_delete or self._renamed:
            self._disk.sync_dir(self.root)
            self._renamed = False
        while self._pending_delete:
            self._disk.rmtree(self._pending_delete.pop())

    def set_aside(self, topic_id: UUID, index: int, cause: str) -> None:
        """B9: stop using the log and keep its directory as a stray; durable with the next `sweep`."""
        log = self.logs.pop((topic_id, index), None)
        if log is None:
            return
        self._forget(log)
        log.close_files()
        self._clear_directory(log.directory, topic_id, cause)

    def names(self) -> dict[TopicPartition, LogKey]:
        """The keys of all logs by (topic, partition)."""
        return dict(self._names)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def checkpoint_high_watermarks(self) -> tuple[str, bytes]:
        """(path, content) for the driver to write atomically, in order."""
        self._stored.update(dict.fromkeys(self._names, True))
        offsets = {name: self.logs[key].hwm for name, key in self._names.items()}
        return self._path(checkpoints.HIGH_WATERMARKS), checkpoints.encode_offsets(offsets)

    def begin_checkpoint(self) -> OffsetsCheckpoint:
        """The regular checkpoint of recovery points and log starts: the driver runs it, then calls `finish_checkpoint`.

        D4: from now on these recovery points count as stored, so a truncation below one of them writes the lower one at
        once, which invalidates this checkpoint.
        """
        self._stored.update(dict.fromkeys(self._names, True))
        files = {checkpoints.RECOVERY_POINTS: self._recovery_points(), checkpoints.LOG_STARTS: self._log_starts()}
        encoded = {self._path(file): checkpoints.encode_offsets(offsets) for file, offsets in files.items()}
        return OffsetsCheckpoint(self._disk, encoded, self._writes)

    def finish_checkpoint(self, job: OffsetsCheckpoint) -> None:
        """The renames need no sync: after a crash the previous checkpoint is just as true, only older."""
        if is_latest(job.writes, self._writes):
            for path in job.files:
                self._disk.rename(path + PENDING, path)

    def checkpoint_recovery_points(self) -> None:
        """Durable on return."""
        self._write(checkpoints.RECOVERY_POINTS, self._recovery_points())

    def checkpoint_log_starts(self) -> None:
        """Durable on return."""
        self._write(checkpoints.LOG_STARTS, self._log_starts())

    def _recovery_points(self) -> dict[TopicPartition, int]:
        for log in self.logs.values():
            log.stored_recovery_point = log.recovery_point
        return {name: self.logs[key].recovery_point for name, key in self._names.items()}

    def _log_starts(self) -> dict[TopicPartition, int]:
        """Only those that are above the first segment's base offset."""
        logs = {name: self.logs[key] for name, key in self._names.items()}
        return {name: log.log_start for name, log in logs.items() if log.log_start > log.segments[0].base}

    # --- closing -----------------------------------------------------------------------------------------------------

    def close_cleanly(self, broker_epoch: int) -> None:
        """B5: flush every log, then record the broker epoch and where each log ends."""
        clean_shutdown.close_all(self._disk, self.logs.values())
        self._write_offsets()
        disks.write_atomically(self._disk, *self.checkpoint_high_watermarks())
        ends = {
            name: clean_shutdown.describe(self.logs[key], self._ends.get(name)) for name, key in self._names.items()
        }
        clean_shutdown.write(self._disk, self.root, broker_epoch, ends)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _make_recovery_durable(self) -> None:
        """D4: make the truncations durable that recovery made, or that the last incarnation made and did not sync, for
        all logs at once. D1: and the epoch tables with them."""
        stale = [log.epochs for log in self.logs.values() if log.epochs.stale]
        if not stale and not any(log.truncation_pending_sync for log in self.logs.values()):
            return
        epoch_cache.persist_all(self._disk, stale)
        if any(log.stored_recovery_point > log.recovery_point for log in self.logs.values()):
            self._write_offsets()
        for log in self.logs.values():
            log.truncation_pending_sync = False

    def _forget(self, log: Log) -> None:
        """Forget the name and the findings of a log."""
        del self._names[_name_of(log)]
        self._findings.clear(log_loader.LOG_DAMAGED, log.name)
        self._findings.clear(log_loader.LOG_TRUNCATED, log.name)
        self._findings.clear(log_loader.DROPPED_SEGMENTS, log.name)

    def _clear_directory(self, directory: str, topic_id: UUID | None, cause: str) -> None:
        """B9: a directory with records is set aside, and never deleted because no partition claims it."""
        if strays.has_records(self._disk, directory):
            stray = strays.set_aside(self._disk, directory, topic_id, cause)
            self._renamed = True
            log_loader.report_stray(self._findings, self._disk, stray, cause)
        else:
            self._disk.rmtree(directory)

    def _add(self, name: TopicPartition, log: Log) -> None:
        key = (log.topic_id, name[1])
        if key in self.logs:
            raise InvariantError("one_log", f"{log.directory} and {self.logs[key].directory} are the same partition")
        self.logs[key] = log
        self._names[name] = key
        log.on_offsets_lowered = self._write_offsets

    def _write_offsets(self) -> None:
        self.checkpoint_recovery_points()
        self.checkpoint_log_starts()

    def _forget_offsets(self) -> None:
        self._write_offsets()
        disks.write_atomically(self._disk, *self.checkpoint_high_watermarks())
        self._stored = dict.fromkeys(self._names, True)

    def _write(self, file: str, offsets: dict[TopicPartition, int]) -> None:
        self._stored.update(dict.fromkeys(self._names, True))
        self._writes += 1
        disks.write_atomically(self._disk, self._path(file), checkpoints.encode_offsets(offsets))

    def _path(self, name: str) -> str:
        return disks.join(self.root, name)


def is_latest(begun_at: int, writes: int) -> bool:
    """Safeguard, D4: a checkpoint that was begun before a recovery point was lowered does not replace the lower one."""
    return begun_at == writes


def _name_of(log: Log) -> TopicPartition:
    topic, _, index = log.directory.rpartition("/")[2].rpartition("-")
    return topic, int(index)
