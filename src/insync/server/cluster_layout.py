"""The layout of a cluster in its directory: the file `cluster.json`, written by `insync up`.

    {"version": 1, "cluster_id": "...", "voters": [1, 2, 3],
     "nodes": [{"id": 1, "roles": ["broker", "controller"], "formatted": true, "port": 9092, "metrics_port": 9192}]}

The ports are those of the last start, and 0 before the first. Brokers may be added. The voters are changed only by
`insync quorum set-voters`, because a majority of other voters may lack what the old ones have committed. Directories of
earlier releases name only the cluster id. For them, and if the file is missing, the layout is read from the directories
of the nodes.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from insync import java_properties
from insync.quorum import voter_set
from insync.quorum.config import METADATA_DIRECTORY
from insync.server.startup_error import StartupError
from insync.server.storage_format import is_formatted, read_identity
from insync.storage import checkpoints
from insync.storage import disk as disks
from insync.storage.posix import PosixDisk

FILE = "cluster.json"
VERSION = 1
BROKER = "broker"
CONTROLLER = "controller"
DEFAULT_BROKERS = 3
DEFAULT_VOTERS = 3
"""How many of the brokers also vote if there are no separate controllers."""

ADMIN = "admin"
"""The super user of a secured cluster."""
PROTOCOLS = ("sasl_ssl", "ssl", "sasl_plaintext")
"""What the clients of a secured cluster may use."""

_NODE_DIRECTORY = re.compile(r"node-([1-9][0-9]*)")


class LayoutError(StartupError):
    """A cluster directory cannot be read, or does not match the requested cluster."""


@dataclass(frozen=True, slots=True)
class NodeLayout:
    id: int
    roles: tuple[str, ...]
    formatted: bool = False
    """Whether its directory has been formatted: if it is empty now, data was lost."""
    port: int = field(default=0, compare=False)
    metrics_port: int = field(default=0, compare=False)

    @property
    def is_broker(self) -> bool:
        return BROKER in self.roles

    @property
    def is_voter(self) -> bool:
        return CONTROLLER in self.roles


@dataclass(frozen=True, slots=True)
class Layout:
    cluster_id: str
    nodes: tuple[NodeLayout, ...]

    @property
    def voters(self) -> tuple[int, ...]:
        return tuple(node.id for node in self.nodes if node.is_voter)

    @property
    def brokers(self) -> int:
        return sum(node.is_broker for node in self.nodes)

    @property
    def controllers(self) -> int:
        """The number of nodes that vote and are not brokers."""
        return sum(not node.is_broker for node in self.nodes)

    def all_formatted(self) -> Layout:
        return replace(self, nodes=tuple(replace(node, formatted=True) for node in self.nodes))


def data_directory(directory: Path, node_id: int) -> Path:
    """The log.dirs of one node of the cluster."""
    return directory / f"node-{node_id}" / "data"


def create(cluster_id: str, brokers: int | None, controllers: int | None) -> Layout:
    """The layout of a new cluster: without separate `controllers`, the first brokers vote."""
    brokers = DEFAULT_BROKERS if brokers is None else brokers
    controllers = controllers or 0
    votes = [i >= brokers if controllers else i < DEFAULT_VOTERS for i in range(brokers + controllers)]
    nodes = (NodeLayout(i + 1, _roles(i < brokers, votes[i])) for i in range(brokers + controllers))
    return Layout(cluster_id, tuple(nodes))


def adapt(layout: Layout, directory: Path, brokers: int | None, controllers: int | None) -> Layout:
    """B9: the stored layout with the requested number of brokers, or unchanged if that is None. Voters stay."""
    if controllers is not None and controllers != layout.controllers:
        raise LayoutError(
            f"{directory} holds a cluster with {layout.controllers} separate controllers, not {controllers}. "
            "Start it without --controllers. To change the voters, use `insync quorum set-voters`."
        )
    if brokers is None or brokers == layout.brokers:
        return layout
    if brokers < layout.brokers:
        raise LayoutError(
            f"{directory} holds a cluster of {layout.brokers} brokers. With {brokers}, brokers with replicas would "
            f"be left out. Start it with --brokers {layout.brokers}, or without --brokers."
        )
    first = max(node.id for node in layout.nodes) + 1
    added = (NodeLayout(first + i, (BROKER,)) for i in range(brokers - layout.brokers))
    return replace(layout, nodes=(*layout.nodes, *added))


def with_voters(layout: Layout, voters: tuple[int, ...]) -> Layout:
    nodes = (replace(node, roles=_roles(node.is_broker, node.id in voters)) for node in layout.nodes)
    return replace(layout, nodes=tuple(nodes))


def load(directory: Path) -> Layout | None:
    """The layout of the cluster in this directory; None if it holds no cluster."""
    path = directory / FILE
    if not os.path.lexists(path):
        if (directory / checkpoints.META_PROPERTIES).exists():
            raise LayoutError(
                f"{directory} is the directory of one node, not of a cluster. Name the directory above it."
            )
        return _infer(directory, None)
    try:
        fields = json.loads(path.read_bytes())
        cluster_id = fields["cluster_id"]
        version = fields.get("version", 0)
        if type(cluster_id) is not str or type(version) is not int:
            raise TypeError("a field has the wrong type")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise LayoutError(
            f"{path} is damaged ({error}). Restore it, or remove it: the nodes' directories have the layout too."
        ) from error
    if version > VERSION:
        raise LayoutError(
            f"{path} has version {version}; this release reads versions up to {VERSION}. Use the release that wrote it."
        )
    if version == 0:  # written by an earlier release: only the cluster id
        return _infer(directory, cluster_id) or create(cluster_id, None, None)
    return _decode(path, cluster_id, fields)


def save(directory: Path, layout: Layout) -> None:
    nodes = [
        {
            "id": node.id,
            "roles": list(node.roles),
            "formatted": node.formatted,
            "port": node.port,
            "metrics_port": node.metrics_port,
        }
        for node in layout.nodes
    ]
    fields = {"version": VERSION, "cluster_id": layout.cluster_id, "voters": list(layout.voters), "nodes": nodes}
    disks.write_atomically(PosixDisk(str(directory)), FILE, json.dumps(fields, indent=1).encode() + b"\n")


def _decode(path: Path, cluster_id: str, fields: Any) -> Layout:
    try:
        nodes = tuple(
            NodeLayout(
                int(node["id"]),
                tuple(node["roles"]),
                bool(node["formatted"]),
                int(node.get("port", 0)),
                int(node.get("metrics_port", 0)),
            )
            for node in fields["nodes"]
        )
        layout = Layout(cluster_id, nodes)
        sound = nodes and tuple(fields["voters"]) == layout.voters and len({node.id for node in nodes}) == len(nodes)
    except (ValueError, KeyError, TypeError) as error:
        raise LayoutError(f"{path} is damaged: {error!r}. Restore it.") from error
    if not sound:
        raise LayoutError(f"{path} is damaged: its nodes and its voters contradict each other. Restore it.")
    return layout


def _infer(directory: Path, cluster_id: str | None) -> Layout | None:
    """The layout from the nodes' directories: voters from their quorum files, other roles from their properties."""
    if not directory.is_dir():
        return None
    ids = sorted(int(match[1]) for name in os.listdir(directory) if (match := _NODE_DIRECTORY.fullmatch(name)))
    formatted = [node_id for node_id in ids if is_formatted(str(data_directory(directory, node_id)))]
    if not formatted:
        return None
    clusters = sorted({read_identity(str(data_directory(directory, node_id))).cluster_id for node_id in formatted})
    if len(clusters) > 1 or (cluster_id is not None and clusters != [cluster_id]):
        raise LayoutError(f"{directory} holds nodes of several clusters: {', '.join(clusters)}. Move the others away.")
    voters = _stored_voters(directory, formatted) or _configured_voters(directory, formatted)
    nodes = (
        NodeLayout(node_id, _roles(_was_broker(directory, node_id), node_id in voters), formatted=True)
        for node_id in formatted
    )
    layout = Layout(clusters[0], tuple(nodes))
    if not voters or layout.voters != voters or not all(node.roles for node in layout.nodes):
        raise LayoutError(
            f"The voters of the cluster in {directory} are unknown: its quorum names {voters or 'none'}, "
            f"and it holds the nodes {formatted}. Restore {FILE} or the missing directories."
        )
    return layout


def _stored_voters(directory: Path, ids: list[int]) -> tuple[int, ...]:
    stored: dict[tuple[int, ...], list[int]] = {}
    for node_id in ids:
        voters = voter_set.stored_voters(PosixDisk(str(data_directory(directory, node_id))), METADATA_DIRECTORY)
        if voters is not None:
            stored.setdefault(voters, []).append(node_id)
    if len(stored) > 1:
        views = "; ".join(f"nodes {holders} have the voters {list(voters)}" for voters, holders in stored.items())
        raise LayoutError(
            f"The nodes in {directory} belong to different quorums: {views}. Restore all from one backup."
        )
    return next(iter(stored), ())


def _configured_voters(directory: Path, ids: list[int]) -> tuple[int, ...]:
    """The voters of nodes that have never run."""
    for node_id in ids:
        text = _properties(directory, node_id).get("controller.quorum.voters", "")
        voters = [item.partition("@")[0].strip() for item in text.split(",")]
        if all(voter.isdecimal() for voter in voters):
            return tuple(sorted(int(voter) for voter in voters))
    return ()


def _was_broker(directory: Path, node_id: int) -> bool:
    roles = _properties(directory, node_id).get("process.roles")
    if roles is None:
        return (data_directory(directory, node_id) / "data").is_dir()
    return BROKER in roles


def _properties(directory: Path, node_id: int) -> dict[str, str]:
    path = directory / f"node-{node_id}" / "node.properties"
    text = path.read_text(errors="replace") if path.exists() else ""
    return {key: value.strip() for _, key, value in java_properties.entries(text)}


def _roles(is_broker: bool, is_voter: bool) -> tuple[str, ...]:
    return ((BROKER,) if is_broker else ()) + ((CONTROLLER,) if is_voter else ())
