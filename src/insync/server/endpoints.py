"""Addresses as Kafka writes them: `NAME://host:port` for listeners, `id@host:port` for voters."""

from __future__ import annotations

import re
from dataclasses import dataclass

from insync.server.property_keys import BadValue, words

_LISTENER = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)://(?P<host>\[[^\]]*\]|[^:/\[\]]*):(?P<port>\d+)")
_VOTER = re.compile(r"(?P<id>\d+)@(?P<host>\[[^\]]*\]|[^:@]+):(?P<port>\d+)")


@dataclass(frozen=True, slots=True)
class Listen:
    name: str
    host: str
    port: int


def parse_listeners(text: str) -> tuple[Listen, ...]:
    found = tuple(_listener(item) for item in words(text))
    if not found:
        raise BadValue("no listener is named")
    if len({each.name for each in found}) != len(found):
        raise BadValue("two listeners have one name")
    return found


def parse_voters(text: str) -> dict[int, tuple[str, int]]:
    voters: dict[int, tuple[str, int]] = {}
    for item in words(text):
        match = _VOTER.fullmatch(item)
        if match is None:
            raise BadValue(f"{item!r} is not of the form id@host:port")
        node_id = int(match["id"])
        if node_id in voters:
            raise BadValue(f"voter {node_id} is named twice")
        voters[node_id] = (match["host"].strip("[]"), _port(match["port"]))
    if not voters:
        raise BadValue("no voter is named")
    return voters


def _listener(item: str) -> Listen:
    match = _LISTENER.fullmatch(item)
    if match is None:
        raise BadValue(f"{item!r} is not of the form NAME://host:port")
    return Listen(match["name"].upper(), match["host"].strip("[]"), _port(match["port"]))


def _port(text: str) -> int:
    port = int(text)
    if port > 65_535:
        raise BadValue(f"{port} is not a port")
    return port
