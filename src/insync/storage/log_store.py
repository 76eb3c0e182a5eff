"""All logs of one broker, and the files they share.

On start the clean-shutdown file decides (B5): with it, every log ends at its recovery point and no batch is read;
without it, every log is recovered. The recovery points and log starts are written here and now, because a stale one
written late could vouch for bytes that were never synced; high watermarks are only hints, and are handed to the
driver to write.

A directory whose name says that it is being deleted is removed on start. One without a topic id is left alone.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from insync.errors import InvariantViolation
from insync.storage import checkpoints, closing, opening
from insync.storage import disk as disks
from insync.storage.checkpoints import TopicPartition
from insync.storage.config import LogConfig
from insync.storage.disk import Disk
from insync.storage.log import Log

LogKey = tuple[UUID, int]
ConfigOf = Callable[[str], LogConfig]


class LogStore:
    __slots__ = ("_config_of", "_disk", "_doomed", "_names", "_stored", "clean", "logs", "now", "root")

    def __init__(self, disk: Disk, root: str, now: int, config_of: ConfigOf | None = None) -> None:
        """`config_of` gives the settings of the logs found on start, by topic name; they can be set later."""
        self._disk = disk
        self.root = root
        self.now = now
        self._config_of = config_of or (lambda _: LogConfig())
        self.logs: dict[LogKey, Log] = {}
        self._names: dict[TopicPartition, LogKey] = {}
        self._stored: dict[TopicPartition, bool] = {}
        self._doomed: list[str] = []
        self.clean = False

    def start(self) -> int:
        """Open every log; returns the broker epoch of the last uptime if it ended cleanly, else -1 (B5)."""
        self._disk.mkdir(self.root)
        epoch = checkpoints.take_clean_shutdown(self._disk, self.root)
        self.clean = epoch is not None
        recovery_points = self._read(checkpoints.RECOVERY_POINTS)
        log_starts = self._read(checkpoints.LOG_STARTS)
        high_watermarks = self._read(checkpoints.HIGH_WATERMARKS)
        self._stored = dict.fromkeys([*recovery_points, *log_starts, *high_watermarks], True)
        for name in self._disk.listdir(self.root):
            if name.endswith("-delete"):
                self._disk.rmtree(self._path(name))
            elif (key := _parse(name)) is not None:
                self._open(key, recovery_points.get(key), log_starts.get(key, 0), high_watermarks.get(key, 0))
        self._settle()
        return checkpoints.NO_BROKER_EPOCH if epoch is None else epoch

    def create(self, topic: str, index: int, topic_id: UUID, config: LogConfig) -> Log:
        """The log of this partition, made if there is none; a log of an earlier topic of that name goes."""
        log = self.logs.get((topic_id, index))
        if log is not None:
            return log
        name = (topic, index)
        if name in self._names:
            self.delete(*self._names[name])
            self.sweep()
        if name in self._stored:
            self._forget_offsets()  # offsets kept for a log that had this name must not be taken for the new one's
        directory = self._path(f"{topic}-{index}")
        if self._disk.exists(directory):
            self._disk.rmtree(directory)  # a directory that was not opened on start is of no known topic
        log = Log.create_or_open(self._disk, directory, topic_id=topic_id, config=config, now=self.now)
        self._add(name, log)
        return log

    def get(self, topic_id: UUID, index: int) -> Log | None:
        return self.logs.get((topic_id, index))

    def delete(self, topic_id: UUID, index: int) -> None:
        """T7: nobody finds the log any more; `sweep` removes what is left of it."""
        log = self.logs.pop((topic_id, index), None)
        if log is not None:
            del self._names[log.directory.rpartition("/")[2].rpartition("-")[0], index]
            self._doomed.append(log.delete())

    def sweep(self) -> None:
        """T7: the logs deleted so far are gone for good on return, and with them their files."""
        if self._doomed:
            self._disk.sync_dir(self.root)
        while self._doomed:
            self._disk.rmtree(self._doomed.pop())

    def names(self) -> dict[TopicPartition, LogKey]:
        """(topic, index) of every log, to find those the cluster no longer knows."""
        return dict(self._names)

    # --- checkpoints -------------------------------------------------------------------------------------------------

    def checkpoint_high_watermarks(self) -> tuple[str, bytes]:
        """(path, content) to be written atomically, in order, when the driver gets to it."""
        self._stored.update(dict.fromkeys(self._names, True))
        offsets = {name: self.logs[key].hwm for name, key in self._names.items()}
        return self._path(checkpoints.HIGH_WATERMARKS), checkpoints.encode_offsets(offsets)

    def checkpoint_recovery_points(self) -> None:
        """Written and durable on return."""
        for log in self.logs.values():
            log.stored_recovery_point = log.recovery_point
        self._write(checkpoints.RECOVERY_POINTS, {n: self.logs[key].recovery_point for n, key in self._names.items()})

    def checkpoint_log_starts(self) -> None:
        """Only those that the first segment's name does not tell. Written and durable on return."""
        logs = {name: self.logs[key] for name, key in self._names.items()}
        starts = {name: log.log_start for name, log in logs.items() if log.log_start > log.segments[0].base}
        self._write(checkpoints.LOG_STARTS, starts)

    # --- the end -----------------------------------------------------------------------------------------------------

    def close_cleanly(self, broker_epoch: int) -> None:
        """B5: flush every log, then say in the clean-shutdown file which uptime it was that ended well."""
        closing.close_all(self._disk, self.logs.values())
        self._write_offsets()
        disks.write_atomically(self._disk, *self.checkpoint_high_watermarks())
        checkpoints.write_clean_shutdown(self._disk, self.root, broker_epoch)

    def release(self) -> None:
        """Close the files without a word, as a crash would."""
        for log in self.logs.values():
            log.release()

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """D4: what recovery cut, or the last uptime cut and did not sync, is cut for good; of all logs at once. D1: so
        are the epochs that went with it."""
        stale = [log.epochs for log in self.logs.values() if log.epochs.stale]
        if not stale and not any(log.unsettled for log in self.logs.values()):
            return
        closing.replace_all(self._disk, stale)
        if any(log.stored_recovery_point > log.recovery_point for log in self.logs.values()):
            self._write_offsets()
        for log in self.logs.values():
            log.unsettled = False

    def _open(self, name: TopicPartition, recovery_point: int | None, log_start: int, hwm: int) -> None:
        directory = self._path(f"{name[0]}-{name[1]}")
        topic_id = opening.read_topic_id(self._disk, directory)
        if topic_id is None:
            return
        log = Log.create_or_open(
            self._disk,
            directory,
            topic_id=topic_id,
            config=self._config_of(name[0]),
            now=self.now,
            recovery_point=recovery_point or 0,
            clean=self.clean and recovery_point is not None,
            log_start=log_start,
            settle=False,
        )
        log.set_hwm(hwm)
        self._add(name, log)

    def _add(self, name: TopicPartition, log: Log) -> None:
        key = (log.topic_id, name[1])
        if key in self.logs:
            raise InvariantViolation(
                "one_log", f"{log.directory} and {self.logs[key].directory} are the same partition"
            )
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

    def _read(self, file: str) -> dict[TopicPartition, int]:
        data = disks.read_if_exists(self._disk, self._path(file))
        return (checkpoints.decode_offsets(data) if data is not None else None) or {}

    def _write(self, file: str, offsets: dict[TopicPartition, int]) -> None:
        self._stored.update(dict.fromkeys(self._names, True))
        disks.write_atomically(self._disk, self._path(file), checkpoints.encode_offsets(offsets))

    def _path(self, name: str) -> str:
        return disks.join(self.root, name)


def _parse(name: str) -> TopicPartition | None:
    topic, dash, index = name.rpartition("-")
    return (topic, int(index)) if dash and topic and index.isdecimal() and index.isascii() else None
