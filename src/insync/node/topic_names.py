"""Names and ids of topics in a node's image, for the version translator."""

from __future__ import annotations

from uuid import UUID

from insync.node.node_view import NodeView


class NodeTopicNames:
    """Reads the node's image on every call: loading a snapshot replaces it."""

    __slots__ = ("_node",)

    def __init__(self, node: NodeView) -> None:
        self._node = node

    def id_of(self, name: str) -> UUID | None:
        return self._node.image.topic_ids.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        return self._node.image.topics.get(topic_id)
