"""Envelope: a request that a broker forwards to the active controller. Between nodes only."""

from __future__ import annotations

from insync.node.controller_apis import FORWARDED
from insync.node.node_view import NodeView
from insync.sansio import Message, Request
from insync.wire import codec
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode, MalformedFrameError
from insync.wire.messages import envelope as api

_DESCRIBE_QUORUM = APIS["describe_quorum"].key


def handle(node: NodeView, event: Request, now: int) -> None:
    request: api.EnvelopeRequest = event.request
    role = node.controller_role
    if role is None or not role.active:
        _refuse(node, event.token, ErrorCode.not_controller)
        return
    inner = _unwrap(request)
    key = -1 if inner is None else inner.__api_key__
    if key == _DESCRIBE_QUORUM:  # the quorum answers; there is nothing to decide
        described = codec.encode_response(node.quorum.describe(now), 0)
        node.out.reply(event.token, api.EnvelopeResponse(response_data=described, error_code=ErrorCode.none))
        return
    controller_api = FORWARDED.get(key)
    if controller_api is None:
        _refuse(node, event.token, ErrorCode.invalid_request)
        return

    def when_committed(error: ErrorCode | None, response: Message | None) -> None:
        if error is None:
            data = codec.encode_response(response, 0)
            node.out.reply(event.token, api.EnvelopeResponse(response_data=data, error_code=ErrorCode.none))
        else:  # the broker asks the next controller
            _refuse(node, event.token, error)

    role.decide(controller_api, inner, when_committed, now)


def _refuse(node: NodeView, token: int, error: ErrorCode) -> None:
    node.out.reply(token, api.EnvelopeResponse(response_data=None, error_code=error))


def _unwrap(request: api.EnvelopeRequest) -> Message | None:
    """The request in the envelope; None if its bytes are not a request in the version that nodes speak."""
    try:
        header, inner = codec.decode_request(request.request_data)
    except MalformedFrameError:
        return None
    return inner if type(inner) is codec.pinned_request_type(header.api_key) else None
