"""The two sparse indexes of a segment, in memory as arrays and on disk in Kafka's format.

An entry of the offset index has 8 bytes: the last offset of a batch relative to the segment's base, and the position of
that batch. An entry of the time index has 12: the largest timestamp so far, and the relative offset of its batch. Both
columns rise strictly. An entry is added every index.interval.bytes. The files are written when a segment is closed.
They can always be rebuilt from the log, so nothing waits for them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from struct import Struct

from insync.storage.disk import Disk

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")


def decode_entries(data: bytes, entry: Struct, key_base: int = 0, value_base: int = 0) -> tuple[array[int], array[int]]:
    """Keys and values of whole entries, each with its base added."""
    keys, values = array("q"), array("q")
    for key, value in entry.iter_unpack(data):
        keys.append(key + key_base)
        values.append(value + value_base)
    return keys, values


class SparseIndex:
    """Pairs of rising numbers; the first `saved` of them are in the file."""

    __slots__ = ("base", "keys", "saved", "values")

    entry: Struct
    key_is_offset: bool

    def __init__(self, base: int) -> None:
        self.base = base
        self.keys = array("q")
        self.values = array("q")
        self.saved = 0

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: int, value: int) -> None:
        self.keys.append(key)
        self.values.append(value)

    def floor(self, key: int) -> int:
        """The value of the last entry whose key is not above `key`, -1 if there is none."""
        at = bisect_right(self.keys, key)
        return self.values[at - 1] if at else -1

    def truncate(self, offset: int) -> None:
        """Drop the entries of batches that end at `offset` or later."""
        offsets = self.keys if self.key_is_offset else self.values
        n = bisect_right(offsets, offset - 1)
        del self.keys[n:], self.values[n:]
        self.saved = min(self.saved, n)

    def save(self, disk: Disk, path: str) -> None:
        if self.saved == len(self) and disk.exists(path) and disk.size(path) == self.saved * self.entry.size:
            return
        file = disk.open(path)
        try:
            file.truncate(min(file.size, self.saved * self.entry.size))
            file.append(self.encode(file.size // self.entry.size))
        finally:
            file.close()
        self.saved = len(self)

    def encode(self, start: int = 0) -> bytes:
        entries = range(start, len(self))
        base = self.base
        if self.key_is_offset:
            return b"".join([self.entry.pack(self.keys[at] - base, self.values[at]) for at in entries])
        return b"".join([self.entry.pack(self.keys[at], self.values[at] - base) for at in entries])

    def decode(self, data: bytes) -> bool:
        """Load the entries of a file; False if they cannot be those of an index."""
        if len(data) % self.entry.size:
            return False
        key_base, value_base = (self.base, 0) if self.key_is_offset else (0, self.base)
        self.keys, self.values = decode_entries(data, self.entry, key_base, value_base)
        self.saved = len(self)
        return _is_rising(self.keys) and _is_rising(self.values)


class OffsetIndex(SparseIndex):
    __slots__ = ()
    entry = OFFSET_ENTRY
    key_is_offset = True


class TimeIndex(SparseIndex):
    __slots__ = ()
    entry = TIME_ENTRY
    key_is_offset = False


def _is_rising(numbers: array[int]) -> bool:
    return all(numbers[at] < numbers[at + 1] for at in range(len(numbers) - 1))
