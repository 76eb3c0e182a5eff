"""A cluster of real nodes whose disks are slow."""

from __future__ import annotations

from insync.chaos.faults import call_cluster
from insync.client import admin
from insync.testing import Cluster

FSYNC_MS = 50
"""In the profile `fast`, an election timeout is 150 ms, and an election takes several fsyncs."""


def test_a_controller_is_elected_however_slow_the_disks_are() -> None:
    """Q4: the election timeout grows with the measured time of a write."""
    with Cluster(brokers=3, profile="fast") as cluster:
        leader = call_cluster(cluster, admin.describe_quorum).leader
        for node in cluster.nodes:
            cluster.slow_disk(node, FSYNC_MS)
        cluster.kill(leader)
        cluster.create_topic("t", partitions=1, replication_factor=2)
        assert call_cluster(cluster, admin.describe_quorum).leader not in (leader, -1)
