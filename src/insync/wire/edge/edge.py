"""Frames of clients in, frames for clients out; see the package."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse

from insync.wire import codec, entities, fast, fast_metadata, fast_requests, frames
from insync.wire.apis import PINNED, SERVED
from insync.wire.edge import translate
from insync.wire.edge.cluster import API_VERSIONS, METADATA
from insync.wire.edge.exchange import Exchange, TopicNames
from insync.wire.edge.records import FETCH, PRODUCE
from insync.wire.errors import ErrorCode, UnknownApi
from insync.wire.fast import Pieces

Versions = tuple[int, int]
"""(lowest, highest)"""

LOWEST_PRODUCE = 3
"""Versions 0 to 2 are advertised, because librdkafka up to 2.11 compresses only for brokers that do, and refused."""

_FAST_REQUESTS = {PRODUCE: fast_requests.produce_request, FETCH: fast_requests.fetch_request}
_FAST_RESPONSES = {
    PRODUCE: fast.produce_response,
    FETCH: fast.fetch_response,
    METADATA: fast_metadata.metadata_response,
}


class Edge:
    """`served`: by API key the versions for clients. Nodes speak the pinned version of an API that is not in it."""

    __slots__ = ("_api_versions", "_names", "_served")

    def __init__(self, names: TopicNames, served: Mapping[int, Versions] = SERVED) -> None:
        self._names = names
        self._served = served
        self._api_versions: dict[int, tuple[Any, bytes]] = {}

    def receive(self, frame: bytes) -> Exchange:
        """A request as the node wants it; MalformedFrame or UnknownApi (W1) if that cannot be."""
        header, pos = codec.read_request_header(frame)
        exchange = Exchange(header)
        if not self._serves(header.api_key, header.api_version):
            if header.api_key == API_VERSIONS:
                return exchange
            raise UnknownApi("API", header.api_key, header.api_version)
        read = _FAST_REQUESTS.get(header.api_key)
        if read is not None:
            request = read(frame, pos, header.api_version, partial(exchange.id_of, self._names))
            if request is not None:
                exchange.asked = exchange.request = request
                return exchange
        cls, pos = codec.request_body(frame, header, pos)
        # Kafka ignores what follows a request, and librdkafka 2.16 has three such bytes when it asks for all topics.
        asked = entities.decode(cls, frame, pos, fills=False)
        translate.upgrade(exchange, asked, codec.pinned_request_type(header.api_key), self._names)
        return exchange

    def answer(self, exchange: Exchange, response: Any) -> Pieces:
        """A whole frame, in pieces that need not be joined, from the node's answer."""
        header = exchange.header
        if exchange.request is None:
            return self._unsupported(header.correlation_id)
        write = _FAST_RESPONSES.get(header.api_key)
        if write is not None and not exchange.refused:
            pieces = write(response, header.api_version, header.correlation_id, partial(exchange.name_of, self._names))
            if pieces is not None:
                return pieces
        if header.api_key == API_VERSIONS:
            return self._cached(exchange, response)
        return frames.framed(translate.encode(response, exchange, self._names))

    def downgrade(self, exchange: Exchange, response: Any) -> Any:
        """The node's answer in the version of the client's request."""
        return translate.downgrade(response, exchange, self._names)

    def _serves(self, key: int, version: int) -> bool:
        if key in self._served:
            low, high = self._served[key]
            return low <= version <= high and not (key == PRODUCE and version < LOWEST_PRODUCE)
        return version == PINNED.get(key)

    def _cached(self, exchange: Exchange, response: Any) -> Pieces:
        """Every connection begins with ApiVersions, and hears what the last one of its version heard."""
        version = exchange.header.api_version
        last, body = self._api_versions.get(version, (None, b""))
        if response is not last and response != last:
            body = codec.encode_body(self.downgrade(exchange, response))
            self._api_versions[version] = (response, body)
        return frames.framed(exchange.header.correlation_id.to_bytes(4, "big", signed=True) + body)

    def _unsupported(self, correlation_id: int) -> Pieces:
        """W1: in version 0, which every client reads, with the range to choose from."""
        low, high = self._served[API_VERSIONS]
        line = ApiVersion(api_key=API_VERSIONS, min_version=low, max_version=high)
        told = ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=(line,))
        return frames.framed(codec.encode_response(told, correlation_id))
