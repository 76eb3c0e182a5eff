"""The names and ids of topics as a node's image has them, for the edge."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from insync.node.node import Node


class NodeTopicNames:
    """Looks through the node each time: loading a snapshot replaces its image."""

    __slots__ = ("_node",)

    def __init__(self, node: Node) -> None:
        self._node = node

    def id_of(self, name: str) -> UUID | None:
        return self._node.image.topic_ids.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        return self._node.image.topics.get(topic_id)
