"""What is in the log directories of nodes: their identity, checkpoints, and the directories of partitions.

It is read once, before any segment: a high watermark that is read first is not above what a running broker has on disk
later.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from insync.logdir.files import list_roots, read_broker_id
from insync.logdir.options import ReadOptions
from insync.pipeline.health.metadata_log import DIRECTORY as METADATA_DIRECTORY
from insync.pipeline.health.metadata_log import MetadataLog
from insync.storage import clean_shutdown
from insync.storage.checkpoints import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    PartitionMetadata,
    TopicPartition,
    decode_meta_properties,
    decode_offsets,
    decode_partition_metadata,
)
from insync.storage.clean_shutdown import CleanShutdown, LogEnd
from insync.storage.file_names import LOG, parse_directory, parse_file_name

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
CHECKPOINTS = (HIGH_WATERMARKS, RECOVERY_POINTS, LOG_STARTS, CLEANER_OFFSETS)


@dataclass(frozen=True)
class Root:
    """A directory with the directories of partitions: of Apache Kafka the log directory itself, of ours its `data`."""

    path: str
    names: tuple[str, ...]
    """Of everything in it."""
    checkpoints: dict[str, dict[TopicPartition, int]]
    """By file name; without those that are missing or damaged."""
    damaged: tuple[str, ...]
    """Names of checkpoints that exist and cannot be read."""
    clean: CleanShutdown | None
    """What a clean stop left."""

    def offset(self, checkpoint: str, key: TopicPartition) -> int | None:
        return self.checkpoints.get(checkpoint, {}).get(key)

    def clean_end(self, key: TopicPartition) -> LogEnd | None:
        return (self.clean.logs or {}).get(key) if self.clean is not None else None

    @cached_property
    def partitions(self) -> dict[TopicPartition, str]:
        """Directories, or what is in their place, by the partition that their name says."""
        named = {parse_directory(name): name for name in self.names}
        return {key: name for key, name in named.items() if key is not None and name != METADATA_DIRECTORY}

    def find_evidence(self, key: TopicPartition) -> str:
        """Which file says that there is a log with records; empty if none does."""
        end = self.clean_end(key)
        if end is not None and end.end_offset > 0:
            return f"{clean_shutdown.FILE} says that it ends at offset {end.end_offset}"
        for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_STARTS):
            offset = self.offset(name, key)
            if offset:
                return f"{name} has offset {offset} for it"
        return ""


@dataclass(frozen=True)
class NodeDirectory:
    """One log directory of a node. A broker of Apache Kafka may have several."""

    path: str
    home: str
    """Where meta.properties is."""
    broker: int
    given: bool
    """Whether the caller gave the broker's id."""
    properties: dict[str, str]
    roots: tuple[Root, ...]
    metadata_log: MetadataLog | None

    @property
    def cluster_id(self) -> str:
        return self.properties.get("cluster.id", "")

    @property
    def directory_id(self) -> str:
        return self.properties.get("directory.id", "")

    @property
    def meta_file(self) -> str:
        return os.path.join(self.home, META_PROPERTIES)


def read_nodes(options: ReadOptions) -> list[NodeDirectory]:
    return [
        _read_node(path, options.brokers[number] if options.brokers else None)
        for number, path in enumerate(options.paths)
    ]


def _read_node(path: str, given: int | None) -> NodeDirectory:
    home = next((place for place in (path, os.path.dirname(path)) if _has_properties(place)), path)
    properties = decode_meta_properties(read_if_exists(os.path.join(home, META_PROPERTIES)) or b"")
    places = (home, os.path.join(home, "metadata"), path)
    logs = [MetadataLog(Path(place, METADATA_DIRECTORY)) for place in dict.fromkeys(places)]
    return NodeDirectory(
        path=path,
        home=home,
        broker=read_broker_id(path) if given is None else given,
        given=given is not None,
        properties=properties,
        roots=tuple(read_root(root) for root in list_roots(path) if os.path.basename(root) != "metadata"),
        metadata_log=next((log for log in logs if log.path.is_dir()), None),
    )


def _has_properties(place: str) -> bool:
    return os.path.exists(os.path.join(place, META_PROPERTIES))


def read_root(path: str) -> Root:
    contents = {name: read_if_exists(os.path.join(path, name)) for name in CHECKPOINTS}
    decoded = {name: decode_offsets(data) for name, data in contents.items() if data is not None}
    shutdown = read_if_exists(os.path.join(path, clean_shutdown.FILE))
    return Root(
        path=path,
        names=tuple(sorted(os.listdir(path))),
        checkpoints={name: offsets for name, offsets in decoded.items() if offsets is not None},
        damaged=tuple(name for name, offsets in decoded.items() if offsets is None),
        clean=None if shutdown is None else clean_shutdown.decode(shutdown),
    )


def read_if_exists(path: str) -> bytes | None:
    """None if there is no such file; b"" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError:
        return b""


def read_partition_metadata(directory: str) -> PartitionMetadata | None:
    data = read_if_exists(os.path.join(directory, PARTITION_METADATA))
    return None if data is None else decode_partition_metadata(data)


def holds_log(directory: str) -> bool:
    """Whether there are segments in a directory."""
    try:
        return any(parse_file_name(name, LOG) is not None for name in os.listdir(directory))
    except OSError:
        return False
