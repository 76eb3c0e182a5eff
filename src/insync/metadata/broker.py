"""The registration of one broker: its incarnation (B1), its endpoints, and whether it may serve (B4, B7)."""

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
    """The range of levels that a broker supports for one feature."""

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

    def endpoint(self, listener: str) -> Endpoint | None:
        """The endpoint of the listener with this name; without a name, the first one."""
        if not listener:
            return self.endpoints[0] if self.endpoints else None
        return next((endpoint for endpoint in self.endpoints if endpoint.name == listener), None)

    @property
    def registration_offset(self) -> int:
        """B1: the broker epoch is the offset of the registration record."""
        return self.epoch

    @property
    def is_active(self) -> bool:
        """Whether it may lead and be in an ISR (B4, B7)."""
        return not self.fenced and not self.in_controlled_shutdown
