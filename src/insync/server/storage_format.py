"""A node's directory before its first start: meta.properties says which cluster and which node it belongs to.

A directory is formatted once. Formatting it again would let a node with another's data, or with none, take part under
an old name, so an existing file is never overwritten.
"""

from __future__ import annotations

import secrets
from uuid import UUID

from insync.storage import checkpoints
from insync.storage import disk as disks
from insync.storage.posix import PosixDisk


class FormatError(Exception):
    """Why a directory cannot be formatted, or used."""


def new_cluster_id() -> str:
    return checkpoints.encode_uuid(UUID(bytes=secrets.token_bytes(16), version=4))


def format_directory(directory: str, *, cluster_id: str, node_id: int) -> None:
    disk = PosixDisk(directory)
    if disk.exists(checkpoints.META_PROPERTIES):
        raise FormatError(f"{directory} is formatted already: {_describe(read_identity(directory))}")
    directory_id = UUID(bytes=secrets.token_bytes(16), version=4)
    data = checkpoints.encode_meta_properties(cluster_id=cluster_id, node_id=node_id, directory_id=directory_id)
    disks.write_atomically(disk, checkpoints.META_PROPERTIES, data)


def read_identity(directory: str) -> dict[str, str]:
    data = disks.read_if_exists(PosixDisk(directory), checkpoints.META_PROPERTIES)
    if data is None:
        raise FormatError(f"{directory} is not formatted: run `insync format` first")
    return checkpoints.decode_meta_properties(data)


def check_identity(directory: str, node_id: int) -> tuple[str, UUID]:
    """(cluster id, directory id) of a directory that belongs to this node."""
    identity = read_identity(directory)
    directory_id = checkpoints.decode_uuid(identity.get("directory.id", ""))
    if "cluster.id" not in identity or directory_id is None:
        raise FormatError(f"{directory}/{checkpoints.META_PROPERTIES} is incomplete")
    if identity.get("node.id") != str(node_id):
        raise FormatError(f"{directory} belongs to node {identity.get('node.id')}, not to node {node_id}")
    return identity["cluster.id"], directory_id


def _describe(identity: dict[str, str]) -> str:
    return f"node {identity.get('node.id')} of cluster {identity.get('cluster.id')}"
