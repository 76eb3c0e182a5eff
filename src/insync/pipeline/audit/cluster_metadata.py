"""What the metadata log says of the cluster: which broker has which partitions, and which topics are compacted.

It is read from the log that reaches furthest, of those in the audited directories or, if there are none, beside them.
A broker that stopped earlier than the others may be right by its own metadata log: `image_of` has that one.

Compacted topics are also those that Apache Kafka lists in `cleaner-offset-checkpoint`, and the coordinators' own.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from insync.errors import InvariantError
from insync.metadata.configs import TOPIC_KEYS
from insync.metadata.image import Image
from insync.pipeline.audit.inventory import CLEANER_OFFSETS, NodeDirectory, read_if_exists
from insync.pipeline.health.metadata_log import MetadataLog, MetadataLogError, find_metadata_logs
from insync.storage.checkpoints import META_PROPERTIES, decode_meta_properties

INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
ALL_LOGS_BYTES = 64 << 20
"""Up to this size all metadata logs are read, since the one that reaches furthest may be damaged."""
_POLICY = "cleanup.policy"
_INTERVAL = "index.interval.bytes"


class ClusterMetadata:
    def __init__(self, image: Image | None = None) -> None:
        self.image = image
        self._own_images: dict[str, Image | None] = {}
        self._damaged: dict[str, bool] = {}

    def image_of(self, node: NodeDirectory) -> Image | None:
        """By the node's own metadata log."""
        if node.path not in self._own_images:
            log = node.metadata_log
            self._own_images[node.path] = None if log is None else load_image(log)
        return self._own_images[node.path]

    def is_own_log_damaged(self, node: NodeDirectory) -> bool:
        """Whether nothing can be concluded from the node's own metadata log."""
        if node.path not in self._damaged:
            log = node.metadata_log
            self._damaged[node.path] = log is not None and (self.image_of(node) is None or not log.is_intact())
        return self._damaged[node.path]

    def is_compacted(self, topic: str) -> bool:
        if self.image is None or _POLICY not in TOPIC_KEYS:
            return False
        policy = self.image.config(topic, _POLICY)
        return "compact" in (policy if isinstance(policy, tuple) else str(policy).split(","))

    def index_interval(self, topic: str) -> int | None:
        if self.image is None or topic not in self.image.topic_ids:
            return None
        interval = self.image.config(topic, _INTERVAL)
        return interval if isinstance(interval, int) else None


def load_metadata(nodes: Sequence[NodeDirectory]) -> ClusterMetadata:
    logs = [node.metadata_log for node in nodes if node.metadata_log is not None] or _find_beside(nodes)
    logs.sort(key=lambda log: (log.segments[-1].name if log.segments else "", log.size), reverse=True)
    if sum(log.size for log in logs) > ALL_LOGS_BYTES:
        logs = logs[:1]
    images = [image for log in logs if (image := load_image(log)) is not None]
    return ClusterMetadata(max(images, key=lambda image: image.offset, default=None))


def load_image(log: MetadataLog) -> Image | None:
    """The state at the end of the log, or before the first damaged batch; None if nothing says how it began."""
    image = Image()
    try:
        base = log.read_latest_snapshot()
        if base is None and log.start > 0:
            return None
        decisions = log.decisions(0 if base is None else base.offset)
        for decision in (*(() if base is None else (base,)), *decisions):
            for record in decision.records:
                try:
                    image.apply(record, decision.offset)
                except InvariantError:
                    continue
            image.offset = max(image.offset, decision.offset)
    except (MetadataLogError, OSError):
        return None
    return image if image.offset >= 0 else None


def _find_beside(nodes: Sequence[NodeDirectory]) -> list[MetadataLog]:
    """Metadata logs of the same cluster in the directories around the audited ones, as of a controller."""
    clusters = {node.cluster_id for node in nodes}
    try:
        logs = find_metadata_logs(list(dict.fromkeys(os.path.dirname(node.path) for node in nodes)))
    except MetadataLogError:
        return []
    return [log for log in logs if _cluster_id_of(log.path) in clusters]


def _cluster_id_of(log: Path) -> str:
    for place in (log.parent, log.parent.parent):
        data = read_if_exists(str(place / META_PROPERTIES))
        if data is not None:
            return decode_meta_properties(data).get("cluster.id", "")
    return ""


def find_compacted(nodes: Iterable[NodeDirectory], metadata: ClusterMetadata, topics: Iterable[str]) -> frozenset[str]:
    cleaned = {topic for node in nodes for root in node.roots for topic, _ in root.checkpoints.get(CLEANER_OFFSETS, {})}
    return frozenset(topic for topic in topics if topic in INTERNAL or topic in cleaned or metadata.is_compacted(topic))
