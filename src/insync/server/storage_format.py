"""Formats a node's directory: meta.properties names the cluster and the node that it belongs to (B9).

A directory is formatted once. Formatting it again would let a node with another node's data, or with none, take part
under an old id. So an existing file is never overwritten, and a directory with data but without the file does not count
as empty.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from uuid import UUID

from insync.server.directory_lock import LOCK_FILE
from insync.server.startup_error import StartupError
from insync.storage import checkpoints
from insync.storage import disk as disks
from insync.storage.posix import PosixDisk

VERSION = 1
"""The version of meta.properties that Kafka writes in clusters without ZooKeeper."""

REBUILDING = ".rebuilding"
"""Marks a directory that is being filled from another node's, until it has its meta.properties."""

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
"""What a new cluster begins with (see `bootstrap_metadata`)."""

_NOT_DATA = (
    LOCK_FILE,
    "lost+found",
    checkpoints.META_PROPERTIES,
    f"{checkpoints.META_PROPERTIES}.tmp",
    BOOTSTRAP_CHECKPOINT,
    f"{BOOTSTRAP_CHECKPOINT}.tmp",
    f"{REBUILDING}.tmp",
)


class FormatError(StartupError):
    """A directory cannot be formatted, or used."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The content of meta.properties."""

    cluster_id: str
    node_id: int
    directory_id: UUID


def new_cluster_id() -> str:
    return checkpoints.encode_uuid(UUID(bytes=secrets.token_bytes(16), version=4))


def format_directory(
    directory: str,
    *,
    cluster_id: str,
    node_id: int,
    existing_data: bool = False,
    bootstrap: bytes | None = None,
) -> None:
    """Write meta.properties. `existing_data`: the directory holds this node's logs and has lost the file.

    `bootstrap`: the content of bootstrap.checkpoint, which every controller's directory needs.
    """
    if os.path.lexists(os.path.join(directory, checkpoints.META_PROPERTIES)):
        raise FormatError(f"{directory} is already formatted, for {_describe(directory)}. Use another directory.")
    if holds_data(directory) and not existing_data:
        raise FormatError(_lost_identity(directory))
    if bootstrap is not None:  # before meta.properties, which says that the directory is complete
        _write_private(directory, BOOTSTRAP_CHECKPOINT, bootstrap)
    directory_id = UUID(bytes=secrets.token_bytes(16), version=4)
    data = checkpoints.encode_meta_properties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
    disks.write_atomically(PosixDisk(directory), checkpoints.META_PROPERTIES, data)


def _write_private(directory: str, name: str, data: bytes) -> None:
    """For the owner of the directory only: whoever reads the credentials in the file can try passwords."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name)
    temporary = f"{path}.tmp"
    if os.path.lexists(temporary):
        os.unlink(temporary)
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)


def is_formatted(directory: str) -> bool:
    """False for a directory that is missing or empty; FormatError for one whose data has lost its meta.properties."""
    if os.path.lexists(os.path.join(directory, checkpoints.META_PROPERTIES)):
        return True
    if holds_data(directory):
        raise FormatError(_lost_identity(directory))
    return False


def holds_data(directory: str) -> bool:
    """Whether the directory contains anything that formatting does not create."""
    if not os.path.lexists(directory):
        return False
    if not os.path.isdir(directory):
        raise FormatError(f"{directory} is not a directory. Correct log.dirs.")
    names = os.listdir(directory)
    return REBUILDING not in names and any(name not in _NOT_DATA for name in names)


def read_identity(directory: str) -> Identity:
    """The node and cluster that the directory belongs to."""
    if not is_formatted(directory):
        raise FormatError(f"{directory} is not formatted. Run `insync format` first.")
    path = os.path.join(directory, checkpoints.META_PROPERTIES)
    with open(path, "rb") as file:
        data = file.read()
    fields = checkpoints.decode_meta_properties(data)
    version = fields.get("version", "")
    if version.isdecimal() and int(version) > VERSION:
        raise FormatError(
            f"{path} has version {version}; this release reads versions up to {VERSION}. "
            "Use the release that wrote it, or a newer one."
        )
    node_id, directory_id = fields.get("node.id", ""), checkpoints.decode_uuid(fields.get("directory.id", ""))
    is_truncated = not data.endswith(b"\n")  # the last value may be incomplete
    is_complete = version == str(VERSION) and node_id.isdecimal() and fields.get("cluster.id")
    if is_truncated or not is_complete or directory_id is None:
        raise FormatError(
            f"{path} is damaged: it must have version={VERSION}, cluster.id, node.id and directory.id, one per line. "
            "Restore the file; the data beside it is unchanged."
        )
    return Identity(fields["cluster.id"], int(node_id), directory_id)


def check_identity(directory: str, node_id: int, cluster_id: str | None = None) -> Identity:
    """B9: read the identity; FormatError unless it is this node, and this cluster if one is named."""
    identity = read_identity(directory)
    if identity.node_id != node_id:
        raise FormatError(
            f"{directory} belongs to node {identity.node_id}, not to node {node_id}. Correct node.id or log.dirs."
        )
    if cluster_id is not None and identity.cluster_id != cluster_id:
        raise FormatError(
            f"{directory} belongs to cluster {identity.cluster_id}, not to cluster {cluster_id}. Use another directory."
        )
    return identity


def _describe(directory: str) -> str:
    identity = read_identity(directory)
    return f"node {identity.node_id} of cluster {identity.cluster_id}"


def _lost_identity(directory: str) -> str:
    return (
        f"{directory} holds data but no {checkpoints.META_PROPERTIES}, so its node is unknown. "
        f"Restore the file, or write a new one with `insync format --existing-data --cluster-id ID`."
    )
