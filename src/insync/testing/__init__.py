"""For tests of software that talks to Kafka: a cluster of real processes whose nodes fail on command.

    with Cluster(brokers=3, topics=["orders"]) as cluster:
        cluster.kill(cluster.leader_of("orders"))

The pytest fixtures of `plugin` are the same thing. pytest loads that module in every session, so nothing is imported
here before it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from insync.cluster.cluster import Cluster, ClusterError

__all__ = ["Cluster", "ClusterError"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from insync.cluster import cluster

    return getattr(cluster, name)
