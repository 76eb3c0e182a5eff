"""What changed in an image since the changes were last taken (Q7): merged, so that readers act on the outcome only."""

from __future__ import annotations

from uuid import UUID

from insync.metadata.partition import PartitionKey
from insync.security.acl import Acl
from insync.security.quotas import QuotaEntity


class Changes:
    """Insertion-ordered sets, as dicts. A partition is in `partitions` or in `deleted`, never in both."""

    __slots__ = (
        "acls",
        "brokers",
        "client_quotas",
        "configs",
        "deleted",
        "deleted_topics",
        "features",
        "partitions",
        "scram_credentials",
        "topics",
    )

    def __init__(self) -> None:
        self.partitions: dict[PartitionKey, None] = {}
        self.deleted: dict[PartitionKey, None] = {}
        self.topics: dict[UUID, None] = {}
        """Topics that were created."""
        self.deleted_topics: dict[UUID, str] = {}
        self.brokers: dict[int, None] = {}
        """Brokers that registered, changed or were unregistered."""
        self.configs: dict[tuple[int, str], None] = {}
        self.features: dict[str, None] = {}
        self.acls: dict[UUID, Acl | None] = {}
        """Ids of ACLs that were created, replaced or removed, with what each was before; None if it is new."""
        self.scram_credentials: dict[tuple[str, str], None] = {}
        self.client_quotas: dict[QuotaEntity, None] = {}

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in self.__slots__)

    def partition_changed(self, key: PartitionKey) -> None:
        self.deleted.pop(key, None)
        self.partitions[key] = None

    def partition_deleted(self, key: PartitionKey) -> None:
        self.partitions.pop(key, None)
        self.deleted[key] = None
