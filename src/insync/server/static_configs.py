"""The static configs of a broker, for DescribeConfigs: every key of Kafka that has a meaning here, under Kafka's name
and type, with its current value and its default.

A value from the properties file or its profile is a STATIC_BROKER_CONFIG; any other is the default.
Keys of the file that have no meaning here are shown as written.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from insync.controller.config import ControllerConfig
from insync.groups.config import GroupConfig
from insync.metadata.broker import Endpoint
from insync.node.config import BOOLEAN, INT, LIST, LONG, PASSWORD, SHORT, STRING, NodeConfig, StaticConfig
from insync.quorum.config import QuorumConfig
from insync.replication.config import ReplicationConfig
from insync.server import listeners, property_keys
from insync.server.limits import Limits
from insync.server.listeners import DEFAULT_LISTENERS, DEFAULT_MAP
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
    "max.connections.per.ip.overrides": STRING,
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
"""The types of keys in `property_keys.SETTINGS`; the others are INT."""

_MILLISECONDS = {
    "leader.imbalance.check.interval.seconds": 1_000,
    "quota.window.size.seconds": 1_000,
    "controller.quota.window.size.seconds": 1_000,
}
"""Keys in a coarser unit than the milliseconds of their field: milliseconds per unit."""

_COARSER_UNITS = (
    ("log.retention.hours", INT, "168"),
    ("log.retention.minutes", INT, None),
    ("log.roll.hours", INT, "168"),
    ("log.roll.jitter.hours", INT, "0"),
)

_STRUCTURAL = (
    ("listeners", STRING, DEFAULT_LISTENERS),
    ("listener.security.protocol.map", STRING, DEFAULT_MAP),
    ("inter.broker.listener.name", STRING, None),
    ("security.inter.broker.protocol", STRING, "PLAINTEXT"),
    ("controller.listener.names", STRING, None),
    ("controller.quorum.voters", LIST, ""),
    ("process.roles", LIST, None),
    ("log.dirs", STRING, None),
    ("log.dir", STRING, "/tmp/kafka-logs"),
    ("broker.rack", STRING, None),
    ("authorizer.class.name", STRING, ""),
    ("super.users", STRING, ""),
    ("allow.everyone.if.no.acl.found", BOOLEAN, "false"),
)

_CONSTANT = (
    ("auto.leader.rebalance.enable", BOOLEAN, "true"),
    ("controlled.shutdown.enable", BOOLEAN, "true"),
    ("delete.topic.enable", BOOLEAN, "true"),
    ("group.coordinator.rebalance.protocols", LIST, "classic"),
    ("log.cleaner.enable", BOOLEAN, "true"),
    ("offsets.topic.compression.codec", INT, "0"),
    ("remote.log.storage.system.enable", BOOLEAN, "false"),
)
"""Kafka's settings that cannot be changed here, with the value that matches what a node does."""


def static_configs(properties: Properties, endpoints: tuple[Endpoint, ...]) -> tuple[StaticConfig, ...]:
    """`endpoints`: the advertised ones, with the ports that were bound."""
    by_name = {config.name: config for config in (*_unused_keys(properties), *_security(properties))}
    by_name |= {config.name: config for config in _structural(properties, endpoints)}
    by_name |= {config.name: config for config in _settings(properties)}
    by_name |= {name: StaticConfig(name=name, kind=kind, value=value, default=value) for name, kind, value in _CONSTANT}
    return tuple(by_name.values())


def _settings(properties: Properties) -> Iterator[StaticConfig]:
    for name, ((part, field, _), *_) in property_keys.SETTINGS.items():
        scale = _MILLISECONDS.get(name, 1)
        default = _text(_DEFAULTS[part, field], scale)
        configured = properties.settings.get(part, {})
        value = _text(configured[field], scale) if field in configured else default
        yield StaticConfig(name=name, kind=_TYPES.get(name, INT), value=value, default=default)


def _text(value: Any, scale: int) -> str:
    if isinstance(value, tuple):
        return ",".join(f"{address}:{count}" for address, count in value)
    return str(value).lower() if isinstance(value, bool) else str(value // scale if scale > 1 else value)


def _structural(properties: Properties, endpoints: tuple[Endpoint, ...]) -> Iterator[StaticConfig]:
    node_id = str(properties.node_id)
    yield StaticConfig(name="node.id", kind=INT, value=node_id, default=None)
    yield StaticConfig(name="broker.id", kind=INT, value=node_id, default="-1")
    advertised = ",".join(f"{endpoint.name}://{_bracketed(endpoint.host)}:{endpoint.port}" for endpoint in endpoints)
    yield StaticConfig(name="advertised.listeners", kind=STRING, value=advertised, default=None)
    for name, kind, default in (*_STRUCTURAL, *_COARSER_UNITS):
        yield StaticConfig(name=name, kind=kind, value=properties.as_written.get(name, default), default=default)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _security(properties: Properties) -> Iterator[StaticConfig]:
    """Settings of listeners, as written, but for what is secret."""
    for name, value in properties.as_written.items():
        if listeners.is_secret(name):
            yield StaticConfig(name=name, kind=PASSWORD, value=None, default=None)
        elif listeners.is_override(name) or listeners.is_security_setting(name):
            yield StaticConfig(name=name, kind=STRING, value=value, default=None)


def _unused_keys(properties: Properties) -> Iterator[StaticConfig]:
    for name in properties.unused:
        yield StaticConfig(name=name, kind=STRING, value=properties.as_written[name], default=None)
