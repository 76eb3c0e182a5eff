"""What the cluster knows of one broker: which uptime it is in (B1), where it listens, whether it may serve (B4, B7)."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    name: str
    host: str
    port: int
    security_protocol: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """The range of levels of one feature that a broker supports."""

    name: str
    min_supported: int
    max_supported: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    id: int
    epoch: int
    incarnation_id: UUID
    fenced: bool
    in_controlled_shutdown: bool = False
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    features: tuple[Feature, ...] = ()
    log_dirs: tuple[UUID, ...] = ()

    @property
    def registration_offset(self) -> int:
        """B1: a broker epoch is the offset of the registration record, so one number is both."""
        return self.epoch

    @property
    def active(self) -> bool:
        """May lead and may be in an ISR (B4, B7)."""
        return not self.fenced and not self.in_controlled_shutdown
