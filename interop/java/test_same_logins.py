"""What happens before a client is logged in, step by step: Apache Kafka and insync answer the same, or close.

Texts are compared too: clients show them.
"""

from __future__ import annotations

import re
import socket
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct
from typing import Any

import pytest

from insync.client import request_builder
from insync.client.scram import HASHES, Scram
from insync.wire import codec
from interop.java.authorization_matrix import ADMIN, CLOSED, password_of
from interop.java.node_processes import HOST, START_TIMEOUT_S, Node
from tests.polling import wait_until

METADATA, HANDSHAKE, API_VERSIONS, AUTHENTICATE = 3, 17, 18, 36
TIMEOUT_S = 20.0
_LENGTH = Struct(">i")


@dataclass(frozen=True, slots=True)
class Step:
    key: int
    version: int
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Raw:
    """A frame without a header: how tokens are sent after version 0 of SaslHandshake, and what is no request."""

    data: bytes


def handshake(mechanism: str = "PLAIN", version: int = 1) -> Step:
    return Step(HANDSHAKE, version, {"mechanism": mechanism})


def token(data: bytes, version: int = 2) -> Step:
    return Step(AUTHENTICATE, version, {"auth_bytes": data})


def plain(user: str, password: str, authorization_id: str = "") -> bytes:
    return f"{authorization_id}\0{user}\0{password}".encode()


versions = Step(API_VERSIONS, 3, {"client_software_name": "test", "client_software_version": "1"})
metadata = Step(METADATA, 13, {"topics": (), "include_topic_authorized_operations": False})
right = token(plain(ADMIN, password_of(ADMIN)))
_CLIENT_FIRST = b"n,,n=admin,r=nonce"

CONVERSATIONS: dict[str, tuple[Step | Raw, ...]] = {
    "log in": (versions, handshake(), right, metadata),
    "log in without ApiVersions": (handshake(), right, metadata),
    "oldest SaslAuthenticate": (handshake(), token(plain(ADMIN, password_of(ADMIN)), 0), metadata),
    "a request first": (metadata,),
    "a request after ApiVersions": (versions, metadata),
    "a request after the handshake": (handshake(), metadata),
    "ApiVersions twice": (versions, versions, handshake(), right, metadata),
    "ApiVersions after the handshake": (handshake(), versions, right, metadata),
    "ApiVersions after the login": (handshake(), right, versions, metadata),
    "authenticate without a handshake": (right, metadata),
    "authenticate after ApiVersions": (versions, right, metadata),
    "handshake twice": (handshake(), handshake(), right, metadata),
    "handshake after the login": (handshake(), right, handshake(), metadata),
    "authenticate after the login": (handshake(), right, right, metadata),
    "unknown mechanism": (handshake("GSSAPI"), handshake(), right, metadata),
    "mechanism in small letters": (handshake("plain"), right, metadata),
    "disabled mechanism": (handshake("SCRAM-SHA-512"), right, metadata),
    "empty mechanism": (handshake(""), metadata),
    "wrong password": (handshake(), token(plain(ADMIN, "guessed")), metadata),
    "wrong password, then right": (handshake(), token(plain(ADMIN, "guessed")), right, metadata),
    "unknown user": (handshake(), token(plain("mallory", "guessed")), metadata),
    "no password": (handshake(), token(plain(ADMIN, "")), metadata),
    "no user": (handshake(), token(plain("", "guessed")), metadata),
    "own authorization id": (handshake(), token(plain(ADMIN, password_of(ADMIN), ADMIN)), metadata),
    "another authorization id": (handshake(), token(plain(ADMIN, password_of(ADMIN), "alice")), metadata),
    "empty token": (handshake(), token(b""), metadata),
    "too few parts": (handshake(), token(b"\0admin"), metadata),
    "too many parts": (handshake(), token(b"\0admin\0a\0b"), metadata),
    "not UTF-8": (handshake(), token(b"\0\xff\xfe\0\xff"), metadata),
    "SCRAM: empty": (handshake("SCRAM-SHA-256"), token(b""), metadata),
    "SCRAM: no message": (handshake("SCRAM-SHA-256"), token(b"hello"), metadata),
    "SCRAM: channel binding": (handshake("SCRAM-SHA-256"), token(b"p=tls-unique,,n=admin,r=nonce"), metadata),
    "SCRAM: mandatory extension": (handshake("SCRAM-SHA-256"), token(b"n,,m=ext,n=admin,r=nonce"), metadata),
    "SCRAM: another authorization id": (handshake("SCRAM-SHA-256"), token(b"n,a=bob,n=admin,r=nonce"), metadata),
    "SCRAM: no proof": (handshake("SCRAM-SHA-256"), token(_CLIENT_FIRST), token(b"c=biws,r=nonce"), metadata),
    "SCRAM: nonce of another": (
        handshake("SCRAM-SHA-256"), token(_CLIENT_FIRST), token(b"c=biws,r=other,p=" + b64encode(b"x" * 32)), metadata,
    ),
    "SCRAM: a request in between": (handshake("SCRAM-SHA-256"), token(_CLIENT_FIRST), metadata),
    "no request at all": (Raw(b"GET / HTTP/1.1\r\n\r\n"),),
    "an empty frame": (Raw(b""),),
    "an unknown API": (Raw(b"\x7f\xff\0\0\0\0\0\1\xff\xff"),),
    "ApiVersions of the future": (Raw(b"\0\x12\0\x63\0\0\0\1\xff\xff\0"),),
    "handshake of the future": (Raw(b"\0\x11\0\x63\0\0\0\1\xff\xff\0\5PLAIN"), metadata),
    "authenticate of the future": (handshake(), Raw(b"\0\x24\0\x63\0\0\0\1\xff\xff\0\1\0"), metadata),
    "tokens without a header": (handshake(version=0), Raw(plain(ADMIN, password_of(ADMIN))), metadata),
    "tokens without a header, wrong": (handshake(version=0), Raw(plain(ADMIN, "guessed")), metadata),
}  # fmt: skip
"""By name: what is sent on a new connection, one step after the other."""

_CLOSED = "a request in the middle of a login ends the connection; Apache answers it with ILLEGAL_SASL_STATE"
DELIBERATE: dict[str, str] = {
    "a request after the handshake": _CLOSED,
    "ApiVersions after the handshake": _CLOSED,
    "SCRAM: a request in between": _CLOSED,
    "ApiVersions twice": "it may be asked again before the handshake; Apache closes the connection",
    "handshake twice": "the answer lists the mechanisms, as every answer to a handshake does",
    "not UTF-8": "the text says so; to Apache it is a wrong password",
    "SCRAM: mandatory extension": "RFC 5802 wants it to fail; Apache ignores the extension",
    "SCRAM: another authorization id": "the text is that of every failed login by SCRAM",
}
"""By the name of a conversation: why insync answers otherwise."""


@pytest.fixture(scope="module")
def pair(secured_pair: dict[str, Node]) -> dict[str, Node]:
    """When both know the users of SCRAM."""
    for node in secured_pair.values():
        wait_until(
            lambda node=node: run_scram(node, ADMIN, password_of(ADMIN))[0]["error_code"] == "none",  # type: ignore[misc]
            "the admin can log in",
            timeout_s=START_TIMEOUT_S,
        )
    return secured_pair


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_a_conversation_goes_as_with_apache(pair: dict[str, Node], name: str) -> None:
    answers = {server: converse(node, CONVERSATIONS[name]) for server, node in pair.items()}
    if name in DELIBERATE:
        assert answers["insync"] != answers["kafka"], "no longer a difference"
    else:
        assert answers["insync"] == answers["kafka"]


@pytest.mark.parametrize("password", [password_of(ADMIN), "guessed"])
@pytest.mark.parametrize("user", [ADMIN, "mallory"])
def test_scram_ends_as_with_apache(pair: dict[str, Node], user: str, password: str) -> None:
    """Apache refuses an unknown user at its first message, insync at the last one: it does not tell which users there
    are."""
    ends = {server: run_scram(node, user, password) for server, node in pair.items()}
    assert ends["insync"] == ends["kafka"]


def converse(node: Node, steps: tuple[Step | Raw, ...]) -> list[Any]:
    answers: list[Any] = []
    with socket.create_connection((HOST, node.ports[0]), TIMEOUT_S) as sock:
        for step in steps:
            answer = exchange(sock, step)
            answers.append(without_secrets(answer))
            if answer == CLOSED:
                break
    return answers


def run_scram(node: Node, user: str, password: str) -> list[Any]:
    """The last answer of the login, and the one to the next request."""
    scram = Scram(HASHES["SCRAM-SHA-256"], user, password, "nonce")
    with socket.create_connection((HOST, node.ports[0]), TIMEOUT_S) as sock:
        exchange(sock, handshake("SCRAM-SHA-256"))
        answer = exchange(sock, token(scram.first()))
        if answer["error_code"] == "none":
            answer = exchange(sock, token(scram.answer(answer["auth_bytes"]) or b""))
        signature = answer.pop("auth_bytes")
        if answer["error_code"] == "none":
            assert scram.answer(signature) is None, "the server has not proved that it knows the password"
        return [answer, exchange(sock, metadata)]


def exchange(sock: socket.socket, step: Step | Raw) -> Any:
    """The answer as plain data; to a raw frame, the correlation id and the error code."""
    try:
        if isinstance(step, Raw):
            sock.sendall(_LENGTH.pack(len(step.data)) + step.data)
            return read_frame(sock)[:6]
        request = request_builder.build_request(codec.request_type(step.key, step.version), step.body)
        frame = codec.encode_request(request, 7, "test")
        sock.sendall(_LENGTH.pack(len(frame)) + frame)
        answer = codec.decode_response(read_frame(sock), type(request))[1]
    except (EOFError, ConnectionError):
        return CLOSED
    if step.key in (METADATA, API_VERSIONS):
        return f"answered with {answer.error_code.name}"
    compared = ("error_code", "error_message", "auth_bytes", "mechanisms", "session_lifetime")
    fields = {name: getattr(answer, name) for name in compared if hasattr(answer, name)}
    if "error_message" in fields:
        fields["error_message"] = fields["error_message"] or None  # no text is null or empty
    return {**fields, "error_code": answer.error_code.name}


def without_secrets(answer: Any) -> Any:
    """Without a server's nonce and salt."""
    if not isinstance(answer, dict) or "auth_bytes" not in answer:
        return answer
    return {**answer, "auth_bytes": re.sub(rb"([rs])=[^,]*", rb"\1=", answer["auth_bytes"])}


def read_frame(sock: socket.socket) -> bytes:
    return read_exactly(sock, _LENGTH.unpack(read_exactly(sock, 4))[0])


def read_exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return data
