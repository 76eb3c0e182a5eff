"""Replica directories that are missing, stray or misplaced."""

from __future__ import annotations

import random
import shutil
from uuid import UUID

from insync.storage import checkpoints, clean_shutdown
from tests.pipeline.cluster_directories import NODES, OURS, ClusterDirectories, overwrite
from tests.pipeline.planted_damage.damage import TOPICS, DamageTable, Expected

DAMAGES = DamageTable()


@DAMAGES.add("a removed replica directory that checkpoints name")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice((*TOPICS, "compacted", "trimmed"))
    shutil.rmtree(cluster.directory(node, topic))
    return Expected("missing", node, topic, 0, None, cluster.directory(node, topic))


@DAMAGES.add("a removed replica directory that only the metadata names")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    shutil.rmtree(cluster.directory(node, topic))
    data = cluster.data(node)
    for name in (checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS):
        offsets = checkpoints.decode_offsets((data / name).read_bytes())
        assert offsets is not None
        del offsets[topic, 0]
        overwrite(data / name, checkpoints.encode_offsets(offsets))
    (data / clean_shutdown.FILE).unlink(missing_ok=True)
    return Expected("missing", node, topic, 0, None, cluster.directory(node, topic))


@DAMAGES.add("an emptied replica directory")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    for file in cluster.directory(node, topic).iterdir():
        if file.name != checkpoints.PARTITION_METADATA:
            file.unlink()
    return Expected("missing", node, topic, 0, None, cluster.directory(node, topic))


@DAMAGES.add("a file in place of a replica directory")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    directory = cluster.directory(node, "orders")
    shutil.rmtree(directory)
    directory.write_text("oops")
    return Expected("missing", node, "orders", 0, None, directory)


def _copy_replica(
    cluster: ClusterDirectories, node: int, source: str, topic: str, topic_id: UUID, partition: int
) -> Expected:
    """Copy the log of the topic `source` to a directory that the broker should not have."""
    stray = cluster.data(node) / f"{topic}-{partition}"
    shutil.copytree(cluster.directory(node, source), stray)
    metadata = checkpoints.encode_partition_metadata(topic_id, partition)
    overwrite(stray / checkpoints.PARTITION_METADATA, metadata)
    return Expected("stray", node, topic, partition, None, stray)


@DAMAGES.add("the directory of a topic that does not exist")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    return _copy_replica(cluster, node, "orders", "deleted", UUID(int=12345, version=4), 0)


@DAMAGES.add("the directory of a partition that is on other brokers")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    return _copy_replica(cluster, node, "payments", "payments", cluster.topic_ids["payments"], 1)


@DAMAGES.add("a directory that was set aside")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    stray = cluster.data(node) / f"orders-0.{'0' * 32}-stray"
    shutil.copytree(cluster.directory(node, "orders"), stray)
    return Expected("stray", node, "", -1, None, stray)


@DAMAGES.add("a segment that recovery took out of a log")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    segment = cluster.segments(node, "orders")[0]
    dropped = segment.with_name(f"{segment.name}.1-dropped")
    shutil.copy(segment, dropped)
    return Expected("stray", node, "orders", 0, None, dropped)


@DAMAGES.add("a directory with a name in capitals")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    renamed = cluster.data(node) / "ORDERS-0"
    cluster.directory(node, "orders").rename(renamed)
    return Expected("misplaced", node, "ORDERS", 0, None, renamed)


@DAMAGES.add("a directory with a name that is not a partition's")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    ours = [node for node in NODES if cluster.layouts[node] == OURS]
    node = rng.choice(ours or NODES)
    renamed = cluster.data(node) / "orders-0.bak"
    shutil.copytree(cluster.directory(node, "orders"), renamed)
    if ours:  # its partition.metadata says whose it is
        shutil.rmtree(cluster.directory(node, "orders"))
    return Expected("misplaced", node, "", -1, None, renamed)


@DAMAGES.add("the log of another topic under this name")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    directory = cluster.directory(node, "orders")
    shutil.rmtree(directory)
    shutil.copytree(cluster.directory(node, "payments"), directory)
    return Expected("misplaced", node, "orders", 0, None, directory)
