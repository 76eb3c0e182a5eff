"""One replica's log: batches in segments, leader epochs, producers, and the three offsets everything turns on.

`log_start` <= `hwm` <= `leo`; everything below `recovery_point` is synced. Writing and reading go through the page
cache and never wait for the disk, except where a rule says so: a truncation is durable before anything is written over
it (D4), leader epochs are durable before the recovery point passes them (above it, recovery takes them from the
batches), and the append that reaches flush.messages flushes. Times are the arguments `now`, in milliseconds of the
clock that also stamps records (LogAppendTime).

`log_loader.open_log` opens a log or creates one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from uuid import UUID

from insync.errors import InvariantError
from insync.storage import disk as disks
from insync.storage import recovery, retention, segment_swap, strays, timestamp_search
from insync.storage.checkpoints import PARTITION_METADATA
from insync.storage.config import LogConfig
from insync.storage.damage import Damage
from insync.storage.disk import Bytes, Disk, SyncLater
from insync.storage.epoch_cache import EpochCache
from insync.storage.file_names import SNAPSHOT, file_name
from insync.storage.producer_state import ProducerStates
from insync.storage.recovery import OpenedLog, RecoveryReport
from insync.storage.segment import Segment
from insync.wire import batch as batches
from insync.wire.batch import BatchHeader, Record
from insync.wire.errors import ErrorCode


class LogFlush:
    """Making a log durable in three steps: begin on the log's thread, run on any thread, finish on the log's thread.

    `run` uses only descriptors that were taken by `begin_flush`, so the log may be appended to, truncated or deleted
    meanwhile. If it was truncated, `finish_flush` does not raise the recovery point: offsets below `end_offset` may
    have been rewritten since.
    """

    __slots__ = ("_syncs", "end_offset", "name_changes", "truncation_count")

    def __init__(self, end_offset: int, truncation_count: int, name_changes: int, syncs: list[SyncLater]) -> None:
        self.end_offset = end_offset
        self.truncation_count = truncation_count
        self.name_changes = name_changes
        self._syncs = syncs

    def run(self) -> None:
        for sync in self._syncs:
            sync()


class Log:
    __slots__ = (
        "_bases",
        "_dirty_since",
        "_flushing",
        "_last_read",
        "active",
        "config",
        "damage",
        "directory",
        "disk",
        "epochs",
        "hwm",
        "leo",
        "log_start",
        "name_changes",
        "name_changes_synced",
        "on_offsets_lowered",
        "producers",
        "recovery",
        "recovery_point",
        "segments",
        "snapshots",
        "stored_recovery_point",
        "topic_id",
        "truncation_count",
        "truncation_pending_sync",
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
        """Offsets of the producer snapshots on disk, in order."""
        self.recovery: RecoveryReport | None = opened.report
        self.damage = Damage()
        self.on_offsets_lowered: Callable[[], None] | None = None
        self.truncation_count = 0
        self.truncation_pending_sync = False
        self.name_changes = 1  # the last incarnation may have left names unsynced, and a new log just made its own
        self.name_changes_synced = 0
        self._last_read: Segment | None = None
        self._dirty_since: int | None = None

    @property
    def name(self) -> str:
        """Topic and partition, such as orders-0."""
        return self.directory.rpartition("/")[2]

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @property
    def max_timestamp(self) -> int:
        return max(segment.max_timestamp for segment in self.segments)

    def set_hwm(self, offset: int) -> None:
        self.hwm = min(max(offset, self.log_start), self.leo)

    # --- writing -----------------------------------------------------------------------------------------------------

    def append_as_leader(self, batch: bytearray, header: BatchHeader, leader_epoch: int, now: int) -> int:
        """Stamp offsets and epoch into one validated batch, in place, and store it; returns its base offset."""
        base = self.leo
        batches.stamp(batch, base, leader_epoch)
        header.base_offset = base
        header.leader_epoch = leader_epoch
        config = self.config
        if config.log_append_time:
            batches.set_log_append_time(batch, now)
            header.max_timestamp = now
        if self.truncation_pending_sync:
            self.make_truncation_durable()
        if leader_epoch != self.epochs.last_epoch:
            self.epochs.assign(leader_epoch, base)
        last = base + header.last_offset_delta
        timestamp = header.max_timestamp
        active = self.active
        if active.is_full(header.length, last, timestamp, config.segment_bytes, config.segment_ms):
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
        """F5: store the leader's batches unchanged, exactly at the end of this log. All or nothing.

        Compaction may have taken offsets out of the leader's log, so a batch may start above the end. If a batch is
        damaged, or out of order within `records`, the result is corrupt_message. An incomplete last batch is ignored.
        Records below the end, or of an older epoch than the log's, are a broken invariant.
        """
        headers = list(batches.iter_headers(records))
        if not headers or not self._are_sound(records, headers):
            return ErrorCode.corrupt_message
        self.check_position(headers[0][1])
        at, last = headers[-1]
        size = at + last.length
        if self.truncation_pending_sync:
            self.make_truncation_durable()
        end = self.leo
        for _, header in headers:
            if header.leader_epoch != self.epochs.last_epoch:
                # D1: the epoch may have started with records that compaction took.
                self.epochs.assign(header.leader_epoch, end)
            end = header.next_offset
        config = self.config
        if self.active.is_full(size, last.last_offset, last.max_timestamp, config.segment_bytes, config.segment_ms):
            self.roll()
        self.active.append_many(records if size == len(records) else memoryview(records)[:size], headers)
        self.leo = last.next_offset
        self.producers.rebuild(header for _, header in headers)
        if self.leo - self.recovery_point >= config.flush_messages:
            self.flush()
        return ErrorCode.none

    def _are_sound(self, records: Bytes, headers: list[tuple[int, BatchHeader]]) -> bool:
        """Safeguard: offsets rise, epochs do not fall, and every CRC is right."""
        expected, epoch = headers[0][1].base_offset, headers[0][1].leader_epoch
        for at, header in headers:
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

    def roll(self) -> None:
        """Close the active segment and start the next one at the log's end."""
        if self.active.base == self.leo:
            return
        if self.truncation_pending_sync:
            self.make_truncation_durable()
        self.active.save_indexes()
        if self._last_read is not None:
            self._last_read.close()
        self._last_read = self.active
        self._take_snapshot()
        self._start_segment(self.leo)

    def _start_segment(self, base: int) -> None:
        self.active = Segment(self.disk, self.directory, base, 0, self.config.index_interval_bytes)
        self.active.open()
        self.segments.append(self.active)
        self._bases.append(base)
        self.name_changes += 1

    # --- truncation --------------------------------------------------------------------------------------------------
    #
    # A truncation is dangerous until it is durable: if old bytes came back after a crash behind new ones, the log would
    # be one that no replica ever had (D4). So `make_truncation_durable` runs before anything is written after it.

    def truncate_to(self, offset: int) -> int | None:
        """D3: the log ends at `offset`, or where the batch that holds it starts; epochs and producers follow.

        D6: returns the offset of a damaged batch that stays in the log and has to be repaired; None if there is none.
        """
        if offset < self.log_start:
            self.truncate_fully(offset)
            return None
        damaged = None
        if offset < self.leo:
            damaged = self._truncate_batches(offset)
            self.truncation_pending_sync = True
        if self.leo < self.log_start:
            self.truncate_fully(self.log_start)  # the batch that held the log start is gone
            return None
        # Even a truncation that removes no batch removes epochs in which this replica led and wrote nothing.
        if self.epochs.truncate_from_end(min(offset, self.leo)):
            self.truncation_pending_sync = True
        if damaged is not None:
            self.roll()  # nothing is appended behind bytes that are not a batch
        return damaged

    def truncate_fully(self, new_start: int) -> None:
        """F7: an empty log that starts at `new_start`. Durable on return."""
        for segment in self._detach_segments(slice(None)):
            segment.remove()
        self._start_segment(new_start)
        start_lowered = new_start < self.log_start
        self.leo = self.log_start = self.hwm = new_start
        self.recovery_point = min(self.recovery_point, new_start)
        self.truncation_count += 1
        self.epochs.clear()
        self.producers.producers.clear()
        self._remove_snapshots(self.snapshots)
        if start_lowered and self.on_offsets_lowered is not None:
            self.on_offsets_lowered()
        self.make_truncation_durable()

    def make_truncation_durable(self) -> None:
        """Safeguard, D4: the segment's new end, the epochs without those that went with it, and a recovery point that
        is not above it."""
        self.active.file.sync()
        if self.name_changes != self.name_changes_synced:
            self.disk.sync_dir(self.directory)
        if self.epochs.dirty:
            self.epochs.persist()
        if self.stored_recovery_point > self.recovery_point and self.on_offsets_lowered is not None:
            self.on_offsets_lowered()
        self.truncation_pending_sync = False

    def _truncate_batches(self, offset: int) -> int | None:
        keep = sum(1 for segment in self.segments if segment.base < offset) or 1
        if keep < len(self.segments):
            for segment in self._detach_segments(slice(keep, None)):
                self.leo = segment.base
                segment.remove()
            self.active = self.segments[-1]
            if self._last_read is self.active:
                self._last_read = None
            # Durable before this goes on below: a segment that came back behind a shorter one would leave a gap.
            self.disk.sync_dir(self.directory)
        damaged = None
        if offset < self.leo:
            position, self.leo, damaged = self.active.find_truncation_point(offset, self.leo)
            self.active.truncate(position, self.leo)
        self.truncation_count += 1
        self.recovery_point = min(self.recovery_point, self.leo)
        self.hwm = min(self.hwm, self.leo)
        self._remove_snapshots([snapshot for snapshot in self.snapshots if snapshot > self.leo])
        if self.producers.depends_on(self.leo):
            self.producers = recovery.load_producers(self.disk, self.directory, self.segments, self.snapshots, self.leo)
        return damaged

    # --- retention ---------------------------------------------------------------------------------------------------

    def apply_retention(self, now_wall: int) -> int:
        """Drop the oldest segments by time, size and log start; returns how many."""
        self.producers.expire(now_wall, self.config.producer_id_expiration_ms)
        limit = self.retention_limit()
        if retention.is_active_expired(self.segments, self.config, limit, self.log_start, self.leo, now_wall):
            self.roll()
        return self._drop_oldest(retention.count_deletable(self.segments, self.config, limit, self.log_start, now_wall))

    def retention_limit(self) -> int:
        """Safeguard: records above the high watermark may be the only copies of an acknowledged write."""
        return self.hwm

    def epoch_of_batch(self, base_offset: int) -> int:
        """The leader epoch that a batch which reaches the log start must have, -1 if none is known.

        DeleteRecords may move the log start into a batch, and the epoch cache starts there. All records of a batch are
        of one epoch.
        """
        return self.epochs.epoch_at(max(base_offset, self.log_start))

    def delete_records(self, before_offset: int) -> int | ErrorCode:
        """DeleteRecords: returns the new log start. -1 means everything that is committed."""
        offset = self.hwm if before_offset == -1 else before_offset
        if not 0 <= offset <= self.hwm:
            return ErrorCode.offset_out_of_range
        self.raise_log_start(offset)
        return self.log_start

    def raise_log_start(self, offset: int) -> None:
        """Raise the log start to `offset`, at most to the high watermark, and drop the segments below it."""
        limit = min(offset, self.retention_limit())
        if limit > self.log_start:
            self.log_start = limit
            self.epochs.truncate_from_start(limit)
            self._drop_oldest(retention.count_below(self.segments, limit))

    def _drop_oldest(self, count: int) -> int:
        """Remove the `count` oldest segments; the log start rises to the first one that is left."""
        if count == 0:
            return 0
        first = self.segments[count].base
        if self.recovery_point < first:
            self.flush()  # else a crash could take what is left, and the log would start at 0 again
        self.log_start = max(self.log_start, first)
        self.hwm = max(self.hwm, self.log_start)
        # Safeguard, B5: the epoch table on disk says where the log starts before a segment below that goes. So a first
        # segment that is missing for another reason is recognized as damage, even after an unclean stop.
        self.epochs.truncate_from_start(self.log_start)
        if self.epochs.dirty:
            self.epochs.persist()
        for segment in reversed(self._detach_segments(slice(0, count))):
            segment.remove()
        self._remove_snapshots([snapshot for snapshot in self.snapshots if snapshot < first])
        return count

    # --- the list of segments ----------------------------------------------------------------------------------------

    def swap_segments(self, sources: list[Segment], new: Segment, path: str) -> None:
        """Put `new`, whose synced bytes are in the file at `path`, in the place of a run of closed segments."""
        first = self.segments.index(sources[0])
        part = slice(first, first + len(sources))
        end = self.segments[part.stop].base
        for segment in self._detach_segments(part, (new,)):
            segment.close()
        segment_swap.swap(self.disk, self.directory, new.base, end, path)

    def _detach_segments(self, part: slice, replacement: tuple[Segment, ...] = ()) -> list[Segment]:
        """Take a run of segments out of the log, newest first; the caller closes or removes their files."""
        detached = self.segments[part]
        self.segments[part], self._bases[part] = replacement, [segment.base for segment in replacement]
        if self._last_read in detached:
            self._last_read = None
        self.name_changes += 1
        return detached[::-1]

    def segment_end(self, segment: Segment) -> int:
        """The offset at which the batches of one of its segments end."""
        return self.leo if segment is self.active else self._bases[self.segments.index(segment) + 1]

    def find_segment(self, offset: int) -> Segment:
        """The segment with the offsets around `offset`."""
        return self.segments[max(0, bisect_right(self._bases, offset) - 1)]

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
        segment = self._select_for_reading(self.segments[number])
        return segment.read(offset, self._bases[number + 1], max_bytes, limit_offset, min_one)

    def _select_for_reading(self, segment: Segment) -> Segment:
        """Of the closed segments only the one that was read last keeps its file open."""
        if segment is not self._last_read and segment is not self.active:
            if self._last_read is not None:
                self._last_read.close()
            self._last_read = segment
        return segment

    def iter_headers(self, from_offset: int, to_offset: int) -> Iterator[BatchHeader]:
        """The headers of the batches that hold any offset in [from_offset, to_offset)."""
        for header in recovery.iter_headers(self.segments, from_offset):
            if header.base_offset >= to_offset:
                return
            yield header

    def offset_for_timestamp(self, timestamp: int, limit_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record below `limit_offset` that is not older than `timestamp`."""
        return _as_pair(self._find_record(timestamp), limit_offset)

    def offset_of_max_timestamp(self, limit_offset: int) -> tuple[int, int] | None:
        """(offset, timestamp) of the first record with the largest timestamp; None if not below `limit_offset`."""
        record = self._find_record(self.max_timestamp)
        if record is None:  # compaction emptied the batch that had it: only the other headers have the next largest
            headers = self.iter_headers(self.log_start, self.leo)
            record = self._find_record(max((header.max_timestamp for header in headers if header.count), default=-1))
        return _as_pair(record, limit_offset)

    def _find_record(self, timestamp: int) -> Record | None:
        """The first record that is not older than `timestamp`; None if there is none, or `timestamp` is negative."""
        for segment in self.segments if timestamp >= 0 else ():
            if segment.max_timestamp >= timestamp:
                record = timestamp_search.find_record(self._select_for_reading(segment), timestamp, self.log_start)
                if record is not None:
                    return record
        return None

    # --- durability --------------------------------------------------------------------------------------------------

    def is_flush_due(self, now: int) -> bool:
        """Whether a background flush should start: a segment was closed, or data is unflushed for flush.ms."""
        if self.leo <= self.recovery_point:
            self._dirty_since = None
            return False
        if self._dirty_since is None:
            self._dirty_since = now
        if self._flushing:
            return False
        return self.recovery_point < self.active.base or now - self._dirty_since >= self.config.flush_ms

    def begin_flush(self) -> LogFlush:
        """Collect what has to be synced; the driver runs the job and then calls `finish_flush`."""
        self._persist_epochs()
        disk, directory = self.disk, self.directory
        first = max(0, bisect_right(self._bases, self.recovery_point) - 1)
        syncs: list[SyncLater] = []
        for number in range(first, len(self.segments) - 1):
            # Recovery builds on a closed segment's batches, its indexes, and the producers as of its end.
            snapshot = disks.join(directory, file_name(self._bases[number + 1], SNAPSHOT))
            paths = (*self.segments[number].paths(), snapshot)
            syncs += [disks.sync_file_later(disk, path) for path in paths if disk.exists(path)]
        syncs.append(self.active.file.sync_later())
        if self.name_changes != self.name_changes_synced:
            # The directory may be new: then the file with the topic id is too, and so is its own name in the parent.
            if not self.name_changes_synced:
                syncs.append(disks.sync_file_later(disk, disks.join(directory, PARTITION_METADATA)))
            syncs += [disk.sync_dir_later(directory), disk.sync_dir_later(disks.parent(directory))]
        self._dirty_since = None
        self._flushing = True
        return LogFlush(self.leo, self.truncation_count, self.name_changes, syncs)

    def finish_flush(self, job: LogFlush) -> None:
        """The job has run: `recovery_point` rises to where the log ended when it began."""
        self._flushing = False
        if job.truncation_count == self.truncation_count:
            self.recovery_point = max(self.recovery_point, job.end_offset)
            self.name_changes_synced = job.name_changes

    def flush(self) -> None:
        """Make everything durable before returning."""
        if self.recovery_point >= self.active.base and self.name_changes == self.name_changes_synced:
            self._persist_epochs()
            self.active.file.sync()
            self.recovery_point = self.leo
            return
        job = self.begin_flush()
        job.run()
        self.finish_flush(job)

    def _persist_epochs(self) -> None:
        """Safeguard, D1: recovery reads no batch of the segments below the recovery point, so the file has to have
        their epochs before the recovery point passes them."""
        if self.epochs.dirty:
            self.epochs.persist()

    # --- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close this log alone. Batches and epochs are durable on return; the rest can be rebuilt from them."""
        if self.truncation_pending_sync:
            self.make_truncation_durable()
        self.flush()
        self.save_derived_files()
        if not self.epochs.on_disk:
            self.epochs.persist()
        self.close_files()

    def save_derived_files(self) -> None:
        """Write, unsynced, what can be rebuilt from the batches: indexes, and the producers as of the log's end."""
        for segment in self.segments:
            segment.save_indexes()
        if self.producers.producers or self.leo in self.snapshots:
            self._take_snapshot()

    def close_files(self) -> None:
        """Close the files and nothing else."""
        for segment in self.segments:
            segment.close()

    def delete(self) -> str:
        """T7: rename the directory, so that even half of it is known as deleted after a crash; returns the new path.
        The log is gone for good once that name is durable."""
        self.close_files()
        root, _, name = self.directory.rpartition("/")
        path = disks.join(root, strays.directory_name(name, self.topic_id.hex, strays.DELETE))
        if self.disk.exists(path):
            self.disk.rmtree(path)
        self.disk.rename(self.directory, path)
        return path

    def _take_snapshot(self) -> None:
        """Save the state of the producers as of the log's end, where the next segment or the next incarnation starts.

        Of the snapshots between segments, which clean stops left, only the newest is of use."""
        path = disks.join(self.directory, file_name(self.leo, SNAPSHOT))
        disks.write_plainly(self.disk, path, self.producers.encode())
        if not self.snapshots or self.snapshots[-1] < self.leo:
            self.snapshots.append(self.leo)
        bases = {segment.base: True for segment in self.segments}
        self._remove_snapshots(
            [snapshot for snapshot in self.snapshots if snapshot not in bases and snapshot < self.leo]
        )
        self.name_changes += 1

    def _remove_snapshots(self, offsets: list[int]) -> None:
        for offset in list(offsets):
            disks.remove_if_exists(self.disk, disks.join(self.directory, file_name(offset, SNAPSHOT)))
            self.snapshots.remove(offset)
            self.name_changes += 1


def _as_pair(record: Record | None, limit_offset: int) -> tuple[int, int] | None:
    return None if record is None or record.offset >= limit_offset else (record.offset, record.timestamp_ms)
