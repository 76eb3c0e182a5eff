"""What the kinds of planted damage share: what an audit is expected to say, and how a place is chosen.

A function damages one place of a cluster's directories, which `rng` chooses, and returns what is expected: the kind,
the node, the partition, and where it is known the offset and the file.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from insync.wire import batch
from tests.pipeline.cluster_directories import (
    NODES,
    Batches,
    ClusterDirectories,
    overwrite,
    read_batches,
    write_segment,
)

METADATA = "__cluster_metadata"
TOPICS = ("orders", "payments")
"""Not compacted, complete on all nodes."""


class Expected(NamedTuple):
    kind: str
    node: int
    topic: str = ""
    partition: int = -1
    offset: int | None = None
    file: Path | None = None


@dataclass(frozen=True)
class Place:
    """A batch of a replica."""

    node: int
    topic: str
    segment: Path
    batches: Batches
    index: int

    @property
    def data(self) -> bytearray:
        return self.batches[self.index]

    @property
    def base(self) -> int:
        return batch.read_header(self.data).base_offset

    @property
    def last(self) -> int:
        return batch.read_header(self.data).last_offset

    def expect(self, kind: str, offset: int | None = None, file: Path | None = None) -> Expected:
        at = self.base if offset is None else offset
        return Expected(kind, self.node, self.topic, 0, at, self.segment if file is None else file)

    def write(self, batches: Batches, *, indexes: bool = True) -> None:
        """Replace the segment's batches; its indexes are made to match, or stay as they were."""
        base = int(self.segment.stem)
        if indexes:
            write_segment(self.segment.parent, batches, base)
        else:
            overwrite(self.segment, b"".join(batches))


Damage = Callable[[ClusterDirectories, random.Random], Expected]


class DamageTable(dict[str, Damage]):
    """Damages by name."""

    def add(self, name: str) -> Callable[[Damage], Damage]:
        return lambda damage: self.setdefault(name, damage)


def choose_batch(
    cluster: ClusterDirectories, rng: random.Random, *, closed: bool = False, inner: bool = False
) -> Place:
    """`closed`: not in the newest segment. `inner`: neither the first nor the last batch of its segment."""
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segments = cluster.segments(node, topic)
    segment = rng.choice(segments[:-1] if closed else segments)
    batches = read_batches(segment)
    if inner and len(batches) < 3:
        segment = segments[0]
        batches = read_batches(segment)
    low, high = (1, len(batches) - 1) if inner else (0, len(batches))
    return Place(node, topic, segment, batches, rng.randrange(low, high))


def flip(data: bytearray, position: int, rng: random.Random) -> None:
    data[position] ^= 1 << rng.randrange(8)
