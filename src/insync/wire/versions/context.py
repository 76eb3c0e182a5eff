"""A client's request and its response, each in two versions: the client's and the nodes'."""

from __future__ import annotations

from typing import Any, Protocol
from uuid import UUID

from insync.wire import operations
from insync.wire.codec import RequestHeader
from insync.wire.errors import ErrorCode


class TopicNames(Protocol):
    """Older versions identify topics by name, nodes by id."""

    def id_of(self, name: str) -> UUID | None: ...

    def name_of(self, topic_id: UUID) -> str | None: ...


class RequestContext:
    """`client_request` is what the client sent, `request` what the node gets; None if the translator answers itself.

    A name is looked up once, when the request arrives: if the topic is deleted before the response, the response still
    has its name. Partitions that the translator `refused` do not reach the node; it adds them to the response, as it
    adds `cluster_operations`, what the client may do on the cluster, to a response that has a field for them.
    """

    __slots__ = ("client_request", "cluster_operations", "header", "names", "refused", "request")

    def __init__(self, header: RequestHeader) -> None:
        self.header = header
        self.client_request: Any = None
        self.request: Any = None
        self.cluster_operations = operations.ON_CLUSTER
        self.names: dict[UUID, str] = {}
        self.refused: list[tuple[str, int, ErrorCode]] = []

    @property
    def wants_cluster_operations(self) -> bool:
        """Versions 8 to 10 of Metadata; later they are in DescribeCluster."""
        return getattr(self.client_request, "include_cluster_authorized_operations", False)

    def id_of(self, names: TopicNames, name: str) -> UUID | None:
        topic_id = names.id_of(name)
        if topic_id is not None:
            self.names[topic_id] = name
        return topic_id

    def name_of(self, names: TopicNames, topic_id: UUID | None) -> str:
        """The name in the request; a response may also have topics of an earlier request."""
        if topic_id is None:
            return ""
        return self.names.get(topic_id) or names.name_of(topic_id) or ""

    def refused_by_topic(self) -> dict[str, list[tuple[int, ErrorCode]]]:
        topics: dict[str, list[tuple[int, ErrorCode]]] = {}
        for name, index, error in self.refused:
            topics.setdefault(name, []).append((index, error))
        return topics
