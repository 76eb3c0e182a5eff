"""Kafka's replication protocol in Python: a cluster to start and break, a simulator, a client, and Spark data sources.

    import insync

    with insync.Cluster(brokers=3, topics={"orders": 3}) as cluster:
        cluster.kill(cluster.leader_of("orders"))
        cluster.wait_for_leader("orders")

- `Cluster`: real node processes on this machine whose processes, network and disks fail on command; `AsyncCluster` has
  its methods as coroutines
- `sim`: the deterministic simulator, which runs the same node code
- `client`: an asyncio client for any Kafka cluster
- `lake`: topics archived as Parquet files (`pip install 'insync[spark]'`)
- `spark`: data sources for PySpark (`pip install 'insync[spark]'`)

These names, and what the packages list in their `__all__`, are public; everything else is private. They are imported
when they are first used, so `import insync` is cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from insync.version import __version__

if TYPE_CHECKING:
    from insync import client, lake, sim, spark
    from insync.cluster.async_cluster import AsyncCluster
    from insync.cluster.cluster import Cluster, ClusterError

__all__ = ["AsyncCluster", "Cluster", "ClusterError", "__version__", "client", "lake", "sim", "spark"]

_PACKAGES = ("client", "lake", "sim", "spark")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"insync.{name}")
    if name == "AsyncCluster":
        return import_module("insync.cluster.async_cluster").AsyncCluster
    if name in __all__:
        return getattr(import_module("insync.cluster.cluster"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
