"""One question to a node over a plain blocking socket, for whoever supervises it: no retries, no state.

Who is alive is asked and read by hand, because whoever starts a cluster waits for that answer, and loading all messages
would take longer than the cluster needs to give it.
"""

from __future__ import annotations

import json
import socket
from struct import Struct
from struct import error as StructError  # noqa: N812  an exception
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from insync.sansio import Message

_LENGTH = Struct(">i")
_METADATA = Struct(">hhih")
_METADATA_KEY, _DESCRIBE_CONFIGS_KEY, _VERSION = 3, 32, 1
_BROKER = 4
"""The resource type."""
STATE_KEY = "insync.node.state"
_CLIENT_ID = b"insync-supervisor"
_I16 = Struct(">h")
_I32 = Struct(">i")


class NoAnswer(Exception):  # noqa: N818  says what happened
    """The node is not there, or not yet."""


def ask(address: tuple[str, int], request: Message, timeout_s: float = 3.0) -> Message:
    from insync.wire import codec
    from insync.wire.errors import MalformedFrameError

    answer = _exchange(address, codec.encode_request(request, 1, _CLIENT_ID.decode()), timeout_s)
    try:
        return codec.decode_response(answer, type(request))[1]
    except MalformedFrameError as error:
        raise NoAnswer(str(error)) from error


def live_brokers(address: tuple[str, int], timeout_s: float = 3.0) -> tuple[int, ...]:
    """The ids of the brokers that this node counts as alive: Metadata of no topics."""
    head = _METADATA.pack(_METADATA_KEY, _VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID
    answer = _exchange(address, head + _I32.pack(0), timeout_s)
    try:
        return tuple(sorted(_broker_ids(answer)))
    except StructError as error:
        raise NoAnswer(f"no list of brokers: {error}") from error


def node_state(address: tuple[str, int], node_id: int, timeout_s: float = 3.0) -> dict[str, Any]:
    """What a node says of itself, see `insync.node.node_state`: DescribeConfigs of that one config."""
    name, key = str(node_id).encode(), STATE_KEY.encode()
    head = _METADATA.pack(_DESCRIBE_CONFIGS_KEY, _VERSION, 1, len(_CLIENT_ID)) + _CLIENT_ID
    resource = _I32.pack(1) + bytes((_BROKER,)) + _I16.pack(len(name)) + name
    keys = _I32.pack(1) + _I16.pack(len(key)) + key
    answer = _exchange(address, head + resource + keys + b"\0", timeout_s)
    try:
        return _state_in(answer)
    except (StructError, ValueError, KeyError) as error:
        raise NoAnswer(f"no state of a node: {error!r}") from error


def _state_in(answer: bytes) -> dict[str, Any]:
    """One resource: an error code, its message, a type, a name, and its configs, of which the first is the one."""
    error, pos = _I16.unpack_from(answer, 12)[0], _after_string(answer, 14)
    pos = _after_string(answer, pos + 1)
    if error or _I32.unpack_from(answer, pos)[0] != 1:
        raise NoAnswer(f"no node that says who it is (error code {error})")
    pos = _after_string(answer, pos + 4)
    state: dict[str, Any] = json.loads(answer[pos + 2 : _after_string(answer, pos)])
    if not state.keys() >= {"cluster_id", "node_id", "incarnation_id", "controller_id", "unfenced"}:
        raise NoAnswer("a node of another release")
    return state


def _broker_ids(answer: bytes) -> list[int]:
    """Each is an id, a host, a port and a rack; a correlation id and their count come first."""
    found, pos = [], 8
    for _ in range(_I32.unpack_from(answer, 4)[0]):
        found.append(_I32.unpack_from(answer, pos)[0])
        pos = _after_string(answer, pos + 4)
        pos = _after_string(answer, pos + 4)
    return found


def _after_string(data: bytes, pos: int) -> int:
    return pos + 2 + max(0, int(_I16.unpack_from(data, pos)[0]))


def _exchange(address: tuple[str, int], frame: bytes, timeout_s: float) -> bytes:
    try:
        with socket.create_connection(address, timeout_s) as sock:
            sock.sendall(_LENGTH.pack(len(frame)) + frame)
            (length,) = _LENGTH.unpack(_exactly(sock, 4))
            return _exactly(sock, length)
    except OSError as error:
        raise NoAnswer(str(error)) from error


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise NoAnswer("the connection was closed")
        data += piece
    return bytes(data)
