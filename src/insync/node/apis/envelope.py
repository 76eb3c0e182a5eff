"""Envelope (58): a request that a broker forwards to the active controller. Between nodes only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.node import apis
from insync.node.apis import describe_quorum
from insync.sansio import Message
from insync.wire import codec
from insync.wire.errors import ErrorCode, MalformedFrame
from insync.wire.messages import envelope as api

if TYPE_CHECKING:
    from insync.node.node import Node

KEY = 58


def handle(node: Node, request: Message, token: int, now: int) -> None:
    role = node.controller_role
    if role is None or not role.active:
        node.out.reply(token, api.EnvelopeResponse(response_data=None, error_code=ErrorCode.not_controller))
        return
    inner = _opened(request)
    key = -1 if inner is None else inner.__api_key__
    if key == describe_quorum.KEY:  # the quorum answers, nothing is to be decided
        described = codec.encode_response(node.quorum.describe(now), 0)
        node.out.reply(token, api.EnvelopeResponse(response_data=described, error_code=ErrorCode.none))
        return
    controller_api = apis.FORWARDED.get(key)
    if controller_api is None:
        node.out.reply(token, api.EnvelopeResponse(response_data=None, error_code=ErrorCode.invalid_request))
        return

    def answer(response: Message) -> None:
        deposed = response == controller_api.refuse(inner, ErrorCode.not_controller)
        node.out.reply(
            token,
            api.EnvelopeResponse(
                response_data=None if deposed else codec.encode_response(response, 0),
                error_code=ErrorCode.not_controller if deposed else ErrorCode.none,
            ),
        )

    role.handle(controller_api, inner, answer, now)


def _opened(request: Message) -> Message | None:
    """None if the bytes are no request that nodes send: whoever sent them is told so, and the controller goes on."""
    try:
        header, inner = codec.decode_request(request.request_data)
    except MalformedFrame:
        return None
    return inner if type(inner) is apis.TYPES.get(header.api_key) else None
