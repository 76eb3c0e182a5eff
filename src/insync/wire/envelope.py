"""Envelope v0 (KIP-590): a request that a broker forwards to the controller, with the principal and address of its
client.

Kafka's schema and one tagged field more, which Kafka skips: the version of the client's request. Nodes forward in the
version that they speak, whatever the client spoke, and some answers depend on what the client understands.
(No `from __future__ import annotations`: kio reads the field types.)
"""

from kio.schema.errors import ErrorCode
from kio.static.primitive import i16

from insync.wire.schema import kafka, request, response

API_KEY = 58
_CLIENT_VERSION_TAG = 10_000
"""Above those that Kafka is likely to use."""


@request(API_KEY)
class EnvelopeRequest:
    request_data: bytes = kafka("bytes")
    request_principal: bytes | None = kafka("bytes")
    client_host_address: bytes = kafka("bytes")
    client_version: i16 = kafka("int16", tag=_CLIENT_VERSION_TAG, default=i16(-1))


@response(API_KEY)
class EnvelopeResponse:
    response_data: bytes | None = kafka("bytes", default=None)
    error_code: ErrorCode = kafka("error_code")
