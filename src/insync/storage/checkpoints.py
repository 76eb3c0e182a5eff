"""Encoding and decoding Kafka's small text files. Decoding returns None if a file is damaged, as a crash may leave it.

Offset checkpoints and the epoch checkpoint share a format: a version line, a count line, then one line per entry.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
LEADER_EPOCHS = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
META_PROPERTIES = "meta.properties"

NO_BROKER_EPOCH = -1
MAX_OFFSET = 2**62
"""No log becomes this long; a number above it is damage."""
MAX_EPOCH = 2**31 - 1

TopicPartition = tuple[str, int]


def encode_offsets(offsets: Mapping[TopicPartition, int]) -> bytes:
    return _encode(f"{topic} {index} {offset}" for (topic, index), offset in sorted(offsets.items()))


def decode_offsets(data: bytes) -> dict[TopicPartition, int] | None:
    rows = _decode(data, 3)
    try:
        offsets = None if rows is None else {(topic, int(index)): int(offset) for topic, index, offset in rows}
    except ValueError:
        return None
    if offsets is None or not all(is_plausible_offset(offset) for offset in offsets.values()):
        return None
    return offsets


def encode_epochs(epochs: Iterable[tuple[int, int]]) -> bytes:
    return _encode(f"{epoch} {start}" for epoch, start in epochs)


def decode_epochs(data: bytes) -> list[tuple[int, int]] | None:
    rows = _decode(data, 2)
    try:
        epochs = None if rows is None else [(int(epoch), int(start)) for epoch, start in rows]
    except ValueError:
        return None
    if epochs is None or not all(0 <= epoch <= MAX_EPOCH and is_plausible_offset(start) for epoch, start in epochs):
        return None
    return epochs


class PartitionMetadata(NamedTuple):
    """What `partition.metadata` says of the log in its directory."""

    topic_id: UUID
    partition: int | None
    """None in directories of Kafka, which does not record it, and ignores lines after the first two."""


def encode_partition_metadata(topic_id: UUID, partition: int | None) -> bytes:
    lines = ["version: 0", f"topic_id: {encode_uuid(topic_id)}"]
    if partition is not None:
        lines.append(f"partition: {partition}")
    return "\n".join(lines).encode()


def decode_partition_metadata(data: bytes) -> PartitionMetadata | None:
    fields = [tuple(line.rstrip().split(": ", 1)) for line in _text(data).splitlines()]
    names = [field[0] for field in fields]
    if names[:2] != ["version", "topic_id"] or names[2:] not in ([], ["partition"]) or min(map(len, fields)) < 2:
        return None
    topic_id = decode_uuid(fields[1][1])
    if fields[0][1] != "0" or topic_id is None:
        return None
    if len(fields) == 2:
        return PartitionMetadata(topic_id, None)
    partition = fields[2][1]
    return PartitionMetadata(topic_id, int(partition)) if partition.isascii() and partition.isdecimal() else None


def encode_meta_properties(*, cluster_id: str, node_id: int, directory_id: UUID) -> bytes:
    return (
        f"#\nnode.id={node_id}\ndirectory.id={encode_uuid(directory_id)}\nversion=1\ncluster.id={cluster_id}\n"
    ).encode()


def decode_meta_properties(data: bytes) -> dict[str, str]:
    lines = (line.strip() for line in _text(data).splitlines())
    pairs = (line.partition("=") for line in lines if line and not line.startswith("#"))
    return {key.strip(): value.strip().replace("\\=", "=").replace("\\:", ":") for key, _, value in pairs}


def is_plausible_offset(offset: int) -> bool:
    return 0 <= offset <= MAX_OFFSET


def encode_uuid(value: UUID) -> str:
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()


def decode_uuid(text: str) -> UUID | None:
    """None unless it is exactly what `encode_uuid` writes: Python's decoder skips characters that are not base64."""
    try:
        decoded = UUID(bytes=base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    except ValueError:
        return None
    return decoded if encode_uuid(decoded) == text else None


def _encode(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines)).encode()


def _decode(data: bytes, width: int) -> list[list[str]] | None:
    lines = _text(data).splitlines()
    if len(lines) < 2 or lines[0].strip() != "0" or lines[1].strip() != str(len(lines) - 2):
        return None
    rows = [line.split() for line in lines[2:]]
    return rows if all(len(row) == width for row in rows) else None


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
