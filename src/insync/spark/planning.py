"""From offsets to tasks: how far a micro-batch goes, and who reads which range. Arithmetic only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

Key = tuple[str, int]
Offsets = dict[Key, int]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """The offsets from `start` up to, not including, `end`."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    @property
    def key(self) -> Key:
        return self.topic, self.partition


def to_json(offsets: Mapping[Key, int]) -> str:
    """As the connector writes them into a checkpoint. Spark compares the strings: keys are in order."""
    found: dict[str, dict[str, int]] = {}
    for (topic, index), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(index)] = offset
    return json.dumps(found, separators=(",", ":"))


def from_json(text: str) -> Offsets:
    return {(topic, int(index)): offset for topic, rest in json.loads(text).items() for index, offset in rest.items()}


def backlog(start: Mapping[Key, int], latest: Mapping[Key, int]) -> Offsets:
    """How much there is to read of each partition."""
    return {key: max(0, end - start.get(key, end)) for key, end in latest.items()}


def limited(start: Mapping[Key, int], latest: Mapping[Key, int], most: int) -> Offsets:
    """The end of a batch of about `most` offsets: each partition gives in proportion to its backlog, and at least one,
    so that none waits for ever."""
    sizes = backlog(start, latest)
    total = sum(sizes.values())
    if total <= most:
        return dict(latest)
    return {key: end - sizes[key] + min(sizes[key], _share(most, sizes[key], total)) for key, end in latest.items()}


def _share(most: int, size: int, total: int) -> int:
    exact = most * size / total
    return 1 if 0 < exact < 1 else int(exact)


def split(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Tasks: one for each range, unless more were asked for. Large ranges are cut first."""
    whole = [each for each in ranges if each.size > 0]
    total = sum(each.size for each in whole)
    found: list[OffsetRange] = []
    for each in whole:
        parts = 1 if max_records is None else -(-each.size // max_records)
        if min_partitions is not None and min_partitions > len(whole):
            parts = max(parts, int(min_partitions * each.size / total + 0.5))
        found += _cut(each, min(max(parts, 1), each.size))
    return found


def _cut(each: OffsetRange, parts: int) -> list[OffsetRange]:
    edges = [each.start + each.size * i // parts for i in range(parts + 1)]
    return [OffsetRange(each.topic, each.partition, edges[i], edges[i + 1]) for i in range(parts)]
