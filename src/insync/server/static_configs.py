"""What DescribeConfigs tells of a broker's static configs: every key of Kafka that means something here, under Kafka's
name and type, with the value in force and its default.

A value that the properties file or its profile set comes from there (STATIC_BROKER_CONFIG); any other is the default.
Keys of the file that have no meaning here are shown as they were given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from insync.controller.config import ControllerConfig
from insync.groups.config import GroupConfig
from insync.metadata.broker import Endpoint
from insync.node.config import BOOLEAN, INT, LIST, LONG, SHORT, STRING, NodeConfig, StaticConfig
from insync.quorum.config import QuorumConfig
from insync.replication.config import ReplicationConfig
from insync.server import property_keys
from insync.server.limits import Limits
from insync.server.properties import Properties

_PARTS: dict[str, Any] = {
    "node": NodeConfig,
    "controller": ControllerConfig,
    "quorum": QuorumConfig,
    "replication": ReplicationConfig,
    "groups": GroupConfig,
    "limits": Limits,
}
_DEFAULTS = {(part, field.name): field.default for part, cls in _PARTS.items() for field in fields(cls)}

_TYPES = {
    "auto.create.topics.enable": BOOLEAN,
    "offsets.topic.replication.factor": SHORT,
    **dict.fromkeys(
        (
            "connections.max.idle.ms",
            "leader.imbalance.check.interval.seconds",
            "log.cleaner.backoff.ms",
            "log.flush.scheduler.interval.ms",
            "log.retention.check.interval.ms",
            "offsets.retention.check.interval.ms",
            "queued.max.request.bytes",
            "replica.high.watermark.checkpoint.interval.ms",
            "replica.lag.time.max.ms",
        ),
        LONG,
    ),
}
"""Of the keys in `property_keys.SETTINGS`; the others are INT."""

_MILLISECONDS = {"leader.imbalance.check.interval.seconds": 1_000}
"""Keys whose unit is so many of the milliseconds in which the value is kept."""

_SPELLINGS = (
    ("log.retention.hours", INT, "168"),
    ("log.retention.minutes", INT, None),
    ("log.roll.hours", INT, "168"),
    ("log.roll.jitter.hours", INT, "0"),
)

_STRUCTURAL = (
    ("listeners", STRING, "PLAINTEXT://:9092"),
    ("controller.listener.names", STRING, None),
    ("controller.quorum.voters", LIST, ""),
    ("process.roles", LIST, None),
    ("log.dirs", STRING, None),
    ("log.dir", STRING, "/tmp/kafka-logs"),
    ("broker.rack", STRING, None),
)

_CONSTANT = (
    ("auto.leader.rebalance.enable", BOOLEAN, "true"),
    ("authorizer.class.name", STRING, ""),
    ("controlled.shutdown.enable", BOOLEAN, "true"),
    ("delete.topic.enable", BOOLEAN, "true"),
    ("group.coordinator.rebalance.protocols", LIST, "classic"),
    ("log.cleaner.enable", BOOLEAN, "true"),
    ("offsets.topic.compression.codec", INT, "0"),
    ("remote.log.storage.system.enable", BOOLEAN, "false"),
    ("security.inter.broker.protocol", STRING, "PLAINTEXT"),
)
"""Choices that Kafka has and a node here does not: what it does is one of them."""


def static_configs(properties: Properties, endpoints: tuple[Endpoint, ...]) -> tuple[StaticConfig, ...]:
    """`endpoints`: what is advertised, with the ports that were really bound."""
    made = {config.name: config for config in _given_without_meaning(properties)}
    made |= {config.name: config for config in _structural(properties, endpoints)}
    made |= {config.name: config for config in _settings(properties)}
    made |= {name: StaticConfig(name=name, kind=kind, value=value, default=value) for name, kind, value in _CONSTANT}
    return tuple(made.values())


def _settings(properties: Properties) -> Iterator[StaticConfig]:
    for name, ((part, field, _), *_) in property_keys.SETTINGS.items():
        scale = _MILLISECONDS.get(name, 1)
        default = _text(_DEFAULTS[part, field], scale)
        given = properties.settings.get(part, {})
        value = _text(given[field], scale) if field in given else default
        yield StaticConfig(name=name, kind=_TYPES.get(name, INT), value=value, default=default)


def _text(value: Any, scale: int) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value // scale if scale > 1 else value)


def _structural(properties: Properties, endpoints: tuple[Endpoint, ...]) -> Iterator[StaticConfig]:
    node_id = str(properties.node_id)
    yield StaticConfig(name="node.id", kind=INT, value=node_id, default=None)
    yield StaticConfig(name="broker.id", kind=INT, value=node_id, default="-1")
    advertised = ",".join(f"{endpoint.name}://{_bracketed(endpoint.host)}:{endpoint.port}" for endpoint in endpoints)
    yield StaticConfig(name="advertised.listeners", kind=STRING, value=advertised, default=None)
    for name, kind, default in (*_STRUCTURAL, *_SPELLINGS):
        yield StaticConfig(name=name, kind=kind, value=properties.given.get(name, default), default=default)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _given_without_meaning(properties: Properties) -> Iterator[StaticConfig]:
    for name in properties.unused:
        yield StaticConfig(name=name, kind=STRING, value=properties.given[name], default=None)
