"""Which records of two logs differ, by their order and digests. No cluster, no Spark.

Both logs are read once, in step. Where they differ, the nearest place is searched from which on they agree again; what
lies between is aligned record by record. In the end, a record that one log lacks at one place and has too many at
another has moved, and a record that is too many and occurs elsewhere in the source is doubled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from insync.pipeline.mirror.row_digests import NO_ROWS, RowDigests, concatenate

CHUNK_ROWS = 1 << 16
FIRST_WINDOW = 64
AGREEMENT = 3
"""Logs agree again from where so many records in a row are equal, or both end."""
MAX_ALIGNED = 25_000_000
"""Product of two blocks' lengths; larger ones are not aligned, only their records reconciled."""

_END = np.uint64(0x5EED5EED5EED5EED)
_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9))


class Pair(NamedTuple):
    """A run of records: from offset `source` to `source_last`, and in the target likewise."""

    source: int
    source_last: int
    target: int
    target_last: int
    records: int


class Run(NamedTuple):
    """A run of records in one log, from offset `first` to `last`; `number` is that of the first in its log."""

    first: int
    last: int
    records: int
    number: int


class Interval(NamedTuple):
    """Committed offsets of the target from `low` to `high` mean the same as one of the source."""

    low: int
    high: int


@dataclass(slots=True)
class LogDifferences:
    equal: int = 0
    """Records that are equal and in order."""
    missing: list[Run] = field(default_factory=list)
    """Records of the source."""
    added: list[Run] = field(default_factory=list)
    """Records of the target that the source does not have."""
    doubled: list[Run] = field(default_factory=list)
    """Records of the target that it has once more."""
    moved: list[Pair] = field(default_factory=list)
    changed: list[Pair] = field(default_factory=list)
    """Single records, so that their fields can be compared."""
    intervals: dict[int, Interval] = field(default_factory=dict)
    """The target's offsets for offsets of the source."""


class _Log:
    """A log that is read in order. `sequences` of its rows are their numbers."""

    def __init__(self, parts: Iterator[RowDigests]) -> None:
        self._parts = parts
        self._buffer = NO_ROWS
        self._count = 0
        self.is_exhausted = False

    def peek(self, count: int) -> RowDigests:
        """The next `count` rows; fewer at the end."""
        parts, size = [self._buffer], len(self._buffer)
        while size < count and not self.is_exhausted:
            part = next(self._parts, None)
            if part is None:
                self.is_exhausted = True
            else:
                numbers = np.arange(self._count, self._count + len(part))
                parts.append(replace(part, sequences=numbers))
                self._count += len(part)
                size += len(part)
        if len(parts) > 1:
            self._buffer = concatenate(parts)
        return self._buffer.select(slice(count))

    def take(self, count: int) -> RowDigests:
        rows = self.peek(count)
        self._buffer = self._buffer.select(slice(len(rows), None))
        return rows


class LogComparison:
    """`offsets` are those of the source that are to be translated, `target_end` is where the target's log ends."""

    def __init__(
        self, source: Iterator[RowDigests], target: Iterator[RowDigests], offsets: Sequence[int], target_end: int
    ) -> None:
        self._source = _Log(source)
        self._target = _Log(target)
        self._pending = sorted(set(offsets))
        self._target_end = target_end
        self._last_target = -1
        self._missing: list[RowDigests] = []
        self._extra: list[RowDigests] = []
        self._replaced: list[tuple[RowDigests, RowDigests]] = []
        """Blocks of the same length, record for record."""
        self._result = LogDifferences()

    def run(self, find_in_source: Callable[[Any], Any]) -> LogDifferences:
        """`find_in_source(digests)` is a mask of those that some record of the source has."""
        while True:
            source, target = self._source.peek(CHUNK_ROWS), self._target.peek(CHUNK_ROWS)
            count = min(len(source), len(target))
            differing = np.flatnonzero(source.digests[:count] != target.digests[:count])
            equal = int(differing[0]) if len(differing) else count
            if equal:
                self._match(self._source.take(equal), self._target.take(equal))
            elif not len(source) and not len(target):
                break
            else:
                self._align(*self._find_agreement())
        for offset in self._pending:
            self._result.intervals[offset] = Interval(self._last_target + 1, self._target_end)
        self._classify(find_in_source)
        return self._result

    def _match(self, source: RowDigests, target: RowDigests) -> None:
        self._result.equal += len(source)
        while self._pending and self._pending[0] <= source.offsets[-1]:
            offset = self._pending.pop(0)
            at = int(np.searchsorted(source.offsets, offset))
            before = int(target.offsets[at - 1]) if at else self._last_target
            self._result.intervals[offset] = Interval(before + 1, int(target.offsets[at]))
        self._last_target = int(target.offsets[-1])

    def _find_agreement(self) -> tuple[int, int]:
        """How many records to leave out of source and target, so that they agree again."""
        window = FIRST_WINDOW
        while True:
            source, target = self._source.peek(window), self._target.peek(window)
            ends = len(source) < window, len(target) < window
            places = find_agreement(source.digests, target.digests, ends)
            if places is not None:
                return places
            window *= 8

    def _align(self, source_count: int, target_count: int) -> None:
        source, target = self._source.take(source_count), self._target.take(target_count)
        if len(source) * len(target) > MAX_ALIGNED:
            self._missing.append(source)
            self._extra.append(target)
            return
        matcher = SequenceMatcher(None, source.digests.tolist(), target.digests.tolist(), autojunk=False)
        for kind, first, end, target_first, target_end in matcher.get_opcodes():
            left, right = source.select(slice(first, end)), target.select(slice(target_first, target_end))
            if kind == "equal":
                self._match(left, right)
                continue
            count = min(len(left), len(right))
            if count:
                self._replaced.append((left.select(slice(count)), right.select(slice(count))))
            self._missing.append(left.select(slice(count, None)))
            self._extra.append(right.select(slice(count, None)))

    # --- what the differences are ------------------------------------------------------------------------------------

    def _classify(self, find_in_source: Callable[[Any], Any]) -> None:
        replaced_source = concatenate([pair[0] for pair in self._replaced])
        replaced_target = concatenate([pair[1] for pair in self._replaced])
        missing, extra = concatenate(self._missing), concatenate(self._extra)
        unmatched_source = np.concatenate([missing.digests, replaced_source.digests])
        unmatched_target = np.concatenate([extra.digests, replaced_target.digests])
        elsewhere = np.isin(replaced_source.digests, unmatched_target)
        elsewhere |= np.isin(replaced_target.digests, unmatched_source)
        self._result.changed = [
            Pair(source, source, target, target, 1)
            for source, target in zip(
                replaced_source.offsets[~elsewhere].tolist(), replaced_target.offsets[~elsewhere].tolist(), strict=True
            )
        ]
        missing = _sorted(concatenate([missing, replaced_source.select(elsewhere)]))
        extra = _sorted(concatenate([extra, replaced_target.select(elsewhere)]))
        places, target_places = _pair_equal(missing.digests, extra.digests)
        self._result.moved = _to_pairs(missing.select(places), extra.select(target_places))
        self._result.missing = _to_runs(_without(missing, places))
        extra = _without(extra, target_places)
        doubled = find_in_source(extra.digests) if len(extra) else np.zeros(0, np.bool_)
        self._result.doubled = _to_runs(extra.select(doubled))
        self._result.added = _to_runs(extra.select(~doubled))


def find_agreement(source: Any, target: Any, ends: tuple[bool, bool]) -> tuple[int, int] | None:
    """The places with the least sum from which on both have the same records; None if more has to be read. `ends` tells
    whether the logs end with these records."""
    left, right = (_join(digests, is_end) for digests, is_end in zip((source, target), ends, strict=True))
    order = np.argsort(left, kind="stable")
    at = np.searchsorted(left[order], right)
    at[at == len(order)] = 0
    equal = left[order[at]] == right if len(order) else np.zeros(len(right), np.bool_)
    if not equal.any():
        return None
    places = order[at]
    cost = np.where(equal, places + np.arange(len(right)), np.iinfo(np.int64).max)
    best = int(np.argmin(cost))
    return int(places[best]), best


def _join(digests: Any, is_end: bool) -> Any:
    """One digest of each record together with those that follow."""
    if is_end:
        digests = np.concatenate([digests, np.full(AGREEMENT, _END)])
    count = max(0, len(digests) - AGREEMENT + 1)
    joined = np.zeros(count, np.uint64)
    for i, factor in enumerate(_FACTORS):
        joined += digests[i : i + count] * factor
    return joined


def _pair_equal(left: Any, right: Any) -> tuple[Any, Any]:
    """Places in both that have the same digest, each used once, in order."""
    waiting: dict[int, list[int]] = {}
    for place in np.flatnonzero(np.isin(right, left))[::-1].tolist():
        waiting.setdefault(int(right[place]), []).append(place)
    pairs = [
        (place, waiting[digest].pop())
        for place, digest in ((place, int(left[place])) for place in np.flatnonzero(np.isin(left, right)).tolist())
        if waiting.get(digest)
    ]
    columns = np.array(pairs, np.int64).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _sorted(rows: RowDigests) -> RowDigests:
    return rows.select(np.argsort(rows.sequences, kind="stable"))


def _without(rows: RowDigests, places: Any) -> RowDigests:
    mask = np.ones(len(rows), np.bool_)
    mask[places] = False
    return rows.select(mask)


def _split(*indexes: Any) -> list[Any]:
    """Slices of neighbours in all of the lists."""
    if not len(indexes[0]):
        return []
    breaks = np.any([np.diff(index) != 1 for index in indexes], axis=0)
    edges = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(indexes[0])]
    return [slice(start, end) for start, end in pairwise(edges)]


def _to_runs(rows: RowDigests) -> list[Run]:
    return [
        Run(int(offsets[0]), int(offsets[-1]), len(offsets), int(rows.sequences[part.start]))
        for part in _split(rows.sequences)
        if len(offsets := rows.offsets[part])
    ]


def _to_pairs(source: RowDigests, target: RowDigests) -> list[Pair]:
    pairs = []
    for part in _split(source.sequences, target.sequences):
        left, right = source.offsets[part], target.offsets[part]
        pairs.append(Pair(int(left[0]), int(left[-1]), int(right[0]), int(right[-1]), len(left)))
    return pairs
