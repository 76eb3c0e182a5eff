"""Client quotas (KIP-13, KIP-124, KIP-546, KIP-599): who shares which limit, and how long to wait when it is exceeded.

A quota belongs to a user, a client id, or both, each by name or as a default. The most specific one counts. Byte rates
and request time are measured over the last `WINDOWS` seconds; a client that exceeds its rate is asked to wait until the
average over the window has fallen to the limit. Controller mutations draw from a bucket of tokens, which allows short
bursts. Time is an argument, in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

DEFAULT = ""
"""In the place of a name: every user, client id or address without a quota of its own. Each has the limit to itself.
No entity has an empty name."""

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"
USER_QUOTAS = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""Of users and client ids."""
IP_QUOTAS = (CONNECTION_CREATION_RATE,)

WINDOWS = 11
WINDOW_MS = 1_000


ENTITY_TYPES = {"user": "user", "client-id": "client_id", "ip": "ip"}
"""From Kafka's entity types to the fields of QuotaEntity."""


class QuotaEntity(NamedTuple):
    """Of a quota. None: the quota does not depend on it. A quota of an IP address depends on nothing else."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    @classmethod
    def of(cls, names: Mapping[str, str | None]) -> QuotaEntity | None:
        """From Kafka's names by entity type; None stands for the default. None if there is an unknown type."""
        if not names.keys() <= ENTITY_TYPES.keys():
            return None
        return cls(**{ENTITY_TYPES[kind]: name or DEFAULT for kind, name in names.items()})

    def names(self) -> dict[str, str | None]:
        """The inverse of `of`."""
        return {
            kind: getattr(self, field) or None
            for kind, field in ENTITY_TYPES.items()
            if getattr(self, field) is not None
        }

    def __str__(self) -> str:
        return " and ".join(f"{kind} {name or '<default>'}" for kind, name in self.names().items())


class Share(NamedTuple):
    """What one limit is measured for. Clients with equal shares use up the limit together."""

    quota: str
    user: str | None
    client_id: str | None


class ClientQuotas:
    """The configured limits, by entity and quota name."""

    __slots__ = ("_found", "_limits")

    def __init__(self) -> None:
        self._limits: dict[QuotaEntity, dict[str, float]] = {}
        self._found: dict[Share, tuple[Share, float] | None] = {}  # by quota, user and client id of a request

    def set(self, entity: QuotaEntity, quota: str, limit: float | None) -> None:
        """None removes the limit."""
        limits = self._limits.setdefault(entity, {})
        if limit is None:
            limits.pop(quota, None)
        else:
            limits[quota] = limit
        if not limits:
            del self._limits[entity]
        self._found.clear()

    def limits(self) -> dict[QuotaEntity, dict[str, float]]:
        return {entity: dict(limits) for entity, limits in self._limits.items()}

    def find(self, quota: str, user: str, client_id: str) -> tuple[Share, float] | None:
        """The limit that counts for this client, and what it is shared by; None if nothing limits it."""
        if not self._limits:
            return None
        asked = Share(quota, user, client_id)
        if asked not in self._found:
            self._found[asked] = self._most_specific(asked)
        return self._found[asked]

    def _most_specific(self, asked: Share) -> tuple[Share, float] | None:
        quota, user, client_id = asked
        candidates = (
            (QuotaEntity(user, client_id), asked),
            (QuotaEntity(user, DEFAULT), asked),
            (QuotaEntity(user, None), Share(quota, user, None)),
            (QuotaEntity(DEFAULT, client_id), asked),
            (QuotaEntity(DEFAULT, DEFAULT), asked),
            (QuotaEntity(DEFAULT, None), Share(quota, user, None)),
            (QuotaEntity(None, client_id), Share(quota, None, client_id)),
            (QuotaEntity(None, DEFAULT), Share(quota, None, client_id)),
        )
        for entity, share in candidates:
            limit = self._limits.get(entity, {}).get(quota)
            if limit is not None:
                return share, limit
        return None


class Rate:
    """An average over the last seconds."""

    __slots__ = ("_amounts", "_newest")

    def __init__(self) -> None:
        self._amounts: list[float] = [0.0] * WINDOWS
        self._newest = -WINDOWS
        """The number of the newest window; window `n` covers the milliseconds from `n * WINDOW_MS` on."""

    def record(self, amount: float, now: int) -> None:
        self._advance(now)
        self._amounts[self._newest % WINDOWS] += amount

    def per_second(self, now: int) -> float:
        self._advance(now)
        return sum(self._amounts) * 1_000 / self._covered_ms(now)

    def throttle_ms(self, limit: float, now: int) -> int:
        """How long to do nothing until the average over the windows is back at the limit."""
        rate = self.per_second(now)
        if rate <= limit:
            return 0
        return round((rate - limit) / limit * self._covered_ms(now)) if limit > 0 else WINDOWS * WINDOW_MS

    def _covered_ms(self, now: int) -> int:
        """All windows but the newest count as whole, so a first burst is not taken for a high rate."""
        return (WINDOWS - 1) * WINDOW_MS + now % WINDOW_MS + 1

    def _advance(self, now: int) -> None:
        newest = now // WINDOW_MS
        for window in range(max(self._newest + 1, newest - WINDOWS + 1), newest + 1):
            self._amounts[window % WINDOWS] = 0.0
        self._newest = max(self._newest, newest)


class TokenBucket:
    """KIP-599: mutations are paid for after they are made, so one large request passes, and the next ones wait."""

    __slots__ = ("_filled_at", "_tokens")

    def __init__(self, limit: float, now: int) -> None:
        self._tokens = limit * WINDOWS
        self._filled_at = now

    def throttle_ms(self, limit: float, now: int) -> int:
        """How long until a request may be made; 0 if now."""
        self._fill(limit, now)
        return 0 if self._tokens >= 0 else round(-self._tokens / limit * 1_000)

    def take(self, amount: float, limit: float, now: int) -> None:
        self._fill(limit, now)
        self._tokens -= amount

    def _fill(self, limit: float, now: int) -> None:
        gained = limit * max(0, now - self._filled_at) / 1_000
        self._tokens = min(self._tokens + gained, limit * WINDOWS)
        self._filled_at = now
