"""Files of the metadata quorum: votes, progress, snapshots and the metadata log."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

from insync.quorum import offset_checkpoint, state_file
from insync.quorum.state_file import ElectionState
from tests.pipeline.cluster_directories import CLEAN_NODES, NODES, ClusterDirectories, overwrite, read_batches
from tests.pipeline.planted_damage.damage import METADATA, DamageTable, Expected, Place, flip

DAMAGES = DamageTable()


def _state_damage(name: str, change: Callable[[Path, random.Random], object]) -> None:
    """Damage a quorum-state."""

    @DAMAGES.add(name)
    def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
        node = rng.choice(NODES)
        file = cluster.metadata(node) / state_file.FILE_NAME
        change(file, rng)
        return Expected("quorum", node, METADATA, 0, None, file)


DAMAGED_STATES = (b"", b"{", b'{"data_version": 0}')
OLD_STATE = state_file.encode(ElectionState(epoch=1, leader_id=1), NODES)

_state_damage("a damaged quorum-state", lambda file, rng: overwrite(file, rng.choice(DAMAGED_STATES)))
_state_damage("an old quorum-state", lambda file, _: overwrite(file, OLD_STATE))
_state_damage("a removed quorum-state", lambda file, _: file.unlink())


@DAMAGES.add("another leader of the same epoch")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    file = cluster.metadata(3) / state_file.FILE_NAME
    fields = json.loads(file.read_bytes())
    overwrite(file, json.dumps(fields | {"leaderId": 2}).encode())
    return Expected("quorum", 3, METADATA, 0, None, file)


@DAMAGES.add("a damaged checkpoint of the quorum")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.home(node) / offset_checkpoint.FILE_NAME
    overwrite(file, b"intact 5 1 5 1 -1 00000000\n")
    return Expected("quorum", node, METADATA, 0, None, file)


def _snapshot_of(cluster: ClusterDirectories, node: int) -> Path:
    return next(cluster.metadata(node).glob("*.checkpoint"))


@DAMAGES.add("a damaged metadata snapshot")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(CLEAN_NODES)
    file = _snapshot_of(cluster, node)
    data = bytearray(file.read_bytes())
    flip(data, rng.randrange(17, len(data)), rng)
    overwrite(file, data[: rng.choice((len(data), len(data) - 20))])
    return Expected("snapshot", node, METADATA, 0, int(file.name[:20]), file)


@DAMAGES.add("a metadata snapshot above the log's end")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(CLEAN_NODES)
    file = _snapshot_of(cluster, node)
    ahead = file.with_name(f"{999:020d}-{2:010d}.checkpoint")
    shutil.copy(file, ahead)
    return Expected("snapshot", node, METADATA, 0, 999, ahead)


@DAMAGES.add("a removed metadata snapshot that the log needs")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    file = _snapshot_of(cluster, 2)
    file.unlink()
    return Expected("snapshot", 2, METADATA, 0, int(file.name[:20]))


@DAMAGES.add("a flipped bit in the metadata log")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice((1, 3))
    [segment] = cluster.metadata(node).glob("*.log")
    batches = read_batches(segment)
    chosen = rng.randrange(len(batches) - 1)
    place = Place(node, METADATA, segment, batches, chosen)
    flip(place.data, rng.randrange(61, len(place.data)), rng)
    place.write(batches, indexes=False)
    return place.expect("crc")
