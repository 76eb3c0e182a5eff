"""Client quotas (KIP-13, KIP-124, KIP-546, KIP-599): who shares which limit, and how long to wait when it is exceeded.

A quota belongs to a user, a client id, or both, each by name or as a default. The most specific one counts. Byte rates
and request time are measured over the last `WINDOWS` windows; a client that exceeds its rate is asked to wait until the
average over them has fallen to the limit. Controller mutations draw from a bucket of tokens, which allows short bursts.
Time is an argument, in milliseconds.

A request is served first and paid for afterwards, so that a client makes progress whatever its limit is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import ceil
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
MAX_INT = 2**31 - 1
"""Kafka's value for no limit."""
MAX_SHARES = 10_000
"""Clients may invent ids, each with a rate of its own: with more of them, those that are idle are forgotten."""


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

    def __bool__(self) -> bool:
        return bool(self._limits)

    def find(self, quota: str, user: str, client_id: str) -> tuple[Share, float] | None:
        """The limit that counts for this client, and what it is shared by; None if nothing limits it."""
        if not self._limits:
            return None
        asked = Share(quota, user, client_id)
        if asked not in self._found:
            if len(self._found) >= MAX_SHARES:
                self._found.clear()
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


@dataclass(frozen=True, slots=True)
class Windows:
    """What rates are averaged over. All but the newest count as whole."""

    count: int = WINDOWS
    length_ms: int = WINDOW_MS

    @property
    def full_ms(self) -> int:
        return (self.count - 1) * self.length_ms


DEFAULT_WINDOWS = Windows()


class Rate:
    """An average over the last windows."""

    __slots__ = ("_amounts", "_newest", "_windows")

    def __init__(self, windows: Windows = DEFAULT_WINDOWS) -> None:
        self._windows = windows
        self._amounts: list[float] = [0.0] * windows.count
        self._newest = -windows.count
        """The number of the newest window; window `n` covers the milliseconds from `n * length_ms` on."""

    def record(self, amount: float, now: int) -> None:
        self._advance(now)
        self._amounts[self._newest % len(self._amounts)] += amount

    def per_second(self, now: int) -> float:
        self._advance(now)
        return sum(self._amounts) * 1_000 / self._covered_ms(now)

    def throttle_ms(self, limit: float, now: int) -> int:
        """How long to do nothing until the average over the windows is back at the limit."""
        rate = self.per_second(now)
        if rate <= limit:
            return 0
        covered_ms = self._covered_ms(now)
        return round((rate - limit) / limit * covered_ms) if limit > 0 else covered_ms

    def is_idle(self, now: int) -> bool:
        self._advance(now)
        return not any(self._amounts)

    def _covered_ms(self, now: int) -> int:
        """A first burst is not taken for a high rate."""
        return self._windows.full_ms + now % self._windows.length_ms + 1

    def _advance(self, now: int) -> None:
        count = len(self._amounts)
        newest = now // self._windows.length_ms
        for window in range(max(self._newest + 1, newest - count + 1), newest + 1):
            self._amounts[window % count] = 0.0
        self._newest = max(self._newest, newest)


class TokenBucket:
    """KIP-599: mutations are paid for after they are made, so one large request passes, and the next ones wait."""

    __slots__ = ("_capacity_s", "_filled_at", "_limit", "_tokens")

    def __init__(self, limit: float, now: int, windows: Windows = DEFAULT_WINDOWS) -> None:
        self._capacity_s = windows.count * windows.length_ms / 1_000
        self._limit = limit
        self._tokens = limit * self._capacity_s
        self._filled_at = now

    def throttle_ms(self, limit: float, now: int) -> int:
        """How long until a request may be made; 0 if now."""
        self._fill(limit, now)
        return 0 if self._tokens >= 0 else ceil(-self._tokens / limit * 1_000)

    def take(self, amount: float, limit: float, now: int) -> None:
        self._fill(limit, now)
        self._tokens -= amount

    def is_full(self, now: int) -> bool:
        self._fill(self._limit, now)
        return self._tokens >= self._limit * self._capacity_s

    def _fill(self, limit: float, now: int) -> None:
        self._limit = limit
        gained = limit * max(0, now - self._filled_at) / 1_000
        self._tokens = min(self._tokens + gained, limit * self._capacity_s)
        self._filled_at = max(self._filled_at, now)


class MutationQuota:
    """What one request may create and delete. `throttle_ms` is how long its client has to wait then."""

    __slots__ = ("_bucket", "_is_strict", "_limit", "_now", "throttle_ms")

    def __init__(self, bucket: TokenBucket, limit: float, is_strict: bool, now: int) -> None:
        self._bucket = bucket
        self._limit = limit
        self._is_strict = is_strict
        self._now = now
        self.throttle_ms = 0

    def charge(self, partitions: int) -> bool:
        """Whether so many partitions may be created or deleted; then they count."""
        if self._is_strict:
            self.throttle_ms = self._bucket.throttle_ms(self._limit, self._now)
            if self.throttle_ms:
                return False
            self._bucket.take(partitions, self._limit, self._now)
            return True
        self._bucket.take(partitions, self._limit, self._now)
        self.throttle_ms = self._bucket.throttle_ms(self._limit, self._now)
        return True


class QuotaManager:
    """Measures what clients use, and says how long each has to wait. One per node.

    `is_active` is false while no user and no client id has a quota: then nothing has to be measured.
    """

    __slots__ = (
        "_buckets",
        "_mutation_windows",
        "_rates",
        "_shares_to_prune",
        "ip_limits",
        "is_active",
        "limits",
        "windows",
    )

    def __init__(self, windows: Windows = DEFAULT_WINDOWS, mutation_windows: Windows = DEFAULT_WINDOWS) -> None:
        self.is_active = False
        self.limits = ClientQuotas()
        self.ip_limits: dict[str, float] = {}
        """New connections per second, by address; under DEFAULT those of every other address."""
        self.windows = windows
        self._mutation_windows = mutation_windows
        self._rates: dict[Share, Rate] = {}
        self._buckets: dict[Share, TokenBucket] = {}
        self._shares_to_prune = MAX_SHARES

    def update(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """The quotas of the cluster have changed. What was measured still counts."""
        limits = ClientQuotas()
        ip_limits = {}
        for entity, by_name in quotas.items():
            for name, limit in by_name.items():
                if entity.ip is None:
                    limits.set(entity, name, limit)
                elif name == CONNECTION_CREATION_RATE:
                    ip_limits[entity.ip] = limit
        self.limits, self.ip_limits = limits, ip_limits
        self.is_active = bool(limits)
        if not self.is_active:
            self._rates.clear()
            self._buckets.clear()

    def record(self, quota: str, user: str, client_id: str, amount: float, now: int) -> int:
        """Count what a client has used; returns how long it has to wait."""
        match = self.limits.find(quota, user, client_id)
        if match is None:
            return 0
        share, limit = match
        rate = self._rates.get(share)
        if rate is None:
            self._prune(now)
            rate = self._rates[share] = Rate(self.windows)
        rate.record(amount, now)
        throttle_ms = rate.throttle_ms(limit, now)
        return min(throttle_ms, self.windows.length_ms) if quota == REQUEST_PERCENTAGE else throttle_ms

    def record_request_time(self, user: str, client_id: str, time_ns: int, now: int) -> int:
        """In percent of the one thread that serves requests."""
        return self.record(REQUEST_PERCENTAGE, user, client_id, time_ns / 10_000_000, now)

    def max_fetch_bytes(self, user: str, client_id: str) -> int | None:
        """What one fetch may return, so that it does not have to be paid for longer than rates are measured."""
        match = self.limits.find(CONSUMER_BYTE_RATE, user, client_id)
        return None if match is None else max(1, int(match[1] * self.windows.full_ms / 1_000))

    def mutation_quota(self, user: str, client_id: str, *, is_strict: bool, now: int) -> MutationQuota | None:
        """For one request; None if nothing limits its client. A strict one refuses, the other only says how long to
        wait afterwards."""
        match = self.limits.find(CONTROLLER_MUTATION_RATE, user, client_id)
        return None if match is None else MutationQuota(self._bucket(*match, now), match[1], is_strict, now)

    def _bucket(self, share: Share, limit: float, now: int) -> TokenBucket:
        bucket = self._buckets.get(share)
        if bucket is None:
            self._prune(now)
            bucket = self._buckets[share] = TokenBucket(limit, now, self._mutation_windows)
        return bucket

    def _prune(self, now: int) -> None:
        """Forget what is as if it had never been used. The work is spread over as many new shares as there are."""
        if len(self._rates) + len(self._buckets) >= self._shares_to_prune:
            self._rates = {share: rate for share, rate in self._rates.items() if not rate.is_idle(now)}
            self._buckets = {share: bucket for share, bucket in self._buckets.items() if not bucket.is_full(now)}
            self._shares_to_prune = max(MAX_SHARES, 2 * (len(self._rates) + len(self._buckets)))


class Admission(NamedTuple):
    """What to do with a new connection."""

    refusal: str = ""
    """Why it is closed; empty if it is not."""
    delay_ms: int = 0
    """Before it is served, or closed: a client that is refused at once would come back at once."""


class ConnectionQuotas:
    """Limits the connections of each address, and how fast new ones come, from each address and in all (KIP-612).

    Addresses are in the form of `canonical_host`.
    """

    __slots__ = ("_counts", "_max_per_ip", "_max_rate", "_overrides", "_rate", "_rates", "_windows")

    def __init__(
        self,
        *,
        max_per_ip: int = MAX_INT,
        overrides: Iterable[tuple[str, int]] = (),
        max_rate: int = MAX_INT,
        windows: Windows = DEFAULT_WINDOWS,
    ) -> None:
        self._max_per_ip = max_per_ip
        self._overrides = dict(overrides)
        self._max_rate = max_rate
        self._windows = windows
        self._counts: Counter[str] = Counter()
        self._rate = Rate(windows)
        self._rates: dict[str, Rate] = {}

    def connect(self, ip: str, ip_limits: Mapping[str, float], now: int) -> Admission:
        """A connection was accepted; `disconnect` follows when it has ended, refused or not.

        `ip_limits`: new connections per second, by address; under DEFAULT those of every other address.
        """
        self._counts[ip] += 1
        allowed = self._overrides.get(ip, self._max_per_ip)
        if self._counts[ip] > allowed:
            return Admission(f"{allowed} connections of one address are allowed")
        ip_limit = ip_limits.get(ip, ip_limits.get(DEFAULT)) if ip_limits else None
        if ip_limit is not None:
            delay_ms = self._record_ip(ip, ip_limit, now)
            if delay_ms:
                return Admission(f"{ip_limit:g} new connections per second of one address are allowed", delay_ms)
        if self._max_rate == MAX_INT:
            return Admission()
        self._rate.record(1, now)
        return Admission("", min(self._rate.throttle_ms(self._max_rate, now), self._windows.length_ms))

    def disconnect(self, ip: str) -> None:
        self._counts[ip] -= 1
        if not self._counts[ip]:
            del self._counts[ip]

    def _record_ip(self, ip: str, limit: float, now: int) -> int:
        """A connection that is refused does not count: else a client that keeps trying would never get in."""
        rate = self._rates.get(ip)
        if rate is None:
            if len(self._rates) >= MAX_SHARES:
                self._rates = {known: rate for known, rate in self._rates.items() if not rate.is_idle(now)}
            rate = self._rates[ip] = Rate(self._windows)
        rate.record(1, now)
        throttle_ms = min(rate.throttle_ms(limit, now), self._windows.length_ms)
        if throttle_ms:
            rate.record(-1, now)
        return throttle_ms
