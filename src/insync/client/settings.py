"""The settings of a client, under the names of Java's clients.

    ClientSettings.of({"security.protocol": "SSL", "fetch.max.wait.ms": "100"})

What is not set keeps the caller's default. Names that Java's clients know and this client does not use are accepted and
have no effect; a name that no Kafka client knows is logged as a warning (`log_ineffective_settings`), as Java does.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from insync.client import setting_names
from insync.client.errors import SettingError
from insync.client.security import PLAINTEXT, Security

RETRY_BACKOFF_S = 0.05
RETRY_BACKOFF_MAX_S = 0.5
MAX_WAIT_MS = 300
MAX_BYTES = 32 << 20
BACKOFF_JITTER = 0.2
"""By how much a pause may be shorter or longer: clients that failed together do not come back together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    security: Security = PLAINTEXT
    client_id: str = ""
    request_timeout_s: float | None = None
    """For one request and its answer."""
    api_timeout_s: float | None = None
    """For a call with all its retries."""
    connect_timeout_s: float | None = None
    """For opening a connection, TLS included."""
    retry_backoff_s: float = RETRY_BACKOFF_S
    retry_backoff_max_s: float = RETRY_BACKOFF_MAX_S
    """Between retries; doubled each time."""
    min_bytes: int = 1
    max_wait_ms: int = MAX_WAIT_MS
    max_bytes: int = MAX_BYTES
    partition_bytes: int | None = None

    def backoff_s(self, failures: int) -> float:
        """How long to pause after so many failures in a row."""
        pause_s: float = self.retry_backoff_s * 2 ** min(failures - 1, 30)
        return min(pause_s, self.retry_backoff_max_s) * random.uniform(1 - BACKOFF_JITTER, 1 + BACKOFF_JITTER)

    @staticmethod
    def of(values: Mapping[str, str]) -> ClientSettings:
        first = _seconds(values, "retry.backoff.ms") or RETRY_BACKOFF_S
        longest = _seconds(values, "retry.backoff.max.ms")
        return ClientSettings(
            security=Security.of(values),
            client_id=values.get("client.id", "").strip(),
            request_timeout_s=_seconds(values, "request.timeout.ms", least=1),
            api_timeout_s=_seconds(values, "default.api.timeout.ms"),
            connect_timeout_s=_seconds(values, "socket.connection.setup.timeout.ms", least=1),
            retry_backoff_s=first,
            retry_backoff_max_s=max(first, longest or RETRY_BACKOFF_MAX_S),
            min_bytes=_number(values, "fetch.min.bytes", 1, least=0),
            max_wait_ms=_number(values, "fetch.max.wait.ms", MAX_WAIT_MS, least=0),
            max_bytes=_number(values, "fetch.max.bytes", MAX_BYTES, least=1),
            partition_bytes=_optional(values, "max.partition.fetch.bytes", least=1),
        )


DEFAULT_SETTINGS = ClientSettings()


def log_ineffective_settings(
    log: logging.Logger, names: Iterable[str], *, used: Iterable[str], prefix: str = ""
) -> None:
    """Log settings without effect: a warning for unknown names, debug for other settings of Java's clients."""
    given = list(names)
    for name, like in setting_names.find_unknown(given).items():
        hint = f" Did you mean '{prefix}{like}'?" if like else ""
        log.warning("Unknown client setting '%s%s' ignored.%s", prefix, name, hint)
    if idle := setting_names.find_ineffective(given, used):
        log.debug("Client settings without effect: %s", ", ".join(f"{prefix}{name}" for name in idle))


def _seconds(values: Mapping[str, str], name: str, least: int = 0) -> float | None:
    milliseconds = _optional(values, name, least=least)
    return None if milliseconds is None else milliseconds / 1_000


def _number(values: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    number = _optional(values, name, least=least)
    return default if number is None else number


def _optional(values: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = values.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or not least <= int(text) < 1 << 31:
        raise SettingError(name, f"is {text!r}, but must be a whole number of at least {least}")
    return int(text)
