"""The topics that a `Cluster` is started with, in the forms in which a test may write them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from insync.server.local_cluster import ClusterError

TopicSpecs = Iterable[str] | Mapping[str, int | Mapping[str, Any]]
"""Names; or a mapping from names to partition counts or to options (`partitions`, `replication_factor`, configs)."""


def parse_topic_specs(topics: TopicSpecs) -> dict[str, dict[str, Any]]:
    """The keyword arguments of `create_topic`, by topic name."""
    if isinstance(topics, str):
        raise ClusterError(f"topics={topics!r} is a single string: write topics=[{topics!r}]")
    if not isinstance(topics, Mapping):
        return {name: {} for name in topics}
    return {name: _parse_options(name, spec) for name, spec in topics.items()}


def to_config_values(configs: Mapping[str, Any]) -> dict[str, str]:
    """`min_insync_replicas=2` and "min.insync.replicas" are the same: no Kafka config has an underscore in its name."""
    return {
        key.replace("_", "."): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in configs.items()
    }


def _parse_options(name: str, spec: int | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(spec, Mapping):
        return dict(spec)
    if isinstance(spec, int):
        return {"partitions": spec}
    raise ClusterError(f"topic {name!r}: {spec!r} is neither a partition count nor a mapping of options")
