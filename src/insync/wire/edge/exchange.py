"""One request of a client and its answer, each in two versions: the client's and the node's."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

from insync.wire.codec import RequestHeader
from insync.wire.errors import ErrorCode


class TopicNames(Protocol):
    """Older versions name topics, the node counts in ids."""

    def id_of(self, name: str) -> UUID | None: ...

    def name_of(self, topic_id: UUID) -> str | None: ...


class Exchange:
    """`asked` is what the client sent, `request` what the node is given; None if the edge answers in its stead.

    Names are looked up once, when the request arrives: a topic that is deleted meanwhile is still answered by its name.
    What the edge has refused itself never reaches the node and is added to its answer.
    """

    __slots__ = ("asked", "header", "names", "refused", "request")

    def __init__(self, header: RequestHeader) -> None:
        self.header = header
        self.asked: Any = None
        self.request: Any = None
        self.names: dict[UUID, str] = {}
        self.refused: list[tuple[str, int, ErrorCode]] = []

    def id_of(self, names: TopicNames, name: str) -> UUID | None:
        topic_id = names.id_of(name)
        if topic_id is not None:
            self.names[topic_id] = name
        return topic_id

    def name_of(self, names: TopicNames, topic_id: UUID | None) -> str:
        """The name by which the client asked; an answer may also hold topics of an earlier request."""
        if topic_id is None:
            return ""
        return self.names.get(topic_id) or names.name_of(topic_id) or ""

    def refused_topics(self) -> dict[str, list[tuple[int, ErrorCode]]]:
        topics: dict[str, list[tuple[int, ErrorCode]]] = {}
        for name, index, error in self.refused:
            topics.setdefault(name, []).append((index, error))
        return topics
