"""Addresses in Kafka's notation: `NAME://host:port` for listeners, `id@host:port` for voters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from insync.server.property_keys import InvalidValueError, comma_separated

_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>\[[^\]]*\]|[^:/\[\]]*):(?P<port>\d+)")
_VOTER = re.compile(r"(?P<id>\d+)@(?P<host>\[[^\]]*\]|[^:@]+):(?P<port>\d+)")


@dataclass(frozen=True, slots=True)
class ListenerAddress:
    name: str
    host: str
    port: int


def parse_listeners(text: str) -> tuple[ListenerAddress, ...]:
    listeners = tuple(_parse_listener(item) for item in comma_separated(text))
    if not listeners:
        raise InvalidValueError("needs at least one listener, NAME://host:port")
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise InvalidValueError(f"two listeners have the same name {name}. Rename one of them.")
    return listeners


def parse_voters(text: str) -> dict[int, tuple[str, int]]:
    voters: dict[int, tuple[str, int]] = {}
    for item in comma_separated(text):
        match = _VOTER.fullmatch(item)
        if match is None:
            raise InvalidValueError(f"{item!r} is not of the form id@host:port")
        node_id = int(match["id"])
        if node_id in voters:
            raise InvalidValueError(f"voter {node_id} is named twice")
        voters[node_id] = (match["host"].strip("[]"), _port(match["port"]))
    if not voters:
        raise InvalidValueError("needs at least one voter, id@host:port")
    return voters


def _parse_listener(item: str) -> ListenerAddress:
    match = _LISTENER.fullmatch(item)
    if match is None:
        raise InvalidValueError(f"{item!r} is not of the form NAME://host:port")
    return ListenerAddress(match["name"].upper(), match["host"].strip("[]"), _port(match["port"]))


def _port(text: str) -> int:
    port = int(text)
    if port > 65_535:
        raise InvalidValueError(f"{port} is not a port (0 to 65535)")
    return port
