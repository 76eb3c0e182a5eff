"""What replicas ask of the cluster's metadata beyond their own partitions; the node answers from its image."""

from __future__ import annotations

from typing import Protocol
from uuid import UUID

from insync.replication.throttle import Rates, Throttle
from insync.storage.config import LogConfig


class ClusterView(Protocol):
    @property
    def broker_epoch(self) -> int:
        """This broker's own, -1 until it is registered."""

    @property
    def controller_id(self) -> int:
        """The active controller, -1 while unknown."""

    @property
    def throttle_rates(self) -> Rates:
        """R6: this broker's."""

    def is_fenced(self, broker: int) -> bool: ...
    def is_shutting_down(self, broker: int) -> bool: ...
    def broker_epoch_of(self, broker: int) -> int | None: ...
    def min_insync_replicas(self, topic: str) -> int: ...
    def log_config(self, topic: str) -> LogConfig: ...
    def throttle(self, topic: str) -> Throttle: ...
    def topic_name(self, topic_id: UUID) -> str | None: ...
    def has_partition(self, topic: str, index: int) -> bool:
        """Whether the cluster has it, on whatever brokers."""
