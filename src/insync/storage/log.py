"""One replica's log: batches in segments, leader epochs, producers, and the three offsets everything turns on.

`log_start` <= `hwm` <= `leo`; `recovery_point` is the offset below which everything is synced. Writing and reading go
through the page cache and never wait for the disk, except where a rule says so: a truncation is durable before anything
is written over it, leader epochs before the recovery point passes them (above it, recovery has them from the batches),
and the append that reaches flush.messages flushes. Times are the arguments `now`, in milliseconds of the clock that
also stamps records (LogAppendTime).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from uuid import UUID

from insync.errors import InvariantError
from insync.storage import closing, cutting, opening, recovery, retention, strays, timestamps
from insync.storage import disk as disks
from insync.storage.config import LogConfig
from insync.storage.damage import Damage
from insync.storage.disk import Bytes, Disk, SyncLater
from insync.storage.epoch_cache import EpochCache
from insync.storage.flush import LogFlush
from insync.storage.producer_state import ProducerStates
from insync.storage.recovery import OpenedLog, RecoveryReport
from insync.storage.segment import Segment
from insync.wire import batch as batches
from insync.wire.batch import BatchHeader
from insync.wire.errors import ErrorCode


class Log:
    __slots__ = (
        "_bases",
        "_cold",
        "_dirty_since",
        "_flushing",
        "active",
        "config",
        "cuts",
        "damage",
        "directory",
        "disk",
        "epochs",
        "hwm",
        "leo",
        "log_start",
        "names_changed",
        "names_synced",
        "on_offsets_lowered",
        "producers",
        "recovery",
        "recovery_point",
        "segments",
        "snapshots",
        "stored_recovery_point",
        "topic_id",
        "unsettled",
    )

    def __init__(
        self, disk: Disk, directory: str, topic_id: UUID, config: LogConfig, opened: OpenedLog, log_start: int
    ) -> None:
        self.disk = disk
        self.directory = directory
        self.topic_id = topic_id
        self.config = config
        self.segments = opened.segments
        self.active = opened.segments[-1]
        self._bases = [segment.base for segment in opened.segments]
        self.leo = opened.leo
        self.log_start = max(log_start, self._bases[0])
        self.hwm = self.log_start
        self._flushing = False
        self.recovery_point = opened.leo if opened.report is None else min(opened.report.recovery_point, opened.leo)
        self.stored_recovery_point = self.recovery_point
        self.epochs: EpochCache = opened.epochs
        self.producers: ProducerStates = opened.producers
        self.snapshots = opened.snapshots
        self.recovery: RecoveryReport | None = opened.report
        self.damage = Damage()
        self.on_offsets_lowered: Callable[[], None] | None = None
        self.unsettled = False
        self.cuts = 0
        self.names_changed = 1  # names that an earlier uptime left unsynced, or this one just made
        self.names_synced = 0
        self._cold: Segment | None = None
        self._dirty_since: int | None = None

    @classmethod
    def create_or_open(
        cls,
        disk: Disk,
        directory: str,
        *,
        topic_id: UUID,
        config: LogConfig,
        now: int,
        recovery_point: int = 0,
        clean: bool = False,
        log_start: int = 0,
        settle: bool = True,
    ) -> Log:
        """`clean`: the last stop was clean, and `recovery_point` is where the log ended. Without `settle`, the caller
        sees to what has to be durable before anything is appended."""
        opened = opening.open_files(disk, directory, topic_id, config, recovery_point, clean, log_start)
        log = cls(disk, directory, topic_id, config, opened, log_start)
        log.stored_recovery_point = recovery_point
        log.unsettled = log.recovery is not None  # a cut of the last uptime may be in the page cache only
        if log.leo < log.log_start:
            log.truncate_fully(log.log_start)  # what is left of it had been deleted before the stop
        log.epochs.truncate_from_start(log.log_start)
        if settle and log.epochs.stale:
            log.epochs.persist()
        # Epochs that start above the first batch tell of deleted records whose log start was not checkpointed.
        log.log_start = max(log.log_start, min(log.epochs.first_start, log.leo))
        log.hwm = max(log.hwm, log.log_start)
        return log

    @property
    def name(self) -> str:
        """Topic and partition, such as orders-0."""
        return self.directory.rpartition("/")[2]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def last_epoch(self) -> int:
        return self.epochs.last_epoch

    @property
    def max_timestamp(self) -> int:
        return max(segment.max_timestamp for segment in self.segments)

    def set_hwm(self, offset: int) -> None:
        self.hwm = min(max(offset, self.log_start), self.leo)

    # --- writing -----------------------------------------------------------------------------------------------------

    def append_as_leader(self, batch: bytearray, header: BatchHeader, leader_epoch: int, now: int) -> int:
        """Give one validated batch its offsets and the epoch, in place, and store it; returns its base offset."""
        base = self.leo
        batches.stamp(batch, base, leader_epoch)
        header.base_offset = base
        header.leader_epoch = leader_epoch
        config = self.config
        if config.log_append_time:
            batches.set_log_append_time(batch, now)
            header.max_timestamp = now
        if self.unsettled:
            cutting.settle_truncation(self)
        if leader_epoch != self.epochs.last_epoch:
            self.assign_epoch(leader_epoch, base)
        last = base + header.last_offset_delta
        timestamp = header.max_timestamp
        active = self.active
        if active.full(header.length, last, timestamp, config.segment_bytes, config.segment_ms):
            self.roll()
            active = self.active
        active.append(batch, base, last, timestamp)
        self.leo = last + 1
        if header.producer_id >= 0:
            self.producers.update(header)
        if last + 1 - self.recovery_point >= config.flush_messages:
            self.flush()
        return base

    def append_as_follower(self, records: Bytes) -> ErrorCode:
        """F5: store the leader's batches as they are, exactly at the end of this log. All or nothing.

        Compaction may have left the leader's log without some offsets, so a batch may start above the end. One that is
        damaged, or out of order within `records`, makes it corrupt_message. A cut-off last batch is left out. Records
        below the end or of an older epoch than the log's are a broken invariant.
        """
        found = list(batches.iter_headers(records))
        if not found or not self.batches_sound(records, found):
            return ErrorCode.corrupt_message
        self.check_position(found[0][1])
        at, last = found[-1]
        size = at + last.length
        if self.unsettled:
            cutting.settle_truncation(self)
        end = self.leo
        for _, header in found:
            if header.leader_epoch != self.epochs.last_epoch:
                self.assign_epoch(header.leader_epoch, end)  # D1: what compaction took may have been of this epoch
            end = header.next_offset
        config = self.config
        if self.active.full(size, last.last_offset, last.max_timestamp, config.segment_bytes, config.segment_ms):
            self.roll()
        self.active.append_many(records if size == len(records) else memoryview(records)[:size], found)
        self.leo = last.next_offset
        self.producers.rebuild(header for _, header in found)
        if self.leo - self.recovery_point >= config.flush_messages:
            self.flush()
        return ErrorCode.none

    def batches_sound(self, records: Bytes, found: list[tuple[int, BatchHeader]]) -> bool:
        """Safeguard: offsets that rise, epochs that do not fall, right CRCs."""
        expected, epoch = found[0][1].base_offset, found[0][1].leader_epoch
        for at, header in found:
            if header.magic != batches.MAGIC or header.base_offset < expected or header.leader_epoch < epoch:
                return False
            if header.last_offset_delta < 0 or not batches.crc_ok(records, at, header):
                return False
            expected, epoch = header.next_offset, header.leader_epoch
        return True

    def check_position(self, header: BatchHeader) -> None:
        """F5: a follower appends at its end, never below it, and no epoch older than its newest (D1)."""
        if header.base_offset < self.leo:
            raise InvariantError("F5", f"{self.directory}: batch at {header.base_offset}, log ends at {self.leo}")
        if header.leader_epoch < self.epochs.last_epoch and self.epochs.last_start < self.leo:
            raise InvariantError(
                "D1", f"{self.directory}: epoch {header.leader_epoch} after {self.epochs.last_epoch} at {self.leo}"
            )

    def assign_epoch(self, epoch: int, start_offset: int) -> None:
        """T1: `epoch` starts at `start_offset`. Durable with the next flush."""
        self.epochs.assign(epoch, start_offset)

    def roll(self) -> None:
        """Close the growing segment and start the next one at the log's end."""
        if self.active.base == self.leo:
            return
        if self.unsettled:
            cutting.settle_truncation(self)
        self.active.save_indexes()
        if self._cold is not None:
            self._cold.close()
        self._cold = self.active
        closing.take_snapshot(self)
        self.start_segment(self.leo)

    def start_segment(self, base: int) -> None:
        self.active = Segment(self.disk, self.directory, base, 0, self.config.index_interval_bytes)
        self.active.open()
        self.segments.append(self.active)
        self._bases.append(base)
        self.names_changed += 1

    # --- cutting -----------------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int) -> int | None:
        """D3: the log ends at `offset`, or where the batch that holds it starts; epochs and producers follow.

        D6: returns the offset of a damaged batch before the cut that has to be repaired; None if it met none.
        """
        return cutting.truncate_to(self, offset)

    def truncate_fully(self, new_start: int) -> None:
        """F7: an empty log that starts at `new_start`. Durable on return."""
        cutting.truncate_fully(self, new_start)

    def apply_retention(self, now_wall: int) -> int:
        """Drop the oldest segments by time, size and log start; returns how many went."""
        self.producers.expire(now_wall, self.config.producer_id_expiration_ms)
        if retention.active_expired(self, now_wall):
            self.roll()
        return cutting.drop_oldest(self, retention.deletable(self, now_wall))

    def delete_records(self, before_offset: int) -> int | ErrorCode:
        """DeleteRecords: returns the new log start. -1 means all that is committed."""
        offset = self.hwm if before_offset == -1 else before_offset
        if not 0 <= offset <= self.hwm:
            return ErrorCode.offset_out_of_range
        self.prune_prefix(offset)
        return self.log_start

    def prune_prefix(self, offset: int) -> None:
        """Raise the log start to `offset`, at most to the high watermark, and drop the segments below it."""
        limit = min(offset, retention.retention_limit(self))
        if limit > self.log_start:
            self.log_start = limit
            self.epochs.truncate_from_start(limit)
            cutting.drop_oldest(self, retention.below(self, limit))

    def reactivate(self) -> None:
        """The segments behind it are gone: the last one left grows again."""
        self.active = self.segments[-1]
        if self._cold is self.active:
            self._cold = None

    def forget_segments(self, part: slice, replacement: tuple[Segment, ...] = ()) -> list[Segment]:
        """Take a run of segments out of the log, newest first; the caller removes their files."""
        gone = self.segments[part]
        self.segments[part], self._bases[part] = replacement, [segment.base for segment in replacement]
        if self._cold in gone:
            self._cold = None
        self.names_changed += 1
        return gone[::-1]

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, max_bytes: int, *, limit_offset: int, min_one: bool = True) -> bytes:
        """Whole batches from the one that holds `offset`, none that starts at or above `limit_offset`.

        With `min_one` the first batch comes whole even if it is larger than `max_bytes`.
        """
        if offset >= limit_offset or offset >= self.leo:
            return b""
        active = self.active
        if offset >= active.base:
            return active.read(offset, self.leo, max_bytes, limit_offset, min_one)
        if offset < self._bases[0]:
            raise InvariantError("read_above_log_start", f"{self.directory}: {offset} < {self._bases[0]}")
        number = bisect_right(self._bases, offset) - 1
        segment = self.warm(self.segments[number])
        return segment.read(offset, self._bases[number + 1], max_bytes, limit_offset, min_one)

    def end_of(self, segment: Segment) -> int:
        """The offset at which the batches of one of its segments end."""
        return self.leo if segment is self.active else self._bases[self.segments.index(segment) + 1]

    def segment_of(self, offset: int) -> Segment:
        """The segment whose offsets `offset` is among."""
        return self.segments[max(0, bisect_right(self._bases, offset) - 1)]

    def iter_headers(self, from_offset: int, to_offset: int) -> Iterator[BatchHeader]:
        """The headers of the batches that hold any offset in [from_offset, to_offset)."""
        for header in recovery.headers_of(self.segments, from_offset):
            if header.base_offset >= to_offset:
                return
            yield header

    def end_offset_for(self, epoch: int) -> tuple[int, int] | None:
        """D2's lookup: the highest epoch not above `epoch` and where it ends; None if all are higher."""
        return self.epochs.end_offset_for(epoch, self.leo)

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record below `limit_offset` that is not older than `timestamp`."""
        return timestamps.first_at_or_after(self, timestamp, limit_offset)

    def offset_of_max_timestamp(self, limit_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the newest record below `limit_offset`, by timestamp."""
        return timestamps.newest(self, limit_offset)

    def warm(self, segment: Segment) -> Segment:
        """At most one closed segment keeps its file open: the one read last."""
        if segment is not self._cold and segment is not self.active:
            if self._cold is not None:
                self._cold.close()
            self._cold = segment
        return segment

    # --- durability --------------------------------------------------------------------------------------------------

    def flush_due(self, now: int) -> bool:
        """Is it time for a background flush: a segment was closed, or data is unflushed for flush.ms?"""
        if self.leo <= self.recovery_point:
            self._dirty_since = None
            return False
        if self._dirty_since is None:
            self._dirty_since = now
        if self._flushing:
            return False
        return self.recovery_point < self.active.base or now - self._dirty_since >= self.config.flush_ms

    def begin_flush(self) -> LogFlush:
        """Take what has to be synced; the driver runs it and then calls `finish_flush`."""
        self.settle_epochs()
        first = max(0, bisect_right(self._bases, self.recovery_point) - 1)
        syncs: list[SyncLater] = []
        for number in range(first, len(self.segments) - 1):
            syncs += opening.sync_closed_segment(self, self.segments[number], self._bases[number + 1])
        syncs.append(self.active.file.sync_later())
        if self.names_changed != self.names_synced:
            syncs += opening.sync_names(self)
        self._dirty_since = None
        self._flushing = True
        return LogFlush(self.leo, self.cuts, self.names_changed, syncs)

    def finish_flush(self, job: LogFlush) -> None:
        """The job has run: `recovery_point` moves up to where it began."""
        self._flushing = False
        if job.cuts == self.cuts:
            self.recovery_point = max(self.recovery_point, job.upto)
            self.names_synced = job.names

    def settle_epochs(self) -> None:
        """Safeguard, D1: recovery reads no batch of the segments below the recovery point, so before it passes them,
        the file knows their epochs."""
        if self.epochs.dirty:
            self.epochs.persist()

    def flush(self) -> None:
        """Make everything durable before returning."""
        if self.recovery_point >= self.active.base and self.names_changed == self.names_synced:
            self.settle_epochs()
            self.active.file.sync()
            self.recovery_point = self.leo
            return
        job = self.begin_flush()
        job.run()
        self.finish_flush(job)

    # --- the end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """A clean close of this log alone."""
        closing.close_one(self)

    def release(self) -> None:
        """Close the files and nothing else."""
        for segment in self.segments:
            segment.close()

    def delete(self) -> str:
        """T7: the log is gone for good once the other name of its directory, which is returned, is durable."""
        self.release()
        root, _, name = self.directory.rpartition("/")
        doomed = disks.join(root, strays.directory_name(name, self.topic_id.hex, strays.DELETE))
        opening.doom_directory(self.disk, self.directory, doomed)
        return doomed
