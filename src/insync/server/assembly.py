"""Makes a node and its configs from a properties file."""

from __future__ import annotations

import logging
import random
import resource
import socket
import time
from dataclasses import replace
from typing import Any, TypeVar

from insync.controller.config import ControllerConfig
from insync.groups.config import GroupConfig
from insync.metadata import configs
from insync.metadata.broker import Endpoint
from insync.node.config import NodeConfig
from insync.node.node import Node
from insync.quorum.config import QuorumConfig
from insync.replication.config import ReplicationConfig
from insync.server import bootstrap_metadata, notes
from insync.server.disk import ServerDisk
from insync.server.endpoints import ListenerAddress
from insync.server.incarnation import given_incarnation
from insync.server.limits import Limits
from insync.server.listeners import SecurityProtocol
from insync.server.properties import Properties
from insync.server.runner import now_ms
from insync.server.static_configs import static_configs
from insync.server.storage_format import Identity

T = TypeVar("T")

AGREED = configs.CLUSTER_WIDE
"""Nodes with different values of these could lose committed records. So a new cluster writes them to its metadata log,
and from then on they are changed there."""


def node_config(
    properties: Properties, identity: Identity, ports: dict[str, int], *, clock_ahead_ms: int = 0
) -> NodeConfig:
    """`ports`: by listener name, the port that was bound. The clock is ahead of the machine's in tests only."""
    wall_offset = int(time.time() * 1_000) - now_ms() + clock_ahead_ms
    parts = properties.settings
    protocols = properties.listeners.protocols
    endpoints = tuple(_endpoint(address, protocols[address.name], ports) for address in properties.listeners.advertised)
    return _build(
        NodeConfig,
        parts.get("node", {}),
        node_id=properties.node_id,
        cluster_id=identity.cluster_id,
        voters=tuple(sorted(properties.voters)),
        roles=properties.roles,
        rack=properties.rack,
        authorizer=properties.authorizer,
        endpoints=endpoints,
        static_configs=static_configs(properties, endpoints),
        directory_id=identity.directory_id,
        incarnation_id=given_incarnation(),
        log_dir=properties.directory,
        wall_offset_ms=wall_offset,
        quorum=_build(
            QuorumConfig,
            parts.get("quorum", {}),
            wall_offset_ms=wall_offset,
            addresses=properties.voters,
            listener=properties.listeners.controller.name,
        ),
        topic_defaults={k: v for k, v in properties.topic_defaults.items() if k not in AGREED},
        controller=_build(
            ControllerConfig,
            parts.get("controller", {}),
            cluster_id=identity.cluster_id,
            cluster_defaults=tuple((k, v) for k, v in properties.topic_defaults.items() if k in AGREED),
            first_records=bootstrap_metadata.read(properties.directory),
        ),
        groups=_build(GroupConfig, parts.get("groups", {})),
        replication=_build(ReplicationConfig, parts.get("replication", {}), wall_offset_ms=wall_offset),
    )


def limits(properties: Properties) -> Limits:
    configured = _build(Limits, properties.settings.get("limits", {}))
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return replace(configured, max_connections=max_connections_for(configured.max_connections, files))


def max_connections_for(configured: int, max_files: int) -> int:
    """Connections and log segments share the limit of open files, and a node that cannot open a segment stops."""
    return min(configured, max_files // 2)


def make_node(config: NodeConfig, disk: ServerDisk) -> Node:
    node = Node(config, disk, random.SystemRandom(), now_ms())
    node.access_control.notes_allowed = notes.log.isEnabledFor(logging.DEBUG)
    return node


def _endpoint(address: ListenerAddress, protocol: SecurityProtocol, ports: dict[str, int]) -> Endpoint:
    host = address.host if address.host not in ("", "0.0.0.0", "::") else socket.gethostname()
    port = address.port or ports.get(address.name, 0)
    return Endpoint(name=address.name, host=host, port=port, security_protocol=int(protocol))


def _build(cls: type[T], values: dict[str, Any], **others: Any) -> T:
    return cls(**values, **others)
