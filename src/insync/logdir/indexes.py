"""A segment's `.index` and `.timeindex` as numpy arrays, for segments of Apache Kafka and ours.

A running Apache Kafka preallocates the files of the active segment and leaves zeros after the last entry. Ours are
written when a segment is closed, and not at all for a small one, so a missing file is not damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from typing import Any

import numpy as np

from insync.storage.file_names import INDEX, TIME_INDEX
from insync.storage.index import OFFSET_ENTRY, TIME_ENTRY, decode_entries

_EMPTY_ARRAY: Any = np.empty(0, np.int64)


class IndexFileError(Exception):
    """An index file whose content cannot be an index."""

    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(path, position, reason)
        self.path = path
        self.position = position
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Index:
    """Keys and values of the entries: offset and position, or timestamp and offset. Offsets are absolute."""

    keys: Any
    values: Any

    def __len__(self) -> int:
        return len(self.keys)

    def floor(self, key: int, default: int) -> int:
        """The value of the last entry whose key is not above `key`."""
        at = int(np.searchsorted(self.keys, key, side="right"))
        return int(self.values[at - 1]) if at else default

    def value_after(self, key: int, default: int) -> int:
        """The value of the entry after the first one whose key is at least `key`: the batch of `key` ends before it."""
        at = int(np.searchsorted(self.keys, key, side="left")) + 1
        return int(self.values[at]) if at < len(self.values) else default


EMPTY = Index(_EMPTY_ARRAY, _EMPTY_ARRAY)


def read_offset_index(stem: str, base: int) -> Index:
    """`stem` is the segment's path without its suffix. Raises IndexFileError, or OSError if the file is unreadable."""
    return _read(stem + INDEX, OFFSET_ENTRY, key_base=base, value_base=0)


def read_time_index(stem: str, base: int) -> Index:
    return _read(stem + TIME_INDEX, TIME_ENTRY, key_base=0, value_base=base)


def read_last_timestamp(stem: str) -> int | None:
    """A closed segment's largest timestamp, which is the last entry of its time index; None if there is no entry."""
    index = read_time_index(stem, 0)
    return int(index.keys[-1]) if len(index) else None


def _read(path: str, entry: Struct, key_base: int, value_base: int) -> Index:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return EMPTY
    if spare := len(data) % entry.size:
        raise IndexFileError(path, len(data) - spare, f"{len(data)} bytes are not a whole number of entries")
    used = len(data.rstrip(b"\0"))
    count = -(-used // entry.size)
    keys, values = (np.array(column, np.int64) for column in decode_entries(data[: count * entry.size], entry))
    wrong = np.flatnonzero((np.diff(keys, prepend=-1) <= 0) | (np.diff(values, prepend=-1) < 0))
    if len(wrong):
        raise IndexFileError(path, int(wrong[0]) * entry.size, "an entry that is not above the one before it")
    return Index(keys + key_base, values + value_base)
