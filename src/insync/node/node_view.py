"""A node as others see it: the handlers of requests, and the version translator."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from insync.findings import Findings
from insync.metadata.image import Image
from insync.node.access import AccessControl
from insync.node.broker_role import BrokerRole
from insync.node.config import NodeConfig
from insync.node.controller_role import ControllerRole
from insync.node.lifecycle import Lifecycle
from insync.quorum.quorum import Quorum
from insync.sansio import Outbox
from insync.wire.messages import metadata


class NodeView(Protocol):
    """What handlers of requests may use of a node."""

    id: int
    config: NodeConfig
    out: Outbox
    findings: Findings
    quorum: Quorum
    broker_role: BrokerRole | None
    controller_role: ControllerRole | None
    access_control: AccessControl
    described_topics: dict[tuple[UUID, str], metadata.MetadataResponseTopic]
    """For Metadata answers, by topic and listener, until the image changes."""

    @property
    def image(self) -> Image: ...

    @property
    def lifecycle(self) -> Lifecycle | None: ...


class NodeTopicNames:
    """Names and ids of topics in a node's image, for the version translator. Reads the image on every call: loading a
    snapshot replaces it."""

    __slots__ = ("_node",)

    def __init__(self, node: NodeView) -> None:
        self._node = node

    def id_of(self, name: str) -> UUID | None:
        return self._node.image.topic_ids.get(name)

    def name_of(self, topic_id: UUID) -> str | None:
        return self._node.image.topics.get(topic_id)
