"""What handlers of requests may use of a node."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from insync.findings import Findings
from insync.metadata.image import Image
from insync.node.broker_role import BrokerRole
from insync.node.config import NodeConfig
from insync.node.controller_role import ControllerRole
from insync.node.lifecycle import Lifecycle
from insync.quorum.quorum import Quorum
from insync.sansio import Outbox
from insync.wire.messages import metadata


class NodeView(Protocol):
    id: int
    config: NodeConfig
    out: Outbox
    findings: Findings
    quorum: Quorum
    broker_role: BrokerRole | None
    controller_role: ControllerRole | None
    described_topics: dict[UUID, metadata.MetadataResponseTopic]
    """For Metadata answers, until the image changes."""

    @property
    def image(self) -> Image: ...

    @property
    def lifecycle(self) -> Lifecycle | None: ...
