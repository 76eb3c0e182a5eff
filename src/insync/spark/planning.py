"""From offsets to tasks: where a micro-batch ends, and which ranges its tasks read. Arithmetic only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from insync.client.model import TopicPartition

Offsets = dict[TopicPartition, int]

COMBINED_OFFSETS = 10_000
"""Of small ranges that share a task, at most: reading so many takes about as long as starting a task."""
COMBINED_TASKS = 64
"""Ranges share tasks only if there are more ranges than this, and then there are about so many tasks or more."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets from `start` up to, but not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition


def backlog(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int]) -> Offsets:
    """How many offsets each partition has to read."""
    return {key: max(0, end - start.get(key, end)) for key, end in latest.items()}


def limit_batch(start: Mapping[TopicPartition, int], latest: Mapping[TopicPartition, int], max_offsets: int) -> Offsets:
    """The end of a batch of about `max_offsets`. Each partition contributes in proportion to its backlog, and at least
    one offset, so that none is starved."""
    sizes = backlog(start, latest)
    total = sum(sizes.values())
    if total <= max_offsets:
        return dict(latest)
    return {key: end - sizes[key] + _share(max_offsets, sizes[key], total) for key, end in latest.items()}


def _share(max_offsets: int, size: int, total: int) -> int:
    exact = max_offsets * size / total
    return min(size, 1 if 0 < exact < 1 else int(exact))


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """One range per task. Without limits every range stays whole; with them, large ranges are split first."""
    whole = [offsets for offsets in ranges if offsets.size > 0]
    total = sum(offsets.size for offsets in whole)
    tasks: list[OffsetRange] = []
    for offsets in whole:
        parts = 1 if max_records is None else -(-offsets.size // max_records)
        if min_partitions is not None and min_partitions > len(whole):
            parts = max(parts, int(min_partitions * offsets.size / total + 0.5))
        tasks += [offsets] if parts <= 1 else _split_range(offsets, min(parts, offsets.size))
    return tasks


def _split_range(offsets: OffsetRange, parts: int) -> list[OffsetRange]:
    edges = [offsets.start + offsets.size * i // parts for i in range(parts + 1)]
    return [OffsetRange(offsets.topic, offsets.partition, edges[i], edges[i + 1]) for i in range(parts)]


def combine_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[list[OffsetRange]]:
    """The ranges of each task. Of very many ranges, small neighbours share a task, unless that would leave fewer than
    `min_partitions` tasks.

    The result depends on the arguments only: a batch that runs again, perhaps on another cluster of executors, has the
    same rows in the same tasks, as the sink's fence expects.
    """
    remaining = list(ranges)
    per_task = max(1, len(remaining) // max(COMBINED_TASKS, min_partitions or 0))
    max_offsets = min(COMBINED_OFFSETS, max_records or COMBINED_OFFSETS)
    tasks: list[list[OffsetRange]] = []
    size = 0
    for offsets in remaining:
        fits = len(tasks[-1]) < per_task and size + offsets.size <= max_offsets if tasks else False
        if fits and tasks[-1][-1].key != offsets.key:
            tasks[-1].append(offsets)
            size += offsets.size
        else:
            tasks.append([offsets])
            size = offsets.size
    return tasks
