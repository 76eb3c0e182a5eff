"""The settings of a client, under the names that Java's clients have for them.

    ClientSettings.of({"security.protocol": "SSL", "fetch.max.wait.ms": "100"})

Whatever is not set stays as whoever uses the client has it. Names that Java's clients know and this one has no use for
are taken and without effect; a name that no client knows is worth a warning (`tell`), as it is in Java.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from insync.client import setting_names
from insync.client.errors import BadSetting
from insync.client.security import PLAINTEXT, Security

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 0.5
MAX_WAIT_MS = 300
MAX_BYTES = 32 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    security: Security = PLAINTEXT
    client_id: str = ""
    request_s: float | None = None
    """One request and its answer."""
    api_s: float | None = None
    """A question with all its repetitions."""
    connect_s: float | None = None
    """Until a connection is there, TLS included."""
    first_pause: float = FIRST_PAUSE
    longest_pause: float = LONGEST_PAUSE
    """Between repetitions: each is twice the one before."""
    min_bytes: int = 1
    max_wait_ms: int = MAX_WAIT_MS
    max_bytes: int = MAX_BYTES
    partition_bytes: int | None = None

    @staticmethod
    def of(values: Mapping[str, str]) -> ClientSettings:
        first = _seconds(values, "retry.backoff.ms") or FIRST_PAUSE
        longest = _seconds(values, "retry.backoff.max.ms")
        return ClientSettings(
            security=Security.of(values),
            client_id=values.get("client.id", "").strip(),
            request_s=_seconds(values, "request.timeout.ms", least=1),
            api_s=_seconds(values, "default.api.timeout.ms"),
            connect_s=_seconds(values, "socket.connection.setup.timeout.ms", least=1),
            first_pause=first,
            longest_pause=max(first, longest or LONGEST_PAUSE),
            min_bytes=_number(values, "fetch.min.bytes", 1, least=0),
            max_wait_ms=_number(values, "fetch.max.wait.ms", MAX_WAIT_MS, least=0),
            max_bytes=_number(values, "fetch.max.bytes", MAX_BYTES, least=1),
            partition_bytes=_optional(values, "max.partition.fetch.bytes", least=1),
        )


DEFAULTS = ClientSettings()


def tell(log: logging.Logger, names: Iterable[str], *, used: Iterable[str], prefix: str = "") -> None:
    """Say what is without effect: quietly of what Java's clients have, aloud of what nobody has."""
    given = list(names)
    for name, like in setting_names.unknown(given).items():
        meant = f"; was '{prefix}{like}' meant?" if like else ""
        log.warning("no client of Kafka has a setting '%s%s': it is without effect%s", prefix, name, meant)
    if idle := setting_names.idle(given, used):
        log.debug("without effect: %s", ", ".join(f"{prefix}{name}" for name in idle))


def _seconds(values: Mapping[str, str], name: str, least: int = 0) -> float | None:
    found = _optional(values, name, least=least)
    return None if found is None else found / 1_000


def _number(values: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    found = _optional(values, name, least=least)
    return default if found is None else found


def _optional(values: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = values.get(name, "").strip()
    if not text:
        return None
    if not text.isdecimal() or not least <= int(text) < 1 << 31:
        raise BadSetting(name, f"is {text!r}: a whole number, at least {least}")
    return int(text)
