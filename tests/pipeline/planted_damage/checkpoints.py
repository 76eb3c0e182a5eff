"""Checkpoints of a broker: high watermarks, recovery points and log starts."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from insync.storage import checkpoints
from tests.pipeline.cluster_directories import CLEAN_NODES, NODES, ClusterDirectories, overwrite
from tests.pipeline.planted_damage.damage import DamageTable, Expected

DAMAGES = DamageTable()


def set_checkpoint(cluster: ClusterDirectories, node: int, name: str, key: tuple[str, int], offset: int) -> Path:
    file = cluster.data(node) / name
    offsets = checkpoints.decode_offsets(file.read_bytes())
    assert offsets is not None
    overwrite(file, checkpoints.encode_offsets(offsets | {key: offset}))
    return file


def _checkpoint_damage(name: str, file: str, change: Callable[[int, random.Random], int]) -> None:
    @DAMAGES.add(name)
    def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
        node = rng.choice(CLEAN_NODES)
        end = cluster.replicas[node, "orders", 0].end
        path = set_checkpoint(cluster, node, file, ("orders", 0), change(end, rng))
        return Expected("checkpoint", node, "orders", 0, None, path)


def _ahead(end: int, rng: random.Random) -> int:
    return end + rng.randint(1, 50)


def _behind(end: int, rng: random.Random) -> int:
    return rng.randrange(end)


_checkpoint_damage("a high watermark ahead of all logs", checkpoints.HIGH_WATERMARKS, _ahead)
_checkpoint_damage("a recovery point ahead of the log", checkpoints.RECOVERY_POINTS, _ahead)
_checkpoint_damage("a recovery point behind a clean stop", checkpoints.RECOVERY_POINTS, _behind)
_checkpoint_damage("a log start ahead of the log", checkpoints.LOG_STARTS, _ahead)


@DAMAGES.add("a damaged checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    names = (checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS)
    file = cluster.data(node) / rng.choice(names)
    overwrite(file, b"0\n5\norders 0")
    return Expected("checkpoint", node, "", -1, None, file)


@DAMAGES.add("an old copy of a checkpoint of all partitions")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(CLEAN_NODES)
    file = cluster.data(node) / checkpoints.RECOVERY_POINTS
    offsets = checkpoints.decode_offsets(file.read_bytes())
    assert offsets is not None
    overwrite(file, checkpoints.encode_offsets({key: offset // 2 for key, offset in offsets.items()}))
    return Expected("checkpoint", node, file=file)
