"""Which topics a test wants, in the ways in which it is handy to say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from insync.server.local_cluster import ClusterError

Topics = Iterable[str] | Mapping[str, int | Mapping[str, Any]]
"""Names; or by name the number of partitions, or settings: `partitions`, `replication_factor`, topic configs."""


def planned(topics: Topics) -> dict[str, dict[str, Any]]:
    """By name what `create_topic` takes besides it."""
    if isinstance(topics, str):
        raise ClusterError(f"topics={topics!r} is one text: write topics=[{topics!r}]")
    if not isinstance(topics, Mapping):
        return {name: {} for name in topics}
    return {name: _plan(name, wish) for name, wish in topics.items()}


def config_values(configs: Mapping[str, Any]) -> dict[str, str]:
    """`min_insync_replicas=2` and "min.insync.replicas" are the same: no name in Kafka has an underscore."""
    return {key.replace("_", "."): _text(value) for key, value in configs.items()}


def _plan(name: str, wish: int | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(wish, Mapping):
        return dict(wish)
    if isinstance(wish, int):
        return {"partitions": wish}
    raise ClusterError(f"topic {name!r}: {wish!r} is neither a number of partitions nor a mapping of settings")


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
