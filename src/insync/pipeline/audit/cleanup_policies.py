"""Which topics are compacted: their offsets have holes, and replicas drop records at different times.

The metadata log has the topics' configs, if it is beside the logs. Apache Kafka also lists the partitions that its
cleaner has processed, in `cleaner-offset-checkpoint`. The coordinators' own topics are always compacted.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from insync.metadata.configs import TOPIC_KEYS
from insync.metadata.image import Image
from insync.pipeline.health.history import HistoryBuilder
from insync.pipeline.health.metadata_log import MetadataLogError, find_metadata_log
from insync.storage.checkpoints import decode_offsets

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_POLICY = "cleanup.policy"


def find_compacted(paths: Iterable[str], topics: Iterable[str]) -> tuple[frozenset[str], bool]:
    """(the compacted ones of `topics`, whether there is a metadata log)."""
    paths = list(paths)
    image = _load_image(paths)
    cleaned = {topic for path in paths for topic in _list_cleaned(path)}
    compacted = {topic for topic in topics if topic in INTERNAL or topic in cleaned or _is_compacted(image, topic)}
    return frozenset(compacted), image is not None


def _load_image(paths: list[str]) -> Image | None:
    places = dict.fromkeys(place for path in paths for place in (path, os.path.dirname(path)) if os.path.isdir(place))
    history = HistoryBuilder()
    try:
        log = find_metadata_log(list(places))
        base = log.read_base()
        if base is not None:
            history.begin(base)
        for decision in log.decisions(0 if base is None else base.offset):
            history.apply(decision)
    except MetadataLogError:
        return None
    return history.image


def _is_compacted(image: Image | None, topic: str) -> bool:
    if image is None or _POLICY not in TOPIC_KEYS:
        return False
    policy = image.config(topic, _POLICY)
    return "compact" in (policy if isinstance(policy, tuple) else str(policy).split(","))


def _list_cleaned(path: str) -> list[str]:
    for place in (path, os.path.join(path, "data")):
        try:
            with open(os.path.join(place, CLEANER_OFFSETS), "rb") as file:
                return sorted({topic for topic, _ in decode_offsets(file.read()) or {}})
        except FileNotFoundError:
            continue
    return []
