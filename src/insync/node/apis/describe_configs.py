"""DescribeConfigs (32): what holds for a topic or a broker, and where each value comes from.

A topic's value is its own, else this broker's default, the cluster's, that of the node's file, or the built-in one. The
broker with the empty name is the cluster's defaults: only those that are set. Leaves out: other resources (loggers,
groups, client metrics).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from insync import findings
from insync.metadata import config_docs, configs
from insync.metadata.configs import ConfigKey, Resource
from insync.metadata.image import CLUSTER_DEFAULTS, Image
from insync.node import node_state
from insync.node.config import NodeConfig
from insync.sansio import Message
from insync.wire.errors import ErrorCode
from insync.wire.messages import describe_configs as api
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 32
VERSIONS = (1, 4)

TOPIC, BROKER, CLUSTER, STATIC, BUILT_IN = range(1, 6)
"""Kafka's numbers of where a value comes from."""

_BOOLEAN, _STRING, _INT, _SHORT, _LONG, _DOUBLE, _LIST = range(1, 8)
_INT_MAX = 2**31 - 1

Source = tuple[str, str, int]
"""(name, value, where from)."""


def handle(node: Node, request: Message, token: int, now: int) -> None:
    results = tuple(_result(node, resource, request) for resource in request.resources)
    node.out.reply(token, api.DescribeConfigsResponse(throttle_time=NO_DURATION, results=results))


def _result(node: Node, resource: Message, request: Message) -> Message:
    error, message = _problem(node, resource.resource_type, resource.resource_name)
    lines = () if error is not ErrorCode.none else _lines(node, resource)
    return api.DescribeConfigsResult(
        error_code=error,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_as_asked(line, request) for line in lines),
    )


def _as_asked(line: Message, request: Message) -> Message:
    return replace(
        line,
        synonyms=line.synonyms if request.include_synonyms else (),
        documentation=config_docs.DOCS.get(line.name) if request.include_documentation else None,
    )


def _problem(node: Node, kind: int, name: str) -> tuple[ErrorCode, str | None]:
    if kind == Resource.TOPIC:
        known = name in node.image.topic_ids
        return (ErrorCode.none, None) if known else (ErrorCode.unknown_topic_or_partition, f"No such topic: {name}")
    if kind != Resource.BROKER:
        return ErrorCode.invalid_request, f"Configs of resource type {kind} are not kept here."
    if name not in ("", str(node.id)):
        return ErrorCode.invalid_request, f"This is node {node.id}: ask broker {name} itself."
    return ErrorCode.none, None


def _lines(node: Node, resource: Message) -> tuple[Message, ...]:
    image, name = node.image, resource.resource_name
    if resource.resource_type == Resource.TOPIC:
        found = [_line(key, topic_sources(image, name, node.id, key)) for key in configs.TOPIC_KEYS.values()]
    elif name:
        found = [_line(key, _broker_sources(image, node.id, key, key.name)) for key in configs.BROKER_KEYS.values()]
        found += [_fixed(key, value) for key, value in _fixed_settings(node.config).items()]
        found.append(_fixed(node_state.CONFIG_KEY, node_state.encode(node)))
        found.append(_fixed(findings.CONFIG_KEY, findings.encode(node.findings.current())))
    else:
        keys = configs.BROKER_KEYS
        shared = image.configs.get(CLUSTER_DEFAULTS, {})
        found = [_line(keys[key], [(key, value, CLUSTER)]) for key, value in shared.items() if key in keys]
    asked = resource.configuration_keys
    return tuple(line for line in sorted(found, key=lambda line: line.name) if asked is None or line.name in asked)


def topic_sources(image: Image, topic: str, node_id: int, key: ConfigKey) -> list[Source]:
    """All that speak for a topic's config at this node, the one in force first."""
    own = image.configs.get((Resource.TOPIC, topic), {})
    sources = [(key.name, own[key.name], TOPIC)] if key.name in own else []
    return [*sources, *_broker_sources(image, node_id, key, key.synonym)]


def _broker_sources(image: Image, node_id: int, key: ConfigKey, name: str) -> list[Source]:
    layers: tuple[tuple[Mapping[str, str], int], ...] = (
        (image.configs.get((Resource.BROKER, str(node_id)), {}), BROKER),
        (image.configs.get(CLUSTER_DEFAULTS, {}), CLUSTER),
        (image.defaults, STATIC),
    )
    found = [(name, values[name], source) for values, source in layers if name and name in values]
    return [*found, (name or key.name, key.default, BUILT_IN)]


def _line(key: ConfigKey, sources: list[Source]) -> Message:
    return api.DescribeConfigsResourceResult(
        name=key.name,
        value=sources[0][1],
        read_only=False,
        config_source=sources[0][2],
        is_sensitive=False,
        synonyms=tuple(
            api.DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in sources
        ),
        config_type=_type(key),
        documentation=None,
    )


def _type(key: ConfigKey) -> int:
    if key.kind == "int":
        return _INT if key.high <= _INT_MAX else _LONG
    return {"float": _DOUBLE, "bool": _BOOLEAN, "choice": _STRING}.get(key.kind, _LIST)


def _fixed_settings(config: NodeConfig) -> dict[str, str]:
    """Of a node's own settings those that tools look for; they cannot be changed while it runs."""
    return {
        "auto.create.topics.enable": str(config.auto_create_topics).lower(),
        "broker.id": str(config.node_id),
        "broker.rack": config.rack or "",
        "default.replication.factor": str(config.controller.default_replication_factor),
        "log.dirs": config.log_dir,
        "node.id": str(config.node_id),
        "num.partitions": str(config.controller.default_partitions),
        "process.roles": ",".join(config.roles),
        "replica.lag.time.max.ms": str(config.replication.replica_lag_time_max_ms),
    }


def _fixed(name: str, value: str) -> Message:
    return api.DescribeConfigsResourceResult(
        name=name,
        value=value,
        read_only=True,
        config_source=STATIC,
        is_sensitive=False,
        synonyms=(),
        config_type=_STRING,
        documentation=None,
    )
