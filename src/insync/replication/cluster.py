"""What replicas need to know of the cluster beyond their own partitions; the node answers from its metadata image."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from insync.replication.throttle import ThrottleSettings
from insync.storage.config import LogConfig


class ClusterView(ThrottleSettings, Protocol):
    @property
    def broker_epoch(self) -> int:
        """The epoch of this broker, -1 until it is registered."""

    @property
    def controller_id(self) -> int:
        """The active controller, -1 while unknown."""

    def is_fenced(self, broker: int) -> bool: ...
    def is_shutting_down(self, broker: int) -> bool: ...
    def broker_epoch_of(self, broker: int) -> int | None: ...
    def min_insync_replicas(self, topic: str) -> int: ...
    def log_config(self, topic: str) -> LogConfig: ...
    def topic_name(self, topic_id: UUID) -> str | None: ...
    def has_partition(self, topic: str, index: int) -> bool:
        """Whether any broker of the cluster has this partition."""
