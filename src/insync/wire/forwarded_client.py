"""The client of a forwarded request, as an Envelope names it: its principal in Kafka's default format, and its address.

The principal's format is DefaultPrincipalData after two bytes for its version, as Kafka's DefaultKafkaPrincipalBuilder
writes and reads it.
"""

from __future__ import annotations

from ipaddress import ip_address

from kio.schema.default_principal_data.v0.data import DefaultPrincipalData

from insync.wire import entities
from insync.wire.errors import MalformedFrameError

_VERSION = bytes(2)
_NO_ADDRESS = bytes(4)


def encode_principal(principal: str) -> bytes:
    kind, _, name = principal.partition(":")
    return _VERSION + entities.encode(DefaultPrincipalData(type_=kind, name=name, token_authenticated=False))


def decode_principal(data: bytes) -> str:
    """Type and name, such as User:alice; MalformedFrameError if the bytes are no principal."""
    if data[:2] != _VERSION:
        raise MalformedFrameError(f"principal data of version {int.from_bytes(data[:2], 'big')} is not supported")
    principal: DefaultPrincipalData = entities.decode(DefaultPrincipalData, data, len(_VERSION))
    if not principal.type_ or ":" in principal.type_:
        raise MalformedFrameError(f"{principal.type_!r} is not the type of a principal")
    return f"{principal.type_}:{principal.name}"


def encode_address(host: str) -> bytes:
    """4 or 16 bytes. A client without an address, such as one of a simulation, has that of no host."""
    try:
        return ip_address(host.partition("%")[0]).packed
    except ValueError:
        return _NO_ADDRESS


def decode_address(data: bytes) -> str:
    """MalformedFrameError if it has neither 4 nor 16 bytes."""
    try:
        return str(ip_address(data))
    except ValueError as error:
        raise MalformedFrameError(f"a client address has 4 or 16 bytes, not {len(data)}") from error
