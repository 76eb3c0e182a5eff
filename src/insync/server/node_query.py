"""One request to a node over a blocking socket, for its supervisor: no retries, no state.

`query_live_brokers` and `query_node_state` encode their requests by hand: the start of a cluster waits for the answer,
and importing all messages would take longer than the cluster needs to start.
"""

from __future__ import annotations

import json
import socket
from struct import Struct
from struct import error as StructError  # noqa: N812  an exception
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    from insync.sansio import Message

_LENGTH = Struct(">i")
_METADATA = Struct(">hhih")
_METADATA_KEY, _DESCRIBE_CONFIGS_KEY, _VERSION = 3, 32, 1
_BROKER = 4
"""The resource type."""
STATE_KEY = "insync.node.state"
CLIENT_ID = "insync-supervisor"
_CLIENT_ID = CLIENT_ID.encode()
_I16 = Struct(">h")
_I32 = Struct(">i")


class NoAnswerError(Exception):
    """The node cannot be reached, or did not answer as expected."""


def send_request(
    address: tuple[str, int], request: Message, timeout_s: float = 3.0, tls: ssl.SSLContext | None = None
) -> Message:
    from insync.wire import codec
    from insync.wire.errors import MalformedFrameError

    answer = _send_frame(address, codec.encode_request(request, 1, CLIENT_ID), timeout_s, tls)
    try:
        return codec.decode_response(answer, type(request))[1]
    except MalformedFrameError as error:
        raise NoAnswerError(str(error)) from error


def query_live_brokers(address: tuple[str, int], timeout_s: float = 3.0) -> tuple[int, ...]:
    """The ids of the brokers that this node knows as alive, from Metadata without topics."""
    head = _METADATA.pack(_METADATA_KEY, _VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID
    answer = _send_frame(address, head + _I32.pack(0), timeout_s)
    try:
        return tuple(sorted(_read_broker_ids(answer)))
    except StructError as error:
        raise NoAnswerError(f"the answer is not a Metadata response: {error}") from error


def query_node_state(
    address: tuple[str, int], node_id: int, timeout_s: float = 3.0, tls: ssl.SSLContext | None = None
) -> dict[str, Any]:
    """The state that DescribeConfigs gives as that one config (`insync.node.apis.describe_configs`)."""
    name, key = str(node_id).encode(), STATE_KEY.encode()
    head = _METADATA.pack(_DESCRIBE_CONFIGS_KEY, _VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID
    resource = _I32.pack(1) + bytes((_BROKER,)) + _I16.pack(len(name)) + name
    keys = _I32.pack(1) + _I16.pack(len(key)) + key
    answer = _send_frame(address, head + resource + keys + b"\0", timeout_s, tls)
    try:
        return _read_state(answer)
    except (StructError, ValueError, KeyError) as error:
        raise NoAnswerError(f"the answer does not contain the state of a node: {error!r}") from error


def _read_state(answer: bytes) -> dict[str, Any]:
    """Reads one resource: an error code, its message, a type, a name, and its only config."""
    error, pos = _I16.unpack_from(answer, 12)[0], _after_string(answer, 14)
    pos = _after_string(answer, pos + 1)
    if error or _I32.unpack_from(answer, pos)[0] != 1:
        raise NoAnswerError(f"the node does not report its state (error code {error})")
    pos = _after_string(answer, pos + 4)
    state: dict[str, Any] = json.loads(answer[pos + 2 : _after_string(answer, pos)])
    if not state.keys() >= {"cluster_id", "node_id", "incarnation_id", "controller_id", "unfenced"}:
        raise NoAnswerError("the state lacks fields: the node runs another release")
    return state


def _read_broker_ids(answer: bytes) -> list[int]:
    """Reads a correlation id, the number of brokers, and for each an id, a host, a port and a rack."""
    ids, pos = [], 8
    for _ in range(_I32.unpack_from(answer, 4)[0]):
        ids.append(_I32.unpack_from(answer, pos)[0])
        pos = _after_string(answer, pos + 4)
        pos = _after_string(answer, pos + 4)
    return ids


def _after_string(data: bytes, pos: int) -> int:
    return pos + 2 + max(0, int(_I16.unpack_from(data, pos)[0]))


def _send_frame(address: tuple[str, int], frame: bytes, timeout_s: float, tls: ssl.SSLContext | None = None) -> bytes:
    try:
        with _connect(address, timeout_s, tls) as sock:
            sock.sendall(_LENGTH.pack(len(frame)) + frame)
            (length,) = _LENGTH.unpack(_read_exactly(sock, 4))
            return _read_exactly(sock, length)
    except OSError as error:
        raise NoAnswerError(str(error)) from error


def _connect(address: tuple[str, int], timeout_s: float, tls: ssl.SSLContext | None) -> socket.socket:
    sock = socket.create_connection(address, timeout_s)
    if tls is None:
        return sock
    try:
        return tls.wrap_socket(sock, server_hostname=address[0])
    except OSError:
        sock.close()
        raise


def _read_exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise NoAnswerError("the connection was closed")
        data += chunk
    return bytes(data)
