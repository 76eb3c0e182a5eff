"""Which topics the members of a "consumer" group read: the one thing that the coordinator reads of their metadata.

Kafka's consumer protocol: version (2 bytes), then the topics, an array of strings. What follows is the assignors' own.
"""

from __future__ import annotations

from struct import error, unpack_from
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insync.groups.group import Group

CONSUMER = "consumer"


def topics_of(group: Group) -> tuple[str, ...] | None:
    """All members' topics; None when one of them cannot be read."""
    topics: dict[str, None] = {}
    for member in group.members.values():
        found = topics_in(member.metadata(group.protocol))
        if found is None:
            return None
        topics.update(dict.fromkeys(found))
    return tuple(topics)


def topics_in(metadata: bytes) -> tuple[str, ...] | None:
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
