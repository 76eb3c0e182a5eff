"""Small files of a replica: the epoch checkpoint and the snapshots of producers."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from insync.storage import checkpoints
from insync.storage.producer_state import ProducerStates
from insync.wire import batch
from tests.pipeline.cluster_directories import CLEAN_NODES, ClusterDirectories, list_epochs, overwrite
from tests.pipeline.planted_damage.damage import TOPICS, DamageTable, Expected, flip

DAMAGES = DamageTable()


def _epoch_file(cluster: ClusterDirectories, rng: random.Random) -> tuple[int, str, Path]:
    node, topic = rng.choice(CLEAN_NODES), rng.choice(TOPICS)
    return node, topic, cluster.directory(node, topic) / checkpoints.LEADER_EPOCHS


@DAMAGES.add("a damaged epoch checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic, file = _epoch_file(cluster, rng)
    overwrite(file, rng.choice((b"", b"0\n1\n", b"\xff\x00 garbage")))
    return Expected("epoch", node, topic, 0, None, file)


@DAMAGES.add("a removed epoch checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic, file = _epoch_file(cluster, rng)
    file.unlink()
    return Expected("epoch", node, topic, 0, None, file)


@DAMAGES.add("a wrong epoch in an epoch checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic, file = _epoch_file(cluster, rng)
    entries = list_epochs(cluster.replicas[node, topic, 0].batches)
    overwrite(file, checkpoints.encode_epochs([*entries[:-1], (entries[-1][0] + 3, entries[-1][1])]))
    return Expected("epoch", node, topic, 0, entries[-1][1], file)


@DAMAGES.add("an epoch checkpoint with an epoch above the log's end")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic, file = _epoch_file(cluster, rng)
    replica = cluster.replicas[node, topic, 0]
    entries = [*list_epochs(replica.batches), (99, replica.end + 10)]
    overwrite(file, checkpoints.encode_epochs(entries))
    return Expected("epoch", node, topic, 0, replica.end + 10, file)


@DAMAGES.add("an old copy of an epoch checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    choices = [
        (node, topic)
        for node in CLEAN_NODES
        for topic in ("orders", "payments", "lagging")
        if len(list_epochs(cluster.replicas[node, topic, 0].batches)) > 1
    ]
    node, topic = rng.choice(choices)
    entries = list_epochs(cluster.replicas[node, topic, 0].batches)
    file = cluster.directory(node, topic) / checkpoints.LEADER_EPOCHS
    overwrite(file, checkpoints.encode_epochs(entries[:-1]))
    return Expected("epoch", node, topic, 0, entries[-1][1], file)


def _producer_file(cluster: ClusterDirectories, rng: random.Random) -> tuple[int, Path]:
    node = rng.choice(CLEAN_NODES)
    return node, rng.choice(sorted(cluster.directory(node, "orders").glob("*.snapshot")))


@DAMAGES.add("a damaged snapshot of producers")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, file = _producer_file(cluster, rng)
    data = bytearray(file.read_bytes())
    flip(data, rng.randrange(len(data)), rng)
    overwrite(file, data)
    return Expected("producers", node, "orders", 0, int(file.stem), file)


@DAMAGES.add("a snapshot of producers ahead of the log")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, file = _producer_file(cluster, rng)
    ahead = file.with_name(f"{cluster.replicas[node, 'orders', 0].end + 5:020d}.snapshot")
    shutil.copy(file, ahead)
    return Expected("producers", node, "orders", 0, int(ahead.stem), ahead)


@DAMAGES.add("a snapshot of producers with another sequence")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(CLEAN_NODES)
    replica = cluster.replicas[node, "orders", 0]
    states = ProducerStates()
    states.rebuild(batch.read_header(data) for data in replica.batches)
    producer = next(iter(states.producers.values()))
    first, last, base, end, time = producer.batches[-1]
    producer.batches[-1] = (first + 1, last + 1, base, end, time)
    file = cluster.directory(node, "orders") / f"{replica.end:020d}.snapshot"
    overwrite(file, states.encode())
    return Expected("producers", node, "orders", 0, replica.end, file)
