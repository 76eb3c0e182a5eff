"""Indexes of segments that are removed, torn or old."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.pipeline.cluster_directories import NODES, NOW, ClusterDirectories, overwrite
from tests.pipeline.planted_damage.damage import DamageTable, Expected

DAMAGES = DamageTable()
OTHER_OFFSETS = b"".join((i + 1).to_bytes(4, "big") + (i * 7 + 5).to_bytes(4, "big") for i in range(3))
OTHER_TIMES = b"".join((NOW - 50 + i).to_bytes(8, "big") + i.to_bytes(4, "big") for i in range(1, 4))


def _has_two_times(segment: Path) -> bool:
    return segment.with_suffix(".timeindex").stat().st_size > 12


def choose_index(cluster: ClusterDirectories, rng: random.Random, suffix: str) -> tuple[int, Path]:
    """An index with entries, two or more if it is a time index, of a closed segment of orders-0."""
    candidates = [
        (node, file)
        for node in NODES
        for segment in cluster.segments(node, "orders")[:-1]
        if (file := segment.with_suffix(suffix)).stat().st_size and _has_two_times(segment)
    ]
    return rng.choice(candidates)


def _index_damage(name: str, suffix: str, change: Callable[[Path, random.Random], None]) -> None:
    @DAMAGES.add(name)
    def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
        node, file = choose_index(cluster, rng, suffix)
        change(file, rng)
        return Expected("index", node, "orders", 0, None, file)


def _remove_both_indexes(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, file = choose_index(cluster, rng, ".index")
    file.unlink()
    file.with_suffix(".timeindex").unlink()
    return Expected("index", node, "orders", 0)


_index_damage("a removed offset index", ".index", lambda file, _: file.unlink())
_index_damage("a removed time index", ".timeindex", lambda file, _: file.unlink())
DAMAGES["both indexes of a segment removed"] = _remove_both_indexes
_index_damage("an emptied offset index", ".index", lambda file, _: overwrite(file, b""))
_index_damage("an emptied time index", ".timeindex", lambda file, _: overwrite(file, b""))
_index_damage("a torn offset index", ".index", lambda file, _: overwrite(file, file.read_bytes()[:-3]))
_index_damage("a torn time index", ".timeindex", lambda file, _: overwrite(file, file.read_bytes()[:-3]))
_index_damage("an old time index", ".timeindex", lambda file, _: overwrite(file, file.read_bytes()[:12]))


_index_damage("the offset index of another segment", ".index", lambda file, _: overwrite(file, OTHER_OFFSETS))
_index_damage("the time index of another segment", ".timeindex", lambda file, _: overwrite(file, OTHER_TIMES))
