"""Directories with the id of another topic, cluster or node."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from insync.storage import checkpoints
from tests.pipeline.cluster_directories import NODES, ClusterDirectories, overwrite
from tests.pipeline.planted_damage.damage import DamageTable, Expected

DAMAGES = DamageTable()


def _metadata_damage(name: str, change: Callable[[Path, random.Random], object]) -> None:
    """Damage a partition.metadata."""

    @DAMAGES.add(name)
    def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
        node = rng.choice(NODES)
        file = cluster.directory(node, "orders") / checkpoints.PARTITION_METADATA
        change(file, rng)
        return Expected("identity", node, "orders", 0, None, file)


def _change_topic_id(file: Path, rng: random.Random) -> None:
    overwrite(file, checkpoints.encode_partition_metadata(UUID(int=rng.getrandbits(128), version=4), None))


_metadata_damage("a wrong topic id", _change_topic_id)
_metadata_damage("a damaged partition.metadata", lambda file, _: overwrite(file, b"version: 0\ntopic_id: ???"))
_metadata_damage("a removed partition.metadata", lambda file, _: file.unlink())


@DAMAGES.add("a wrong cluster id")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.home(node) / checkpoints.META_PROPERTIES
    overwrite(file, file.read_bytes().replace(b"cluster.id=", b"cluster.id=X"))
    return Expected("identity", node, "", -1, None, file)


@DAMAGES.add("a wrong node id")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    other = rng.choice([other for other in (*NODES, 77) if other != node])
    file = cluster.home(node) / checkpoints.META_PROPERTIES
    overwrite(file, file.read_bytes().replace(b"node.id=%d" % node, b"node.id=%d" % other))
    return Expected("identity", other, "", -1, None, file)
