"""One question to a node over a plain blocking socket, for whoever supervises it: no retries, no state."""

from __future__ import annotations

import socket
from struct import Struct

from insync.sansio import Message
from insync.wire import codec
from insync.wire.errors import MalformedFrame
from insync.wire.messages import metadata

_LENGTH = Struct(">i")


class NoAnswer(Exception):  # noqa: N818  says what happened
    """The node is not there, or not yet."""


def ask(address: tuple[str, int], request: Message, timeout_s: float = 3.0) -> Message:
    frame = codec.encode_request(request, 1, "insync-supervisor")
    try:
        with socket.create_connection(address, timeout_s) as sock:
            sock.sendall(_LENGTH.pack(len(frame)) + frame)
            (length,) = _LENGTH.unpack(_exactly(sock, 4))
            return codec.decode_response(_exactly(sock, length), type(request))[1]
    except (OSError, MalformedFrame) as error:
        raise NoAnswer(str(error)) from error


def live_brokers(address: tuple[str, int]) -> tuple[int, ...]:
    """The ids of the brokers that this node counts as alive."""
    request = metadata.MetadataRequest(
        topics=(), allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )
    return tuple(sorted(broker.node_id for broker in ask(address, request).brokers))


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise NoAnswer("the connection was closed")
        data += piece
    return bytes(data)
