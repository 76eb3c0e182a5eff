"""Reading the batches of a segment to check whether they are those that were written (D6).

A batch is sound if its CRC is right and its header fits. The CRC does not cover base offset, length and leader epoch,
so offsets must continue where the previous batch ended and stay within the segment, and the leader epoch must be the
one that the epoch cache has for that offset, or for the log start if the batch starts below it; of batches that end
below the log start no epoch is known. After a batch that is not sound, the scan continues at the next sound one:
where its length points to, if that leads to a sound batch, else at the next position in the offset index.

One kind of damage goes unnoticed: a base offset that changed within a gap that compaction left next to the batch.

A verification is a job that runs off the event loop, with a file handle of its own. Meanwhile the log may be truncated,
compacted or deleted: the caller has to check `is_current` before it uses the result.
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from sys import maxsize
from typing import NamedTuple

from crc32c import crc32c

from insync.storage.damage import DamagedRange
from insync.storage.disk import DiskFile, open_file, read_with_gaps
from insync.storage.log import Log
from insync.storage.segment import Segment
from insync.wire import batch as batches
from insync.wire.batch import HEADER_SIZE, BatchHeader, read_header

BATCH_COST = 1_024
"""Checking a batch costs as much as reading this many bytes."""
MAX_INDEX_ENTRIES = 1_024
"""How many index entries a scan with a budget copies."""
OVERLAP = "its offsets overlap with those of the previous batch"
_CHUNK = 1 << 20
_CRC_FROM = 21
_LENGTH_END = 12
_START = Struct(">qiibIhi")  # base offset, length, leader epoch, magic, CRC, attributes, last offset delta


class Verification:
    """A scan of a part of one segment, from a position where a batch starts. `run` is the job.

    Afterwards `damaged` has the damaged ranges, `position` and `expected` say where the next scan continues, and `done`
    is set if there is nothing more to verify in this segment for now.
    """

    __slots__ = (
        "_begin",
        "_budget",
        "_end_offset",
        "_epoch_starts",
        "_epochs",
        "_file",
        "_last_offsets",
        "_limit_offset",
        "_log",
        "_log_start",
        "_path",
        "_positions",
        "_segment",
        "_size",
        "_truncation_count",
        "cost",
        "damaged",
        "done",
        "expected",
        "index_is_wrong",
        "position",
    )

    def __init__(
        self, log: Log, segment: Segment, *, limit_offset: int, position: int = 0, expected: int = -1, budget: int = 0
    ) -> None:
        """Verify batches from `position` on that start below `limit_offset`. The first one starts at `expected` or
        above. With a `budget`, stop after about so many bytes."""
        self._log = log
        self._segment = segment
        self._truncation_count = log.truncation_count
        self._path = segment.paths()[0]
        self._size = segment.size
        self._file = open_file(log.disk, self._path) if segment.size else None  # the file may be gone later
        self._end_offset = log.segment_end(segment)
        self._limit_offset = limit_offset
        self._log_start = log.log_start
        self._last_offsets, self._positions = segment.index_entries(
            position, MAX_INDEX_ENTRIES if budget else segment.size
        )
        entries = log.epochs.entries
        self._epochs = [epoch for epoch, _ in entries]
        self._epoch_starts = [start for _, start in entries]
        self._budget = budget or self._size * (BATCH_COST + 1) + 1
        self._begin = position
        self.position = position
        self.expected = segment.base if expected < 0 else expected
        self.cost = 0
        self.damaged: list[DamagedRange] = []
        self.done = False
        self.index_is_wrong = False

    @property
    def segment(self) -> Segment:
        return self._segment

    def is_current(self) -> bool:
        """False if the log changed during the scan, which then proves nothing."""
        return self._log.truncation_count == self._truncation_count and self._segment in self._log.segments

    def mark_verified(self) -> None:
        """Reads need not verify these batches again. The log must not have changed (`is_current`)."""
        if not self.damaged:
            self._segment.mark_verified(self._begin, self.position)

    def run(self) -> None:
        if self._file is None:
            self.done = True
            return
        try:
            self._scan(_Reader(self._file, self._size))
        finally:
            self._file.close()

    # --- the scan ----------------------------------------------------------------------------------------------------

    def _scan(self, reader: _Reader) -> None:
        previous: tuple[int, int] | None = None
        while self.position < self._size and self.expected < self._limit_offset and self.cost < self._budget:
            header, problem = self._check(reader, self.position, self.expected)
            if header is not None and problem is None:
                self._check_index(header)
                previous = (self.position, self.expected)
                self.position += header.length
                self.expected = header.next_offset
                self.cost += header.length + BATCH_COST
            else:
                # Either of two batches whose offsets overlap may be the wrong one: both are replaced.
                start = previous if problem == OVERLAP and previous is not None else (self.position, self.expected)
                self._skip_damage(reader, *start, problem or "")
                previous = None
        self.done = self.position >= self._size or self.expected >= self._limit_offset
        if self.position >= self._size and self.expected != self._end_offset and previous is not None:
            reason = f"the segment does not end at offset {self._end_offset}"
            self._add_damage(*previous, self._size, self._end_offset, reason)

    def _check(self, reader: _Reader, position: int, expected: int) -> tuple[BatchHeader | None, str | None]:
        """The header at `position`, and what is wrong with its batch."""
        if self._size - position < HEADER_SIZE:
            return None, "too few bytes for a batch"
        header = reader.header(position)
        if not HEADER_SIZE <= header.length <= self._size - position:
            return None, f"its length is {header.length} bytes"
        if header.magic != batches.MAGIC:
            return header, f"its magic byte is {header.magic}"
        if reader.crc(position, header) != header.crc:
            return header, "its CRC does not match"
        if header.last_offset_delta < 0 or header.next_offset > self._end_offset:
            return header, f"its offsets go beyond the end of the segment, {self._end_offset - 1}"
        if header.next_offset > self._log_start and header.leader_epoch != self._epoch_of(header.base_offset):
            return header, f"its leader epoch is {header.leader_epoch}"
        return header, OVERLAP if header.base_offset < expected else None

    def _epoch_of(self, base_offset: int) -> int:
        """`Log.epoch_of_batch` as it was when the scan began."""
        at = bisect_right(self._epoch_starts, max(base_offset, self._log_start))
        return self._epochs[at - 1] if at else -1

    def _skip_damage(self, reader: _Reader, start: int, start_offset: int, reason: str) -> None:
        self.position, self.expected = self._find_next_sound(reader, start_offset)
        self.cost += self.position - start + BATCH_COST
        self._add_damage(start, start_offset, self.position, self.expected, reason)

    def _find_next_sound(self, reader: _Reader, expected: int) -> tuple[int, int]:
        """Position and base offset of the next sound batch after the damage; the end if there is none."""
        chained = self._position_after(reader, self.position)
        at = bisect_right(self._positions, self.position)
        while chained is not None or at < len(self._positions):
            indexed = self._positions[at] if at < len(self._positions) else self._size
            candidate = indexed if chained is None else min(indexed, chained)
            at += candidate == indexed
            header, problem = self._check(reader, candidate, expected)
            if header is not None and problem is None:
                return candidate, header.base_offset
            if candidate == chained:
                chained = self._position_after(reader, candidate)
        return self._size, self._end_offset

    def _position_after(self, reader: _Reader, position: int) -> int | None:
        """Where the length of the batch at `position` points to; None if that cannot be a batch."""
        if self._size - position < HEADER_SIZE:
            return None
        header = reader.header(position)
        following = position + header.length
        is_possible = header.length >= HEADER_SIZE and following <= self._size - HEADER_SIZE
        return following if is_possible else None

    def _check_index(self, header: BatchHeader) -> None:
        """An entry has the last offset of a batch and the position where that batch starts."""
        at = bisect_right(self._positions, self.position + header.length - 1) - 1
        if at >= 0 and self._positions[at] >= self.position:
            right = self._positions[at] == self.position and self._last_offsets[at] == header.last_offset
            self.index_is_wrong = self.index_is_wrong or not right

    def _add_damage(self, start: int, start_offset: int, end: int, end_offset: int, reason: str) -> None:
        self.damaged.append(
            DamagedRange(
                start_offset=start_offset,
                end_offset=end_offset,
                segment_base=self._segment.base,
                file=self._path,
                start=start,
                end=end,
                reason=reason,
            )
        )


class _Reader:
    """Reads a file in large pieces. A batch that is larger than a piece is never in memory as a whole."""

    __slots__ = ("_at", "_data", "_file", "_size")

    def __init__(self, file: DiskFile, size: int) -> None:
        self._file = file
        self._size = size
        self._at = 0
        self._data = b""

    def header(self, position: int) -> BatchHeader:
        return read_header(self._piece(position, HEADER_SIZE))

    def crc(self, position: int, header: BatchHeader) -> int:
        at, end = position + _CRC_FROM, position + header.length
        value = 0
        while at < end:
            piece = memoryview(self._piece(at, min(end - at, _CHUNK)))
            value = crc32c(piece, value)
            at += len(piece)
        return value

    def _piece(self, position: int, n: int) -> bytes | memoryview:
        if not self._at <= position <= position + n <= self._at + len(self._data):
            self._data = read_with_gaps(self._file, position, min(max(n, _CHUNK), self._size - position))
            self._at = position
            if len(self._data) < n:  # the file was truncated meanwhile: the scan proves nothing
                self._data += bytes(n - len(self._data))
        return memoryview(self._data)[position - self._at : position - self._at + n]


class CheckResult(NamedTuple):
    """The result of checking bytes that were read from a log."""

    size: int
    """Bytes of the sound batches at the front."""
    batches: int
    """How many sound batches these are."""
    is_damaged: bool
    """Whether the batch after them is damaged; else it was not checked."""


def check_batches(log: Log, records: bytes, most: int = maxsize) -> CheckResult:
    """Check up to `most` batches of `records`, as read from `log`; the first may start below the offset of the read."""
    at, end, expected, count = 0, len(records), -1, 0
    view, unpack, epoch_of_batch = memoryview(records), _START.unpack_from, log.epoch_of_batch
    while at < end and count < most:
        if end - at < HEADER_SIZE:
            return CheckResult(at, count, True)
        base, length, epoch, magic, crc, _, last_offset_delta = unpack(records, at)
        following = at + _LENGTH_END + length
        sound = (
            at + HEADER_SIZE <= following <= end
            and magic == batches.MAGIC
            and base >= expected
            and last_offset_delta >= 0
            and epoch == epoch_of_batch(base)
            and crc32c(view[at + _CRC_FROM : following]) == crc
        )
        if not sound:
            return CheckResult(at, count, True)
        at, expected = following, base + last_offset_delta + 1
        count += 1
    return CheckResult(at, count, False)
