"""Opening one log (`open_log`), and all logs of a broker when it starts (`LogLoader`).

After a clean stop every log must be as the clean-shutdown file says (B5). A log that is missing, ends earlier or has
other segments makes the start unclean, and is recovered. What the clean stop recorded is used instead of the
checkpoints, which have no checksums. Without such a record (an unclean stop, or a stop of Apache Kafka) the checkpoints
are used.

Every difference from what the last stop left becomes a finding: `log_damaged` if synced records are missing,
`log_truncated` if recovery truncated a log, `file_rebuilt` if a small file was rebuilt, `stray_directory` if a
directory cannot be a log of this broker (B9), `dropped_segments` while there are segments that recovery took out of a
log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from insync.findings import CRITICAL, INFO, WARNING, Findings
from insync.storage import checkpoints, clean_shutdown, recovery, segment_swap, strays
from insync.storage import disk as disks
from insync.storage.checkpoints import NO_BROKER_EPOCH, PartitionMetadata, TopicPartition
from insync.storage.clean_shutdown import CleanShutdown, LogEnd
from insync.storage.config import LogConfig
from insync.storage.disk import Disk
from insync.storage.epoch_cache import EpochCache, read_checkpoint
from insync.storage.file_names import parse_directory
from insync.storage.log import Log
from insync.storage.producer_state import ProducerStates
from insync.storage.recovery import OpenedLog
from insync.storage.segment import Segment

ConfigOf = Callable[[str], LogConfig]

LOG_DAMAGED = "log_damaged"
LOG_TRUNCATED = "log_truncated"
FILE_REBUILT = "file_rebuilt"
STRAY_DIRECTORY = "stray_directory"
DROPPED_SEGMENTS = "dropped_segments"
MISNAMED_DIRECTORY = "misnamed_directory"

_Offsets = dict[TopicPartition, int]


@dataclass(slots=True)
class LoadedLogs:
    logs: dict[TopicPartition, Log] = field(default_factory=dict)
    clean: bool = False
    broker_epoch: int = NO_BROKER_EPOCH
    """B5: that of the last incarnation if it stopped cleanly and its logs did not change since, else -1."""
    stored: dict[TopicPartition, bool] = field(default_factory=dict)
    """The partitions in any checkpoint."""
    lost: _Offsets = field(default_factory=dict)
    """Partitions whose log is missing although its records were synced up to this offset."""
    ends: Mapping[TopicPartition, LogEnd] = field(default_factory=dict)
    """How the last clean stop left the logs."""


class LogLoader:
    __slots__ = (
        "_config_of",
        "_disk",
        "_ends",
        "_findings",
        "_hwms",
        "_loaded",
        "_log_starts",
        "_points",
        "_root",
        "_stopped_cleanly",
    )

    def __init__(self, disk: Disk, root: str, config_of: ConfigOf, findings: Findings) -> None:
        self._disk = disk
        self._root = root
        self._config_of = config_of
        self._findings = findings
        self._loaded = LoadedLogs()
        self._stopped_cleanly = False
        self._ends: Mapping[TopicPartition, LogEnd] | None = None
        self._points: _Offsets = {}
        self._log_starts: _Offsets = {}
        self._hwms: _Offsets = {}

    def load(self) -> LoadedLogs:
        loaded = self._loaded
        shutdown = clean_shutdown.take(self._disk, self._root)
        self._stopped_cleanly = loaded.clean = shutdown is not None
        self._read_offsets(shutdown)
        for name in self._disk.listdir(self._root):
            if name.endswith(strays.DELETE):
                self._disk.rmtree(self._path(name))
            elif strays.is_stray(name):
                report_stray(self._findings, self._disk, self._path(name))
            elif (partition := parse_directory(name)) is not None:
                self._load(partition)
        self._reject_copies()
        self._find_missing()
        if shutdown is not None and loaded.clean:
            loaded.broker_epoch = shutdown.broker_epoch
        return loaded

    # --- one log -------------------------------------------------------------------------------------------------

    def _load(self, partition: TopicPartition) -> None:
        directory = self._path(f"{partition[0]}-{partition[1]}")
        try:
            self._open(partition, directory)
        except OSError as error:
            # A segment that is listed and cannot be found is a dangling symbolic link.
            if not disks.is_read_error(error) and not isinstance(error, FileNotFoundError):
                raise
            self._reject(directory, None, f"it cannot be opened ({error})")

    def _open(self, partition: TopicPartition, directory: str) -> None:
        metadata = read_partition_metadata(self._disk, directory)
        if metadata is not None and metadata.partition not in (None, partition[1]):
            # Its offsets and epochs would fit, so no leader would notice that it holds other records.
            owner = f"{partition[0]}-{metadata.partition}"
            self._reject(directory, metadata.topic_id, f"partition.metadata says that it is the log of {owner}", owner)
            return
        end = self._ends.get(partition) if self._ends is not None else None
        damage = self._find_damage(partition, directory, end)
        topic_id = self._identify(directory, end, damage)
        if topic_id is None:
            self._reject(directory, None, "its partition.metadata, which has the topic id, is missing or damaged")
            return
        if self._is_front_missing(directory, end, damage):
            self._reject(directory, topic_id, "its first segment is missing")
            return
        log = open_log(
            self._disk,
            directory,
            topic_id=topic_id,
            config=self._config_of(partition[0]),
            recovery_point=self._points.get(partition, 0),
            clean=self._may_skip_recovery(partition, directory, end, damage),
            log_start=self._log_starts.get(partition, 0),
            make_durable=False,
        )
        hwm = self._hwms.get(partition, 0)
        log.set_hwm(hwm)
        self._loaded.logs[partition] = log
        self._report(partition, log, damage, hwm)
        report_dropped(self._findings, self._disk, log)

    def _find_damage(self, partition: TopicPartition, directory: str, end: LogEnd | None) -> str | None:
        """B5: how this log differs from what the clean stop left; None if it does not, or if the stop was unclean."""
        if not self._stopped_cleanly:
            return None
        if end is not None:
            return clean_shutdown.find_damage(self._disk, directory, end)
        if self._ends is not None:
            return "the last clean stop did not record this log"
        point = self._points.get(partition)
        return None if point is None else recovery.find_other_end(self._disk, directory, point)

    def _may_skip_recovery(
        self, partition: TopicPartition, directory: str, end: LogEnd | None, damage: str | None
    ) -> bool:
        if end is not None:
            return damage is None and clean_shutdown.has_epochs_and_producers(self._disk, directory, end)
        return self._stopped_cleanly and damage is None and partition in self._points

    def _identify(self, directory: str, end: LogEnd | None, damage: str | None) -> UUID | None:
        """The topic id. If the log is exactly as the clean stop recorded it, then so is its id: it replaces a
        partition.metadata that is missing or differs."""
        topic_id = read_topic_id(self._disk, directory)
        if end is None or topic_id == end.topic_id or damage is not None:
            return topic_id
        path = f"{directory}/{checkpoints.PARTITION_METADATA}"
        text = f"{path} was missing or damaged; it was restored from what the last clean stop recorded."
        self._findings.report(FILE_REBUILT, directory, text, INFO)
        return end.topic_id

    def _is_front_missing(self, directory: str, end: LogEnd | None, damage: str | None) -> bool:
        """A log without its first segments is not a prefix of the committed log: it could join an ISR and then lead
        without the first records.

        The clean-shutdown file has the start of the first segment. Without it, the epoch table does: retention raises
        its first offset, durably, before it removes a segment.
        """
        if end is not None and damage is None:
            return False
        bases = list(recovery.segment_sizes(self._disk, directory))
        if not bases:
            return False
        if end is not None:
            return bool(end.segments) and bases[0] > end.segments[0][0]
        epochs = read_checkpoint(self._disk, directory)
        return epochs is not None and len(epochs) > 0 and bases[0] > epochs[0][1]

    def _reject_copies(self) -> None:
        """B9: of two directories of one partition, one is a copy under another name, and is set aside."""
        kept: dict[tuple[UUID, int], TopicPartition] = {}
        for partition in sorted(self._loaded.logs, key=self._trust, reverse=True):
            log = self._loaded.logs[partition]
            original = kept.setdefault((log.topic_id, partition[1]), partition)
            if original != partition:
                del self._loaded.logs[partition]
                log.close_files()
                self._findings.clear(LOG_DAMAGED, log.name)
                cause = f"{original[0]}-{original[1]} has the same topic id and is the log of this partition"
                self._reject(log.directory, log.topic_id, cause)

    def _trust(self, partition: TopicPartition) -> tuple[bool, bool, int]:
        """Sort key, the original last: the broker recorded this name, or its log is longer than the copy."""
        log = self._loaded.logs[partition]
        recorded = self._ends.get(partition) if self._ends is not None else None
        was_stopped = recorded is not None and recorded.topic_id == log.topic_id
        return was_stopped, partition in self._loaded.stored, log.leo

    def _reject(self, directory: str, topic_id: UUID | None, cause: str, owner: str = "") -> None:
        """B9: a crash may leave a directory without records of a new log; any other is set aside."""
        if not strays.has_records(self._disk, directory):
            return
        stray = strays.set_aside(self._disk, directory, topic_id, cause, owner)
        self._disk.sync_dir(self._root)
        report_stray(self._findings, self._disk, stray, cause)

    # --- findings ------------------------------------------------------------------------------------------------

    def _report(self, partition: TopicPartition, log: Log, damage: str | None, hwm: int) -> None:
        """B5: report what happened to a log since the last stop."""
        name = f"{partition[0]}-{partition[1]}"
        report = log.recovery
        if damage is not None:
            self._loaded.clean = False
            end = f"it ended at offset {self._points.get(partition, 0)} at the clean stop and now ends at {log.leo}"
            self._findings.report(LOG_DAMAGED, name, f"{damage}: {end}. {RESTORED}", CRITICAL)
        elif report is not None and (report.is_truncated or hwm > log.leo):
            known = f"synced up to {report.recovery_point}, high watermark {hwm}"
            lost = f"{report.truncated_bytes} bytes and {report.dropped_segments} segments were cut off"
            if report.damaged_segment is not None:
                lost += f" from {report.damaged_segment:020d}.log on, which does not end where the next segment starts"
            text = f"recovery after an unclean stop ended the log at offset {log.leo} ({known}): {lost}. {RESTORED}"
            self._findings.report(LOG_TRUNCATED, name, text, CRITICAL if report.below_recovery_point else WARNING)
        if report is not None and report.epochs_rebuilt:
            text = f"{checkpoints.LEADER_EPOCHS} was missing, damaged or old; it was rebuilt from the batches."
            self._findings.report(FILE_REBUILT, f"{log.directory}/{checkpoints.LEADER_EPOCHS}", text, INFO)

    def _find_missing(self) -> None:
        """B5: report logs that the clean stop recorded and that are missing. After an unclean stop, a missing log may
        have been deleted just before: it is reported when the metadata still assigns the partition."""
        for partition, offset in self._points.items():
            if partition in self._loaded.logs or offset == 0:
                continue
            self._loaded.lost[partition] = offset
            if self._stopped_cleanly:
                self._loaded.clean = False
                report_lost(self._findings, partition, offset)

    # --- the files that all logs share -----------------------------------------------------------------------------

    def _read_offsets(self, shutdown: CleanShutdown | None) -> None:
        points = self._read_checkpoint(checkpoints.RECOVERY_POINTS)
        log_starts = self._read_checkpoint(checkpoints.LOG_STARTS)
        hwms = self._read_checkpoint(checkpoints.HIGH_WATERMARKS)
        self._loaded.stored = dict.fromkeys([*(points or ()), *(log_starts or ()), *(hwms or ())], True)
        self._points, self._log_starts, self._hwms = points or {}, log_starts or {}, hwms or {}
        ends = shutdown.logs if shutdown is not None else None
        if ends is None:
            return
        self._ends = self._loaded.ends = ends
        self._points = {partition: end.end_offset for partition, end in ends.items()}
        self._hwms = {partition: end.hwm for partition, end in ends.items()}
        raised = {
            partition: end.log_start
            for partition, end in ends.items()
            if end.segments and end.log_start > end.segments[0][0]
        }
        self._log_starts = {partition: end.log_start for partition, end in ends.items()}
        for file, content, expected in (
            (checkpoints.RECOVERY_POINTS, points, self._points),
            (checkpoints.LOG_STARTS, log_starts, raised),
            (checkpoints.HIGH_WATERMARKS, hwms, self._hwms),
        ):
            if content != expected:
                text = f"{self._path(file)} was missing, damaged or old; the offsets of the last clean stop were used."
                self._findings.report(FILE_REBUILT, self._path(file), text, INFO)

    def _read_checkpoint(self, file: str) -> _Offsets | None:
        """None if the file is missing or damaged: then recovery points are 0, and whole logs are checked."""
        data = disks.read_if_exists(self._disk, self._path(file))
        offsets = None if data is None else checkpoints.decode_offsets(data)
        if data is not None and offsets is None:
            text = f"{self._path(file)} is damaged and was not used; it is rewritten within a minute."
            self._findings.report(FILE_REBUILT, self._path(file), text, INFO)
        return offsets

    def _path(self, name: str) -> str:
        return disks.join(self._root, name)


# --- one log ----------------------------------------------------------------------------------------------------------


def open_log(
    disk: Disk,
    directory: str,
    *,
    topic_id: UUID,
    config: LogConfig,
    recovery_point: int = 0,
    clean: bool = False,
    log_start: int = 0,
    make_durable: bool = True,
) -> Log:
    """Open the log in a directory, or create it.

    `clean`: the last stop was clean, and `recovery_point` is where the log ended. Without `make_durable`, the caller
    makes durable what has to be before anything is appended: epochs that are stale, and truncations.
    """
    opened = _open_files(disk, directory, topic_id, config, recovery_point, clean, log_start)
    log = Log(disk, directory, topic_id, config, opened, log_start)
    log.stored_recovery_point = recovery_point
    # A truncation of the last incarnation may be in the page cache only.
    log.truncation_pending_sync = log.recovery is not None
    if log.leo < log.log_start:
        log.truncate_fully(log.log_start)  # its records had been deleted before the stop
    log.epochs.truncate_from_start(log.log_start)
    if make_durable and log.epochs.stale:
        log.epochs.persist()
    # Epochs that start above the first batch tell of deleted records whose log start was not checkpointed.
    log.log_start = max(log.log_start, min(log.epochs.first_start, log.leo))
    log.hwm = max(log.hwm, log.log_start)
    return log


def _open_files(
    disk: Disk, directory: str, topic_id: UUID, config: LogConfig, recovery_point: int, clean: bool, log_start: int
) -> OpenedLog:
    metadata = disks.join(directory, checkpoints.PARTITION_METADATA)
    if not disk.exists(directory):
        # Durable with the first flush: a log that a crash takes back was empty, or had nothing in it that counts yet.
        # Creating files is what takes long in creating a thousand logs, so the segment's comes with its first batch.
        disk.mkdir(directory)
        disks.write_plainly(disk, metadata, _partition_metadata(directory, topic_id))
        return _without_batches(disk, directory, config, log_start)
    segment_swap.resume(disk, directory)
    if read_topic_id(disk, directory) != topic_id:
        disks.write_atomically(disk, metadata, _partition_metadata(directory, topic_id))
    interval = config.index_interval_bytes
    opened = recovery.open_clean(disk, directory, interval, recovery_point) if clean else None
    opened = opened or recovery.recover(disk, directory, interval, recovery_point)
    if opened is None:
        # D1: an epoch table without segments is that of a log that is gone.
        disks.remove_if_exists(disk, disks.join(directory, checkpoints.LEADER_EPOCHS))
        return _without_batches(disk, directory, config, log_start)
    return opened


def _without_batches(disk: Disk, directory: str, config: LogConfig, log_start: int) -> OpenedLog:
    return OpenedLog(
        segments=[Segment(disk, directory, log_start, 0, config.index_interval_bytes)],
        leo=log_start,
        epochs=EpochCache(disk, directory),
        producers=ProducerStates(),
        snapshots=[],
        report=None,
    )


def _partition_metadata(directory: str, topic_id: UUID) -> bytes:
    partition = parse_directory(directory.rpartition("/")[2])
    return checkpoints.encode_partition_metadata(topic_id, None if partition is None else partition[1])


def read_partition_metadata(disk: Disk, directory: str) -> PartitionMetadata | None:
    """None if it is missing or damaged."""
    data = disks.read_if_exists(disk, disks.join(directory, checkpoints.PARTITION_METADATA))
    return None if data is None else checkpoints.decode_partition_metadata(data)


def read_topic_id(disk: Disk, directory: str) -> UUID | None:
    metadata = read_partition_metadata(disk, directory)
    return None if metadata is None else metadata.topic_id


# --- findings ---------------------------------------------------------------------------------------------------------

RESTORED = "The broker registers as unclean, and the replica is restored from a leader before it counts again."


def report_lost(findings: Findings, partition: TopicPartition, offset: int) -> None:
    text = f"the log is missing; its records were synced up to offset {offset}. {RESTORED}"
    findings.report(LOG_DAMAGED, f"{partition[0]}-{partition[1]}", text, CRITICAL)


def report_stray(findings: Findings, disk: Disk, directory: str, cause: str = "") -> None:
    """A stray stays a finding until an operator removes or restores it."""
    cause = cause or strays.read_cause(disk, directory)
    why = f" It was set aside because {cause}." if cause else ""
    text = f"{strays.measure_size(disk, directory)} bytes that no partition of this broker uses.{why}"
    advice = "With the node stopped, `insync strays` lists, restores and removes such directories."
    findings.report(STRAY_DIRECTORY, directory, f"{text} {advice}")


def report_misnamed(findings: Findings, log: Log, name: str) -> None:
    """A directory that was renamed is recognized by its topic id, and is used where it is."""
    findings.clear(LOG_DAMAGED, log.name)
    text = f"the log of {name} is in {log.directory}. Stop the node and rename this directory to {name}."
    findings.report(MISNAMED_DIRECTORY, log.directory, text)


def report_dropped(findings: Findings, disk: Disk, log: Log) -> None:
    """Segments that recovery took out of a log stay until an operator removes them."""
    dropped = strays.list_dropped_segments(disk, log.directory)
    if dropped:
        text = (
            f"{len(dropped)} segments with {sum(segment.size for segment in dropped)} bytes were taken out of the log"
        )
        advice = "Once the replica is in sync they are no longer needed: `insync strays` lists and removes them."
        findings.report(DROPPED_SEGMENTS, log.name, f"{text} by recovery and kept. {advice}", INFO)
