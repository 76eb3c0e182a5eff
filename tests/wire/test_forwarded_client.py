"""The client in an Envelope: the bytes are those of Kafka's DefaultKafkaPrincipalBuilder and of an address."""

from __future__ import annotations

import pytest

from insync.wire.errors import MalformedFrameError
from insync.wire.forwarded_client import decode_address, decode_principal, encode_address, encode_principal


def test_a_principal_has_kafkas_bytes() -> None:
    """Version 0 in two bytes, compact strings, a boolean, and no tagged fields."""
    assert encode_principal("User:alice") == b"\0\0\x05User\x06alice\0\0"


@pytest.mark.parametrize("principal", ["User:alice", "User:", "User:CN=a,O=b:c", "Group:ü\n", "User:*"])
def test_a_principal_is_read_as_it_was_written(principal: str) -> None:
    assert decode_principal(encode_principal(principal)) == principal


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\0\x01\x05User\x06alice\0\0",
        b"\0\0\x05User",
        b"\0\0\x05User\x06alice\0\0more",
        b"\0\0\x01\x06alice\0\0",
        b"\0\0\x05Us:r\x06alice\0\0",
    ],
)
def test_other_bytes_are_no_principal(data: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        decode_principal(data)


@pytest.mark.parametrize(("host", "size"), [("127.0.0.1", 4), ("10.0.0.1", 4), ("::1", 16), ("2001:db8::5", 16)])
def test_an_address_is_read_as_it_was_written(host: str, size: int) -> None:
    assert len(encode_address(host)) == size
    assert decode_address(encode_address(host)) == host


def test_a_client_without_an_address_has_that_of_no_host() -> None:
    """It must not match an ACL for the loopback address."""
    assert decode_address(encode_address("")) == "0.0.0.0"
    assert decode_address(encode_address("host-1")) == "0.0.0.0"
    assert decode_address(encode_address("fe80::1%eth0")) == "fe80::1"


@pytest.mark.parametrize("data", [b"", b"abc", bytes(5), bytes(17)])
def test_other_bytes_are_no_address(data: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        decode_address(data)
