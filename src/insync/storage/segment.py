"""One file of batches with its two indexes. A log is a sequence of segments; only the last one, the active one, grows.

A segment is named after its first offset. Its file is opened, and its indexes are loaded, when they are first needed.
Indexes that are missing or cannot be right are rebuilt from the batch headers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from insync.storage import disk as disks
from insync.storage import scan
from insync.storage.damage import CorruptSegmentError
from insync.storage.disk import Bytes, Disk, DiskFile
from insync.storage.extents import Extents
from insync.storage.file_names import DROPPED, INDEX, LOG, TIME_INDEX
from insync.storage.index import OffsetIndex, TimeIndex
from insync.wire.batch import HEADER_SIZE, MAGIC, BatchHeader, crc_ok, read_header

MAX_RELATIVE_OFFSET = 2**31 - 1
NO_TIMESTAMP = -1
_COPY_BYTES = 1 << 20
_MAX_HINTS = 64
_START = Struct(">qi")  # base offset, length after these twelve bytes


class TruncationPoint(NamedTuple):
    """Where to truncate a segment."""

    position: int
    end_offset: int
    """Where the log then ends."""
    damaged_offset: int | None
    """D6: the batches from this offset up to the end are damaged."""


class Segment:
    __slots__ = (
        "_disk",
        "_file",
        "_indexed",
        "_path",
        "_since_index",
        "_verified",
        "_written_from",
        "base",
        "broken",
        "first_timestamp",
        "hints",
        "index",
        "interval",
        "max_timestamp_offset",
        "read_position",
        "size",
        "times",
        "top_timestamp",
    )

    def __init__(self, disk: Disk, directory: str, base: int, size: int, interval: int) -> None:
        self._disk = disk
        self._path = disks.join(directory, f"{base:020d}")
        self._file: DiskFile | None = None
        self.base = base
        self.size = size
        self.interval = interval
        self.hints: dict[int, int] = {}
        self.broken = False
        """D6: its headers do not lead from one batch to the next. Rebuilding the index would not help, and its largest
        timestamp is unknown."""
        self.first_timestamp = self.top_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self._since_index = 0
        self._verified = Extents()
        self._written_from = size  # the bytes from here on were written by this process and are in the page cache
        self.read_position = 0
        """The position of the last read."""
        self._indexed = size == 0
        self.index = OffsetIndex(base)
        self.times = TimeIndex(base)

    @property
    def file(self) -> DiskFile:
        return self._file or self.open()

    @property
    def is_open(self) -> bool:
        return self._file is not None

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of its batches, -1 if it has none."""
        if not self._indexed:
            self.open()
            self.close()
        return self.top_timestamp

    def paths(self) -> tuple[str, str, str]:
        return self._path + LOG, self._path + INDEX, self._path + TIME_INDEX

    # --- writing -----------------------------------------------------------------------------------------------------

    def append(self, data: Bytes, base_offset: int, last_offset: int, timestamp: int) -> None:
        """One batch."""
        (self._file or self.open()).append(data)
        position = self.size
        n = len(data)
        self.size = position + n
        self._hint(base_offset, position)
        self.note(position, n, last_offset, timestamp)

    def append_many(self, data: Bytes, batches: list[tuple[int, BatchHeader]]) -> None:
        start = self.size
        (self._file or self.open()).append(data)
        self.size = start + len(data)
        self._hint(batches[0][1].base_offset, start)
        for at, header in batches:
            self.note(start + at, header.length, header.last_offset, header.max_timestamp)

    def note(self, position: int, n: int, last_offset: int, timestamp: int) -> None:
        """Index the batch at `position`."""
        if position == 0:
            self.first_timestamp = timestamp
        if timestamp > self.top_timestamp:
            self.top_timestamp = timestamp
            self.max_timestamp_offset = last_offset
        if self._since_index > self.interval:
            self.index.add(last_offset, position)
            self._add_time_entry()
            self._since_index = 0
        self._since_index += n

    def is_full(self, n: int, last_offset: int, timestamp: int, segment_bytes: int, segment_ms: int) -> bool:
        """Whether the next append, of `n` bytes, must go to a new segment."""
        size = self.size
        if size == 0:
            return False
        if self._file is None:
            self.open()
        return (
            size + n > segment_bytes
            or timestamp - self.first_timestamp > segment_ms
            or last_offset - self.base > MAX_RELATIVE_OFFSET
        )

    def truncate(self, position: int, offset: int) -> None:
        """Truncate at `position`, where the batch that holds `offset` starts."""
        self.file.truncate(position)
        self.size = position
        self._verified.truncate(position)
        self._written_from = min(self._written_from, position)
        self.hints.clear()
        self.index.truncate(offset)
        self.times.truncate(offset)
        self._refresh_tail()

    def save_indexes(self) -> None:
        """The last entry of the time index is the segment's largest timestamp, which is all that retention needs."""
        if not self._indexed:
            return  # not loaded, so unchanged
        _, index, times = self.paths()
        if not self.index and not self._disk.exists(index):
            return  # reading the headers of so few batches again costs less than two files
        self._add_time_entry()
        self.index.save(self._disk, index)
        self.times.save(self._disk, times)

    def remove(self) -> None:
        self.close()
        for path in self.paths():
            disks.remove_if_exists(self._disk, path)

    def set_aside(self) -> None:
        """Take it out of the log and keep it for an operator: its bytes were synced and may be the only copy."""
        self.close()
        self._disk.rename(self._path + LOG, self._dropped_path())
        self.remove()

    def keep_copy(self) -> None:
        """Like `set_aside`, for a segment that is about to be truncated."""
        copy = self._disk.open(self._dropped_path())
        try:
            for position in range(0, self.size, _COPY_BYTES):
                copy.append(disks.read_with_gaps(self.file, position, min(_COPY_BYTES, self.size - position)))
            copy.sync()
        finally:
            copy.close()

    def _dropped_path(self) -> str:
        number = 0
        while self._disk.exists(path := f"{self._path}{LOG}.{number}{DROPPED}"):
            number += 1
        return path

    # --- reading -----------------------------------------------------------------------------------------------------

    def read(self, offset: int, end_offset: int, max_bytes: int, limit_offset: int, min_one: bool) -> bytes:
        """Whole batches from the one that holds `offset`; the segment ends at `end_offset`, which is above it."""
        position = self.hints.get(offset, -1)
        if position < 0:
            position = self.locate(offset)
        self.read_position = position
        available = self.size - position
        if available <= max_bytes and limit_offset >= end_offset:
            data = self._read_readable(position, available, offset)
            if len(data) == available:
                self._hint(end_offset, self.size)
                return data
        else:
            data = self._read_readable(position, min(available, max_bytes), offset)
        size = whole_batches(data, limit_offset)
        if size:
            return data if size == len(data) else self._take_front(data, size, position)
        return self._first_batch(position, limit_offset) if min_one else b""

    def _read_readable(self, position: int, n: int, offset: int) -> bytes:
        """D6: the bytes up to the first unreadable one, which must not be in the first batch's start."""
        file = self._file or self.open()
        try:
            data = file.read(position, n)
        except OSError as error:
            if not disks.is_read_error(error):
                raise
            data = file.read(position, disks.unreadable_ranges(file, position, n)[0][0] - position)
        if len(data) < min(n, _START.size):
            raise CorruptSegmentError(self._path + LOG, offset, f"unreadable bytes from position {position} on")
        return data

    def is_verified(self, start: int, end: int) -> bool:
        """D6: whether all batches between two positions were verified, or written, by this process."""
        return start >= self._written_from or self._verified.covers(start, min(end, self._written_from))

    def mark_verified(self, start: int, end: int) -> None:
        if start < end:
            self._verified.add(start, end)

    def _take_front(self, data: bytes, size: int, position: int) -> bytes:
        if len(data) - size >= _START.size:
            self._hint(_START.unpack_from(data, size)[0], position + size)
        return data[:size]

    def locate(self, offset: int) -> int:
        """The position of the batch that holds `offset`."""
        position = self._walk(self._floor(offset), offset)
        if position < 0 and not self.broken:  # the index is wrong, or there is no such batch
            known = (self.index, self.times, self.first_timestamp, self.top_timestamp, self.max_timestamp_offset)
            self.rebuild_index()
            position = self._walk(0, offset)
            if position < 0:
                # A rebuilt index ends at the damage: the old one is worth more.
                self.index, self.times, self.first_timestamp, self.top_timestamp, self.max_timestamp_offset = known
                self.broken = True
        if position < 0:
            raise CorruptSegmentError(self._path + LOG, offset, f"no batch with offset {offset}")
        return position

    def find_truncation_point(self, offset: int, end_offset: int) -> TruncationPoint:
        """D3: where the batch that holds `offset` starts; the segment ends at `end_offset`.

        D6: headers may be damaged, and truncating too far would lose records that this replica acknowledged. So the
        batch has to be sound. If it is not, the sound batches before it show where it starts, or the batch that starts
        at `offset` is recognised by its CRC. Failing both, the file is truncated within the damaged batch: the rest of
        that represents the offsets up to `offset`, and has to be repaired.
        """
        try:
            position = self.locate(offset)
            if self._is_in_place(position, end_offset):
                return TruncationPoint(position, self.end_before(position), None)
        except CorruptSegmentError:
            pass
        position, end = self._sound_end(offset)
        if end == offset:
            return TruncationPoint(position, offset, None)
        following = self._find_batch(position, offset)
        stub = min(position + HEADER_SIZE - 1, self.size)  # too short to be a batch
        return TruncationPoint(stub if following is None else following, offset, end)

    def _is_in_place(self, position: int, end_offset: int) -> bool:
        """Whether the batch at `position` is sound, including its base offset, which the CRC does not cover."""
        header = self.header_at(position)
        following = position + header.length
        if following == self.size:
            in_order = header.next_offset == end_offset
        else:
            in_order = header.next_offset <= self.header_at(following).base_offset
        return in_order and self._is_sound_batch(position)

    def _sound_end(self, offset: int) -> tuple[int, int]:
        """Position and offset at which the sound batches before `offset` end, or those before the damage."""
        entries = bisect_left(self.index.keys, offset)
        for entry in reversed(range(entries)):
            start = self.index.values[entry]
            header = self.header_at(start)
            if header.last_offset == self.index.keys[entry] and self._is_sound_batch(start):
                return self._walk_sound(start, header.base_offset, offset)
        return self._walk_sound(0, self.base, offset)

    def _walk_sound(self, position: int, end: int, offset: int) -> tuple[int, int]:
        for at, header, buffer, place in scan.batches(self.file, position, self.size):
            in_order = header.magic == MAGIC and header.base_offset == end and end <= header.last_offset < offset
            if not in_order or not crc_ok(buffer, place, header):
                break
            position, end = at + header.length, header.next_offset
        return position, end

    def _find_batch(self, position: int, offset: int) -> int | None:
        """The position, from `position` on, of the sound batch that starts at `offset`. Of several the last one: the
        base offsets of the others are damaged, and a truncation that leaves too much is repaired."""
        pattern = offset.to_bytes(8, "big")
        match = None
        while self.size - position >= HEADER_SIZE:
            data = disks.read_with_gaps(self.file, position, min(_COPY_BYTES, self.size - position))
            if len(data) < HEADER_SIZE:
                break
            at = data.find(pattern)
            while at >= 0:
                if self._is_sound_batch(position + at):
                    match = position + at
                at = data.find(pattern, at + 1)
            position += len(data) - len(pattern) + 1
        return match

    def _is_sound_batch(self, position: int) -> bool:
        header = self.header_at(position)
        if header.magic != MAGIC or not HEADER_SIZE <= header.length <= self.size - position:
            return False
        return crc_ok(disks.read_with_gaps(self.file, position, header.length), 0, header)

    def end_before(self, position: int) -> int:
        """The offset at which the batches before `position` end; compaction may have left a gap after it."""
        entry = bisect_left(self.index.values, position)
        end = self.base
        for _, header in scan.headers(self.file, self.index.values[entry - 1] if entry else 0, position):
            end = header.next_offset
        return end

    @property
    def last_indexed(self) -> int:
        """The position of the batch of the last index entry; 0 if there is no entry or it points to no batch."""
        file = self.file
        position = self.index.values[-1] if self.index else 0
        return position if position and scan.is_batch(file, position, self.size, self.index.keys[-1]) else 0

    def position_before(self, offset: int) -> int:
        """A position from which a scan reaches the batch that holds `offset`, as close to it as is known."""
        position = self.hints.get(offset, -1)
        if position >= 0:
            return position
        position = self._floor(offset)
        return position if position and self._is_plausible(self.header_at(position), offset) else 0

    def _floor(self, offset: int) -> int:
        if self._file is None:
            self.open()
        return max(0, self.index.floor(offset))

    def _walk(self, start: int, offset: int) -> int:
        """D6: a header that cannot follow the previous one is damaged, or the scan started within a batch."""
        expected = self.base
        for position, header in scan.headers(self.file, start, self.size):
            if position == start > 0 and not self._is_plausible(header, offset):
                return -1  # the first batch may start above the offset, if compaction took what was before it
            if header.magic != MAGIC or header.base_offset < expected or header.last_offset_delta < 0:
                return -1
            if header.last_offset >= offset:
                return position
            expected = header.next_offset
        return -1

    def index_entries(self, position: int, count: int) -> tuple[array[int], array[int]]:
        """Copies of up to `count` entries of the offset index, from a position on: last offsets and positions."""
        if self._file is None and not self._indexed:
            self.open()
            self.close()
        first = bisect_left(self.index.values, position)
        return self.index.keys[first : first + count], self.index.values[first : first + count]

    def header_at(self, position: int) -> BatchHeader:
        return read_header(disks.read_with_gaps(self.file, position, HEADER_SIZE).ljust(HEADER_SIZE, b"\0"))

    def _is_plausible(self, header: BatchHeader, offset: int) -> bool:
        return header.magic == MAGIC and self.base <= header.base_offset <= offset

    def _first_batch(self, position: int, limit_offset: int) -> bytes:
        base, length = _START.unpack(self._read_readable(position, _START.size, limit_offset - 1))
        size = _START.size + length
        if not HEADER_SIZE <= size <= self.size - position:
            raise CorruptSegmentError(
                self._path + LOG, base, f"a batch with a length of {size} bytes at position {position}"
            )
        data = self._read_readable(position, size, base)
        if len(data) < size:
            raise CorruptSegmentError(self._path + LOG, base, f"unreadable batch at position {position}")
        return b"" if base >= limit_offset else data

    def _hint(self, offset: int, position: int) -> None:
        """Remember a position: readers mostly continue where they stopped, or want what was just written."""
        if len(self.hints) >= _MAX_HINTS:
            self.hints.clear()
        self.hints[offset] = position

    # --- repairing ---------------------------------------------------------------------------------------------------

    def with_replaced_bytes(
        self, start: int, end: int, start_offset: int, end_offset: int, batches: list[tuple[bytes, BatchHeader]]
    ) -> Segment:
        """A segment with the index of this one once `batches` replace the bytes from `start` to `end` (D6)."""
        self.index_entries(0, 0)  # loaded
        size = sum(len(data) for data, _ in batches)
        moved = size - (end - start)
        new = Segment(self._disk, disks.parent(self._path), self.base, self.size + moved, self.interval)
        new._indexed = True
        for last_offset, position in zip(self.index.keys, self.index.values, strict=True):
            if not start <= position < end:
                new.index.add(last_offset, position + moved if position >= end else position)
        for timestamp, offset in zip(self.times.keys, self.times.values, strict=True):
            if not start_offset <= offset < end_offset:
                new.times.add(timestamp, offset)
                new.top_timestamp, new.max_timestamp_offset = timestamp, offset
        known = not start_offset <= self.max_timestamp_offset < end_offset
        candidates = [(self.top_timestamp, self.max_timestamp_offset)] if known else []
        candidates += [(header.max_timestamp, header.last_offset) for _, header in batches]
        for timestamp, offset in candidates:
            if timestamp > new.top_timestamp:
                new.top_timestamp, new.max_timestamp_offset = timestamp, offset
        new.first_timestamp = batches[0][1].max_timestamp if start == 0 and batches else self.first_timestamp
        return new

    # --- opening -----------------------------------------------------------------------------------------------------

    def open(self) -> DiskFile:
        self._file = file = disks.open_file(self._disk, self._path + LOG)
        if not self._indexed:
            self._indexed = True
            self._load_indexes()
        return file

    def open_unindexed(self) -> DiskFile:
        """For recovery, which indexes every batch itself."""
        self._indexed = True
        return self.open()

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
            self._written_from = self.size  # the next read may come from the disk

    def reset_index(self) -> None:
        self.index = OffsetIndex(self.base)
        self.times = TimeIndex(self.base)
        self.first_timestamp = self.top_timestamp = NO_TIMESTAMP
        self.max_timestamp_offset = -1
        self._since_index = 0

    def rebuild_index(self) -> None:
        self.reset_index()
        end = 0
        for position, header in self._headers(0):
            self.note(position, header.length, header.last_offset, header.max_timestamp)
            end = position + header.length
        self.broken = end != self.size

    def _headers(self, start: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from a position on, up to the first one that cannot be part of this segment."""
        for position, header in scan.headers(self.file, start, self.size):
            if not 0 <= header.last_offset - self.base <= MAX_RELATIVE_OFFSET:
                return
            yield position, header

    def _load_indexes(self) -> None:
        _, index, times = self.paths()
        offsets = disks.read_if_exists(self._disk, index)
        stamps = disks.read_if_exists(self._disk, times)
        sound = offsets is not None and stamps is not None and self.index.decode(offsets) and self.times.decode(stamps)
        if not sound or self._has_entries_outside() or not self._is_last_time_right():
            self.rebuild_index()
            return
        if self.index:
            self.first_timestamp = self.header_at(0).max_timestamp
        self._refresh_tail()

    def _has_entries_outside(self) -> bool:
        return bool(self.index) and (self.index.keys[0] < self.base or self.index.values[-1] >= self.size)

    def _is_last_time_right(self) -> bool:
        """Retention deletes by this timestamp, so a damaged one could delete the segment."""
        if not self.times:
            return True
        position = self._walk(max(0, self.index.floor(self.times.values[-1])), self.times.values[-1])
        return position >= 0 and self.header_at(position).max_timestamp == self.times.keys[-1]

    def _refresh_tail(self) -> None:
        """Set what depends on the batches after the last index entry."""
        last = self.index.values[-1] if self.index else 0
        self.top_timestamp = self.times.keys[-1] if self.times else NO_TIMESTAMP
        self.max_timestamp_offset = self.times.values[-1] if self.times else -1
        self._since_index = 0
        for position, header in self._headers(last):
            if header.max_timestamp > self.top_timestamp:
                self.top_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset
            if position == 0:
                self.first_timestamp = header.max_timestamp
            self._since_index += header.length

    def _add_time_entry(self) -> None:
        if self.top_timestamp > (self.times.keys[-1] if self.times.keys else NO_TIMESTAMP):
            self.times.add(self.top_timestamp, self.max_timestamp_offset)


def whole_batches(data: bytes, limit_offset: int) -> int:
    """The length of the whole batches at the front of `data` that start below `limit_offset`."""
    at, end = 0, len(data)
    start = _START.size
    while end - at >= start:
        base, length = _START.unpack_from(data, at)
        following = at + start + length
        if base >= limit_offset or not at + HEADER_SIZE <= following <= end:
            break
        at = following
    return at
