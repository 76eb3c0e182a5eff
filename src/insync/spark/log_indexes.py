"""A segment's `.index` and `.timeindex` as arrays of numbers, Apache Kafka's and ours.

A file that a running Apache Kafka still writes is as large as it may become, and zeros from the last entry on. Ours are
written when a segment is closed, and not at all for a small one: a missing file is no damage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

OFFSETS, TIMES = ".index", ".timeindex"
_OFFSET_ENTRY = np.dtype([("key", ">i4"), ("value", ">i4")])
_TIME_ENTRY = np.dtype([("key", ">i8"), ("value", ">i4")])
OFFSET_ENTRY_SIZE = _OFFSET_ENTRY.itemsize
_NONE: Any = np.empty(0, np.int64)


class BadIndex(Exception):  # noqa: N818  says what was found
    def __init__(self, path: str, position: int, reason: str) -> None:
        super().__init__(path, position, reason)
        self.path = path
        self.position = position
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Index:
    """`keys` and `values` of the entries: offset and position, or time and offset. Offsets are whole ones."""

    keys: Any
    values: Any

    def __len__(self) -> int:
        return len(self.keys)

    def floor(self, key: int, default: int) -> int:
        """The value of the last entry whose key is not above `key`."""
        at = int(np.searchsorted(self.keys, key, side="right"))
        return int(self.values[at - 1]) if at else default

    def after(self, key: int, default: int) -> int:
        """The value of the entry behind the first whose key is not below `key`: all of `key`'s batch lies before it."""
        at = int(np.searchsorted(self.keys, key, side="left")) + 1
        return int(self.values[at]) if at < len(self.values) else default


EMPTY = Index(_NONE, _NONE)


def offsets(segment: str, base: int) -> Index:
    """`segment`: the path without its suffix. Raises BadIndex, or OSError if the file is there and cannot be read."""
    found = _entries(segment + OFFSETS, _OFFSET_ENTRY)
    return Index(found.keys + base, found.values)


def times(segment: str, base: int) -> Index:
    found = _entries(segment + TIMES, _TIME_ENTRY)
    return Index(found.keys, found.values + base)


def last_time(segment: str) -> int | None:
    """A closed segment's largest timestamp, from the last entry of its time index; None if that does not tell."""
    found = times(segment, 0)
    return int(found.keys[-1]) if len(found) else None


def _entries(path: str, kind: Any) -> Index:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        return EMPTY
    if spare := len(data) % kind.itemsize:
        raise BadIndex(path, len(data) - spare, f"{len(data)} bytes are no whole number of entries")
    raw = np.frombuffer(data, kind)
    keys, values = raw["key"].astype(np.int64), raw["value"].astype(np.int64)
    used = np.flatnonzero((keys != 0) | (values != 0))
    count = int(used[-1]) + 1 if len(used) else 0
    keys, values = keys[:count], values[:count]
    wrong = np.flatnonzero((np.diff(keys, prepend=-1) <= 0) | (np.diff(values, prepend=-1) < 0))
    if len(wrong):
        raise BadIndex(path, int(wrong[0]) * kind.itemsize, "an entry that is not above the one before it")
    return Index(keys, values)
