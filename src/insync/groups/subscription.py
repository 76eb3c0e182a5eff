"""The topics that the members of a "consumer" group subscribe to: all that the coordinator reads of their metadata.

Kafka's consumer protocol: version (2 bytes), then the topics, an array of strings. The rest is for the assignors.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import error, unpack_from

CONSUMER = "consumer"


def read_all_topics(members_metadata: Iterable[bytes]) -> tuple[str, ...] | None:
    """The topics of all members; None if the metadata of one cannot be read."""
    all_topics: dict[str, None] = {}
    for metadata in members_metadata:
        topics = read_topics(metadata)
        if topics is None:
            return None
        all_topics.update(dict.fromkeys(topics))
    return tuple(all_topics)


def read_topics(metadata: bytes) -> tuple[str, ...] | None:
    topics = []
    try:
        _, count = unpack_from(">hi", metadata)
        pos = 6
        for _ in range(count):
            (length,) = unpack_from(">h", metadata, pos)
            pos += 2 + length
            if length < 0 or pos > len(metadata):
                return None
            topics.append(metadata[pos - length : pos].decode())
    except (error, UnicodeDecodeError):
        return None
    return tuple(topics)
