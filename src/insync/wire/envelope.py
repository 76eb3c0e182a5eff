"""Envelope v0 (KIP-590): a request that a broker forwards to the controller, with the principal and address of its
client.

Kafka's schema and one tagged field more, which Kafka skips: the version of the client's request. Nodes forward in the
version that they speak, whatever the client spoke, and some answers depend on what the client understands.
(No `from __future__ import annotations`: kio reads the field types.)
"""

from dataclasses import dataclass, field
from typing import ClassVar

from kio.schema.errors import ErrorCode
from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType
from kio.static.primitive import i16

API_KEY = 58
_CLIENT_VERSION_TAG = 10_000
"""Above those that Kafka is likely to use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeRequest:
    __type__: ClassVar = EntityType.request
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(API_KEY)
    __header_schema__: ClassVar[type[RequestHeader]] = RequestHeader
    request_data: bytes = field(metadata={"kafka_type": "bytes"})
    request_principal: bytes | None = field(metadata={"kafka_type": "bytes"})
    client_host_address: bytes = field(metadata={"kafka_type": "bytes"})
    client_version: i16 = field(metadata={"kafka_type": "int16", "tag": _CLIENT_VERSION_TAG}, default=i16(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvelopeResponse:
    __type__: ClassVar = EntityType.response
    __version__: ClassVar[i16] = i16(0)
    __flexible__: ClassVar[bool] = True
    __api_key__: ClassVar[i16] = i16(API_KEY)
    __header_schema__: ClassVar[type[ResponseHeader]] = ResponseHeader
    response_data: bytes | None = field(metadata={"kafka_type": "bytes"}, default=None)
    error_code: ErrorCode = field(metadata={"kafka_type": "error_code"})
