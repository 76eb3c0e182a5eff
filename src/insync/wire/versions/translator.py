"""Frames of clients to requests of the nodes' version, and responses back to frames; see the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kio.schema.api_versions.v0.response import ApiVersion, ApiVersionsResponse

from insync.wire import (
    codec,
    entities,
    frames,
    handwritten_broker,
    handwritten_metadata,
)
from insync.wire.apis import API_VERSIONS, APIS, PINNED, PRODUCE, SERVED
from insync.wire.convert import convert
from insync.wire.errors import ErrorCode, UnknownApiError
from insync.wire.handwritten_broker import Pieces
from insync.wire.versions import cluster, groups, records
from insync.wire.versions.context import RequestContext, TopicNames

Versions = tuple[int, int]
"""(lowest, highest)"""

LOWEST_PRODUCE = 3
"""W3: versions 0 to 2 are advertised, since librdkafka up to 2.11 compresses only for brokers that do, and refused."""

Upgrade = Callable[[Any, Any, RequestContext, TopicNames], Any]
"""(client's request, the nodes' class of request, ...) -> the nodes' request"""

Downgrade = Callable[[Any, Any, RequestContext, TopicNames], Any]
"""(the node's response, the client's class of response, ...) -> the client's response"""


def _by_key(table: dict[str, Any]) -> dict[int, Any]:
    return {APIS[name].key: function for name, function in table.items()}


_UPGRADES: dict[int, Upgrade] = _by_key(
    {
        "produce": records.upgrade_produce,
        "fetch": records.upgrade_fetch,
        "metadata": cluster.upgrade_metadata,
        "delete_topics": cluster.upgrade_delete_topics,
        "update_features": cluster.upgrade_update_features,
        "offset_commit": groups.upgrade_offset_commit,
        "offset_fetch": groups.upgrade_offset_fetch,
        "find_coordinator": groups.upgrade_find_coordinator,
        "join_group": groups.upgrade_join_group,
        "leave_group": groups.upgrade_leave_group,
    }
)
_DOWNGRADES: dict[int, Downgrade] = _by_key(
    {
        "produce": records.downgrade_produce,
        "fetch": records.downgrade_fetch,
        "list_offsets": cluster.downgrade_list_offsets,
        "metadata": cluster.downgrade_metadata,
        "api_versions": cluster.downgrade_api_versions,
        "init_producer_id": cluster.downgrade_init_producer_id,
        "update_features": cluster.downgrade_update_features,
        "offset_fetch": groups.downgrade_offset_fetch,
        "find_coordinator": groups.downgrade_find_coordinator,
        "leave_group": groups.downgrade_leave_group,
    }
)
_HANDWRITTEN_REQUESTS = _by_key(
    {"produce": handwritten_broker.decode_produce, "fetch": handwritten_broker.decode_fetch}
)
_HANDWRITTEN_RESPONSES = _by_key(
    {
        "produce": handwritten_broker.encode_produce,
        "fetch": handwritten_broker.encode_fetch,
        "metadata": handwritten_metadata.encode_metadata,
    }
)


class VersionTranslator:
    """`served`: by API key the versions for clients. Nodes speak the pinned version of an API that is not in it."""

    __slots__ = ("_api_versions", "_names", "_served")

    def __init__(self, names: TopicNames, served: Mapping[int, Versions] = SERVED) -> None:
        self._names = names
        self._served = served
        self._api_versions: dict[int, tuple[Any, bytes]] = {}

    def receive(self, frame: bytes) -> RequestContext:
        """The request in the nodes' version; MalformedFrameError or UnknownApiError (W1) if it has none."""
        header, pos = codec.read_request_header(frame)
        context = RequestContext(header)
        if not self._serves(header.api_key, header.api_version):
            if header.api_key == API_VERSIONS:
                return context
            raise UnknownApiError("API", header.api_key, header.api_version)
        decode = _HANDWRITTEN_REQUESTS.get(header.api_key)
        if decode is not None:
            request = decode(frame, pos, header.api_version, partial(context.id_of, self._names))
            if request is not None:
                context.client_request = context.request = request
                return context
        cls, pos = codec.request_body(frame, header, pos)
        # Kafka ignores what follows a request; librdkafka 2.16 sends three more bytes when it asks for all topics (W4).
        client_request = entities.decode(cls, frame, pos, fills=False)
        upgrade(context, client_request, codec.pinned_request_type(header.api_key), self._names)
        return context

    def encode_response(self, context: RequestContext, response: Any) -> Pieces:
        """A whole frame, in pieces that need not be joined, from the node's response."""
        header = context.header
        if context.request is None:
            return self._encode_unsupported(header.correlation_id)
        encode = _HANDWRITTEN_RESPONSES.get(header.api_key)
        if encode is not None and not context.refused:
            pieces: Pieces | None = encode(
                response, header.api_version, header.correlation_id, partial(context.name_of, self._names)
            )
            if pieces is not None:
                return pieces
        if header.api_key == API_VERSIONS:
            return self._encode_api_versions(context, response)
        return frames.framed(encode_downgraded(response, context, self._names))

    def downgrade(self, context: RequestContext, response: Any) -> Any:
        """The node's response in the version of the client's request."""
        target = codec.response_type(context.header.api_key, context.header.api_version)
        return convert(_translate(response, target, context, self._names), target)

    def _serves(self, key: int, version: int) -> bool:
        if key in self._served:
            low, high = self._served[key]
            return low <= version <= high and not (key == PRODUCE and version < LOWEST_PRODUCE)
        return version == PINNED.get(key)

    def _encode_api_versions(self, context: RequestContext, response: Any) -> Pieces:
        """Every connection begins with ApiVersions, and the response rarely changes: its bytes are cached."""
        version = context.header.api_version
        last, body = self._api_versions.get(version, (None, b""))
        if response is not last and response != last:
            body = entities.encode(self.downgrade(context, response))
            self._api_versions[version] = (response, body)
        return frames.framed(context.header.correlation_id.to_bytes(4, "big", signed=True) + body)

    def _encode_unsupported(self, correlation_id: int) -> Pieces:
        """W1: in version 0, which every client reads, with the range to choose from."""
        low, high = self._served[API_VERSIONS]
        line = ApiVersion(api_key=API_VERSIONS, min_version=low, max_version=high)
        response = ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=(line,))
        return frames.framed(codec.encode_response(response, correlation_id))


def upgrade(context: RequestContext, client_request: Any, pinned: Any, names: TopicNames) -> None:
    """Set the context's `request`, of the class `pinned` that the node takes."""
    context.client_request = context.request = client_request
    if type(client_request) is not pinned:
        special = _UPGRADES.get(client_request.__api_key__)
        if special is None:
            context.request = convert(client_request, pinned)
        else:
            context.request = special(client_request, pinned, context, names)


def encode_downgraded(response: Any, context: RequestContext, names: TopicNames) -> bytes:
    """The content of a frame: the node's response in the version of the client's request."""
    target = codec.response_type(context.header.api_key, context.header.api_version)
    translated = _translate(response, target, context, names)
    return codec.encode_response(translated, context.header.correlation_id, target)


def _translate(response: Any, target: Any, context: RequestContext, names: TopicNames) -> Any:
    """The response with the meaning of the client's version. Added and removed fields are left to the encoder."""
    special = None if type(response) is target else _DOWNGRADES.get(response.__api_key__)
    return special(response, target, context, names) if special else response
