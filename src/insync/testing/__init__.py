"""For tests of software that talks to Kafka: the pytest fixtures of `plugin`.

`Cluster` and `ClusterError` are those of `insync`, importable from here too. pytest loads `plugin` in every session, so
nothing else is imported before it is used.
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


def __dir__() -> list[str]:
    return sorted((*globals(), *__all__))
