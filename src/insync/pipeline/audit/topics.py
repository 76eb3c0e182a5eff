"""Which topics are compacted: there offsets may be missing, and each replica leaves out records in its own time.

The metadata log has the topics' settings, where it is beside the logs; Apache Kafka also lists in
`cleaner-offset-checkpoint` the partitions that its cleaner has been at. The coordinators' own topics always are.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from insync.metadata.configs import TOPIC_KEYS
from insync.metadata.image import Image
from insync.pipeline.health import metadata_log as health_log
from insync.pipeline.health.history import Replay
from insync.pipeline.health.metadata_log import NoMetadataLog
from insync.storage.checkpoints import decode_offsets

CLEANER_OFFSETS = "cleaner-offset-checkpoint"
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")
_POLICY = "cleanup.policy"


def compacted(paths: Iterable[str], topics: Iterable[str]) -> tuple[frozenset[str], bool]:
    """(the compacted ones of `topics`, whether a metadata log was there to tell)."""
    paths = list(paths)
    image = _image(paths)
    cleaned = {topic for path in paths for topic in _cleaned(path)}
    found = {topic for topic in topics if topic in INTERNAL or topic in cleaned or _compacts(image, topic)}
    return frozenset(found), image is not None


def _image(paths: list[str]) -> Image | None:
    places = dict.fromkeys(place for path in paths for place in (path, os.path.dirname(path)) if os.path.isdir(place))
    replay = Replay()
    try:
        log = health_log.find(list(places))
        base = log.base()
        if base is not None:
            replay.begin(base)
        for decision in log.decisions(0 if base is None else base.offset):
            replay.apply(decision)
    except NoMetadataLog:
        return None
    return replay.image


def _compacts(image: Image | None, topic: str) -> bool:
    if image is None or _POLICY not in TOPIC_KEYS:
        return False
    policy = image.config(topic, _POLICY)
    return "compact" in (policy if isinstance(policy, tuple) else str(policy).split(","))


def _cleaned(path: str) -> list[str]:
    for place in (path, os.path.join(path, "data")):
        try:
            with open(os.path.join(place, CLEANER_OFFSETS), "rb") as file:
                return sorted({topic for topic, _ in decode_offsets(file.read()) or {}})
        except FileNotFoundError:
            continue
    return []
