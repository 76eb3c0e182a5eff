"""Requests and responses to frames and back: a header, then the body in the version that the message's class carries.

A frame here is what lies between two length prefixes of a connection. A request names its API key and version; a
response names only the correlation id, so its reader must remember what was asked. Headers are read and written by
hand: they are the same few bytes on every frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any

from kio.index import UnknownAPIKey, UnknownEntity, load_request_schema, load_response_schema

from insync.wire import entities, get_replica_log_info
from insync.wire.apis import PINNED
from insync.wire.errors import MalformedFrameError, UnknownApiError
from insync.wire.varint import read_uvarint
from insync.wire.writer import encode_as

_REQUEST = Struct(">hhih")
_I32 = Struct(">i")

MAX_HEADER_TAGS = 100
"""No header has any yet."""

_OWN_REQUESTS = {(get_replica_log_info.API_KEY, 0): get_replica_log_info.GetReplicaLogInfoRequest}
_OWN_RESPONSES = {(get_replica_log_info.API_KEY, 0): get_replica_log_info.GetReplicaLogInfoResponse}


@dataclass(slots=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@cache
def request_type(api_key: int, version: int) -> Any:
    """The class of a request; UnknownApiError if there is none."""
    return _schema(_OWN_REQUESTS, load_request_schema, api_key, version)


@cache
def pinned_request_type(api_key: int) -> Any | None:
    """The class of a request in the version that nodes speak; None if nodes do not serve the API."""
    version = PINNED.get(api_key)
    return None if version is None else request_type(api_key, version)


@cache
def response_type(api_key: int, version: int) -> Any:
    """The class of the answer to a request; UnknownApiError if there is none."""
    return _schema(_OWN_RESPONSES, load_response_schema, api_key, version)


def response_type_of(request: Any) -> Any:
    """The class of the answer to a request or to a class of requests."""
    return response_type(request.__api_key__, request.__version__)


def encode_request(msg: Any, correlation_id: int, client_id: str | None) -> bytes:
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    head = _REQUEST.pack(msg.__api_key__, msg.__version__, correlation_id, length) + name
    return head + (b"\x00" if msg.__header_schema__.__flexible__ else b"") + entities.encode(msg)


def read_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """The header's part that every version has, and the position after it.

    Enough to answer a version that is not known, as ApiVersions must.
    """
    if len(frame) < _REQUEST.size:
        raise MalformedFrameError(f"a request of {len(frame)} bytes")
    api_key, version, correlation_id, length = _REQUEST.unpack_from(frame)
    if length < 0:
        return RequestHeader(api_key, version, correlation_id, None), _REQUEST.size
    end = _REQUEST.size + length
    if end > len(frame):
        raise MalformedFrameError("a client id reaches past the end")
    # A name for logs and quotas: not worth losing a request over.
    client_id = bytes(frame[_REQUEST.size : end]).decode(errors="replace")
    return RequestHeader(api_key, version, correlation_id, client_id), end


def decode_request(frame: bytes) -> tuple[RequestHeader, Any]:
    """MalformedFrameError if the bytes do not follow the schema, UnknownApiError if there is none."""
    header, pos = read_request_header(frame)
    cls, pos = request_body(frame, header, pos)
    return header, entities.decode(cls, frame, pos)


def request_body(frame: bytes, header: RequestHeader, pos: int) -> tuple[Any, int]:
    """The class of a request's body, and where it begins: after what only some versions have in their headers."""
    cls = request_type(header.api_key, header.api_version)
    return cls, _skip_tags(frame, pos) if cls.__header_schema__.__flexible__ else pos


def encode_response(msg: Any, correlation_id: int, target: Any = None) -> bytes:
    """In the version of class `target`, by default the message's own."""
    cls = target or type(msg)
    head = _I32.pack(correlation_id)
    return head + (b"\x00" if cls.__header_schema__.__flexible__ else b"") + encode_as(msg, cls)


def read_correlation_id(frame: bytes) -> int:
    if len(frame) < 4:
        raise MalformedFrameError(f"a response of {len(frame)} bytes")
    correlation_id: int = _I32.unpack_from(frame)[0]
    return correlation_id


def decode_response(frame: bytes, request_type: Any) -> tuple[int, Any]:
    """(correlation id, response) of the answer to a request of class `request_type`."""
    correlation_id = read_correlation_id(frame)
    cls = response_type_of(request_type)
    pos = _skip_tags(frame, 4) if cls.__header_schema__.__flexible__ else 4
    return correlation_id, entities.decode(cls, frame, pos)


def _schema(own: Any, load: Any, api_key: int, version: int) -> Any:
    if (api_key, version) in own:
        return own[api_key, version]
    try:
        return load(api_key, version)
    except (UnknownAPIKey, UnknownEntity) as error:
        raise UnknownApiError("API", api_key, version) from error


def _skip_tags(frame: bytes, pos: int) -> int:
    """Headers have no tagged fields yet; what follows checks that the position is inside the frame."""
    try:
        count, pos = read_uvarint(frame, pos)
        if count > MAX_HEADER_TAGS:
            raise MalformedFrameError(f"a header with {count} tags")
        for _ in range(count):
            _, pos = read_uvarint(frame, pos)
            length, pos = read_uvarint(frame, pos)
            pos += length
    except IndexError as error:
        raise MalformedFrameError("a header's tags are cut off") from error
    return pos
