"""Encodes requests and responses to frames and decodes them: a header, then the body in the version of its class.

A frame here is the content between two length prefixes of a connection. A request has its API key and version; a
response has only the correlation id, so its reader must know the request. Headers are encoded without a schema: they
are the same few bytes on every frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from struct import Struct
from typing import Any

from kio.index import UnknownAPIKey, UnknownEntity, load_request_schema, load_response_schema

from insync.wire import entities, envelope, get_replica_log_info
from insync.wire.apis import PINNED
from insync.wire.errors import MalformedFrameError, UnknownApiError
from insync.wire.varint import read_uvarint

_REQUEST = Struct(">hhih")
_I32 = Struct(">i")

MAX_HEADER_TAGS = 100
"""Kafka's headers have none so far."""

_OWN_REQUESTS = {
    (envelope.API_KEY, 0): envelope.EnvelopeRequest,
    (get_replica_log_info.API_KEY, 0): get_replica_log_info.GetReplicaLogInfoRequest,
}
_OWN_RESPONSES = {
    (envelope.API_KEY, 0): envelope.EnvelopeResponse,
    (get_replica_log_info.API_KEY, 0): get_replica_log_info.GetReplicaLogInfoResponse,
}


@dataclass(slots=True)
class RequestHeader:
    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


@cache
def request_type(api_key: int, version: int) -> Any:
    """The class of a request; UnknownApiError if there is no schema for it."""
    return _schema(_OWN_REQUESTS, load_request_schema, api_key, version)


@cache
def pinned_request_type(api_key: int) -> Any | None:
    """The class of a request in the version that nodes speak; None if nodes do not serve the API."""
    version = PINNED.get(api_key)
    return None if version is None else request_type(api_key, version)


@cache
def response_type(api_key: int, version: int) -> Any:
    """The class of a response; UnknownApiError if there is no schema for it."""
    return _schema(_OWN_RESPONSES, load_response_schema, api_key, version)


def response_type_of(request: Any) -> Any:
    """The class of the response to a request, or to a class of requests."""
    return response_type(request.__api_key__, request.__version__)


def encode_request(msg: Any, correlation_id: int, client_id: str | None) -> bytes:
    name = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(name)
    head = _REQUEST.pack(msg.__api_key__, msg.__version__, correlation_id, length) + name
    return head + (b"\x00" if msg.__header_schema__.__flexible__ else b"") + entities.encode(msg)


def read_request_header(frame: bytes) -> tuple[RequestHeader, int]:
    """The part of the header that every version has, and the position after it.

    Enough to answer an unknown version of ApiVersions.
    """
    if len(frame) < _REQUEST.size:
        raise MalformedFrameError(f"request of {len(frame)} bytes is shorter than its header")
    api_key, version, correlation_id, length = _REQUEST.unpack_from(frame)
    if length < 0:
        return RequestHeader(api_key, version, correlation_id, None), _REQUEST.size
    end = _REQUEST.size + length
    if end > len(frame):
        raise MalformedFrameError("client id reaches past the end of the request")
    # For logs and quotas only: a bad name is no reason to refuse the request.
    client_id = bytes(frame[_REQUEST.size : end]).decode(errors="replace")
    return RequestHeader(api_key, version, correlation_id, client_id), end


def decode_request(frame: bytes) -> tuple[RequestHeader, Any]:
    """MalformedFrameError if the bytes do not follow the schema, UnknownApiError if there is none."""
    header, pos = read_request_header(frame)
    cls, pos = request_body(frame, header, pos)
    return header, entities.decode(cls, frame, pos)


def request_body(frame: bytes, header: RequestHeader, pos: int) -> tuple[Any, int]:
    """The class of a request's body, and its position: after the header fields that only some versions have."""
    cls = request_type(header.api_key, header.api_version)
    return cls, _skip_tags(frame, pos) if cls.__header_schema__.__flexible__ else pos


def encode_response(msg: Any, correlation_id: int, target: Any = None) -> bytes:
    """In the version of the class `target`, by default the message's own."""
    cls = target or type(msg)
    head = _I32.pack(correlation_id)
    return head + (b"\x00" if cls.__header_schema__.__flexible__ else b"") + entities.encode(msg, cls)


def read_correlation_id(frame: bytes | memoryview) -> int:
    if len(frame) < 4:
        raise MalformedFrameError(f"response of {len(frame)} bytes is shorter than its header")
    correlation_id: int = _I32.unpack_from(frame)[0]
    return correlation_id


def decode_response(frame: bytes, request_type: Any) -> tuple[int, Any]:
    """(correlation id, response) for a request of the class `request_type`."""
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
    """The caller checks that the position is inside the frame."""
    try:
        count, pos = read_uvarint(frame, pos)
        if count > MAX_HEADER_TAGS:
            raise MalformedFrameError(f"header with {count} tags")
        for _ in range(count):
            _, pos = read_uvarint(frame, pos)
            length, pos = read_uvarint(frame, pos)
            pos += length
    except IndexError as error:
        raise MalformedFrameError("header tags are cut off") from error
    return pos
