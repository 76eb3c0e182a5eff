"""Replacing damaged batches by intact ones, so that a crash leaves the old segment or the repaired one (D6).

The batches come from another replica. They have to fit exactly: sound, within the damaged offsets, in order, and of the
leader epochs that this log has for these offsets, since an offset and a leader epoch identify a record. If the other
replica has compacted some away, fewer records fit as well.

The segment is copied with the new batches, off the event loop, and swapped in as a compacted one is. Only closed
segments are replaced: the active one is closed first.
"""

from __future__ import annotations

from insync.storage import disk as disks
from insync.storage import segment_swap
from insync.storage.damage import DamagedRange
from insync.storage.disk import Bytes, DiskFile
from insync.storage.file_names import LOG, file_name
from insync.storage.log import Log
from insync.storage.segment import Segment
from insync.wire import batch as batches
from insync.wire import batch_filter
from insync.wire.batch import HEADER_SIZE, BatchHeader

_CHUNK = 1 << 20
NO_TIMESTAMP = -1


class Replacement:
    """The batches for one damaged range, as they arrive, up to `next_offset`. Batches that end below the log start are
    not replaced: no other replica serves them, and nothing reads them."""

    __slots__ = ("_batches", "_log", "damaged", "next_offset", "size")

    def __init__(self, log: Log, damaged: DamagedRange) -> None:
        self._log = log
        self.damaged = damaged
        self.next_offset = damaged.start_offset
        self.size = 0
        self._batches: list[tuple[bytes, BatchHeader]] = []

    @property
    def fetch_offset(self) -> int:
        """Where to fetch next. DeleteRecords may have moved the log start into the damaged range."""
        return max(self.next_offset, self._log.log_start)

    @property
    def is_complete(self) -> bool:
        return self.next_offset >= self.damaged.end_offset

    def add(self, records: Bytes) -> str | None:
        """Add what another replica has from `next_offset` on; returns why it cannot be used, or None."""
        for at, header in batches.iter_headers(records):
            if self.is_complete:
                return None
            if header.base_offset >= self.damaged.end_offset and self.may_have_gaps():
                self.next_offset = self.damaged.end_offset
                return None
            problem = self.find_problem(records, at, header)
            if problem is not None:
                return problem
            self._batches.append((bytes(memoryview(records)[at : at + header.length]), header))
            self.size += header.length
            self.next_offset = header.next_offset
        return None

    def find_problem(self, records: Bytes, at: int, header: BatchHeader) -> str | None:
        """Safeguard, D6: an intact batch of another place is as wrong here as a damaged one."""
        if header.magic != batches.MAGIC or header.last_offset_delta < 0 or not batches.crc_ok(records, at, header):
            return f"its batch at offset {header.base_offset} is damaged too"
        in_place = header.base_offset == self.next_offset or (
            header.base_offset > self.next_offset
            and (self.may_have_gaps() or header.base_offset <= self._log.log_start)
        )
        if not in_place or header.next_offset > self.damaged.end_offset:
            return f"its batch {header.base_offset} to {header.last_offset} does not fit"
        epoch = self._log.epoch_of_batch(header.base_offset)
        if header.leader_epoch != epoch:
            return f"its batch at offset {header.base_offset} is of leader epoch {header.leader_epoch}, not {epoch}"
        return None

    def may_have_gaps(self) -> bool:
        """Only compaction leaves gaps. Elsewhere, a batch further on may be one with a damaged base offset."""
        return self._log.config.compacts

    def batches(self, *, ends_segment: bool) -> list[tuple[bytes, BatchHeader]]:
        """A segment ends where the next one starts: if compaction took the last batch, an empty one replaces it."""
        replacement = list(self._batches)
        end = self.damaged.end_offset
        if ends_segment and (not replacement or replacement[-1][1].next_offset < end):
            data = batch_filter.make_empty_batch(_placeholder(end - 1, self._log.epochs.epoch_at(end - 1)))
            replacement.append((data, batches.read_header(data)))
        return replacement


class SegmentRepair:
    """Replaces a range of a segment. The job `run` writes the copy; `finish` swaps it in on the log's thread."""

    __slots__ = (
        "_batches",
        "_damaged",
        "_known",
        "_log",
        "_path",
        "_segment",
        "_source",
        "_target",
        "_truncation_count",
        "new",
    )

    def __init__(self, log: Log, replacement: Replacement) -> None:
        damaged = replacement.damaged
        segment = log.find_segment(damaged.start_offset)
        if segment is log.active:
            log.roll()
        self._log = log
        self._truncation_count = log.truncation_count
        self._damaged = damaged
        self._known = log.damage.of_segment(segment.base)
        self._segment = segment
        self._path = disks.join(log.directory, file_name(segment.base, LOG) + ".repair" + segment_swap.CLEANED)
        self._batches = replacement.batches(ends_segment=damaged.end >= segment.size)
        segment.index_entries(0, 0)  # loads the index here and not in the job
        self.new: Segment | None = None
        self._source, self._target = disks.open_file(log.disk, segment.paths()[0]), log.disk.open(self._path)

    def run(self) -> None:
        damaged, source, target = self._damaged, self._source, self._target
        self.new = self._segment.with_replaced_bytes(
            damaged.start, damaged.end, damaged.start_offset, damaged.end_offset, self._batches
        )
        try:
            target.truncate(0)
            self._copy(source, target, 0, damaged.start)
            target.append(b"".join([data for data, _ in self._batches]))
            self._copy(source, target, damaged.end, self._segment.size)
            target.sync()
        finally:
            source.close()
            target.close()

    def _copy(self, source: DiskFile, target: DiskFile, start: int, end: int) -> None:
        """Other damaged ranges stay damaged; all other bytes have to be readable."""
        while start < end and self.new is not None:
            n = min(_CHUNK, end - start)
            data = self._read_source(source, start, n)
            if len(data) < n:
                self.new = None
            target.append(data)
            start += n

    def _read_source(self, source: DiskFile, start: int, n: int) -> bytes:
        """Empty if bytes are unreadable that are not known to be damaged."""
        try:
            return source.read(start, n)
        except OSError as error:
            if not disks.is_read_error(error):
                raise
        for gap_start, gap_end in disks.unreadable_ranges(source, start, n):
            if not any(known.start < gap_end and gap_start < known.end for known in self._known):
                return b""
        return disks.read_with_gaps(source, start, n)

    def abandon(self) -> None:
        """The log was deleted, with its directory."""
        self.new = None

    def finish(self) -> bool:
        """False, and nothing is replaced, if the log was truncated, compacted or deleted meanwhile, or if there is more
        damage than was known."""
        log = self._log
        if self.new is None or log.truncation_count != self._truncation_count or self._segment not in log.segments:
            disks.remove_if_exists(log.disk, self._path)
            return False
        log.swap_segments([self._segment], self.new, self._path)
        log.damage.remove(self._damaged)
        moved = self.new.size - self._segment.size
        for later in log.damage.of_segment(self._segment.base):
            if later.start >= self._damaged.end:
                log.damage.remove(later)
                log.damage.add(later.moved(moved))
        return True


def _placeholder(offset: int, epoch: int) -> BatchHeader:
    length = HEADER_SIZE - 12
    return BatchHeader(offset, length, epoch, batches.MAGIC, 0, 0, 0, NO_TIMESTAMP, NO_TIMESTAMP, -1, -1, -1, 0)
