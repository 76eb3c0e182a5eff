"""Envelope: a request that a broker forwards to the active controller. Between nodes only.

A1: the controller decides on the rights of the client that the broker names. A request without a principal is the
broker's own.
"""

from __future__ import annotations

from insync.node.authorization.checks import Narrowed, Refused
from insync.node.authorization.cluster import DESCRIBE_QUORUM
from insync.node.controller_apis import FORWARDED
from insync.node.node_view import NodeView
from insync.sansio import UNKNOWN_CLIENT, Client, Message, Request
from insync.wire import codec
from insync.wire.apis import APIS
from insync.wire.codec import RequestHeader
from insync.wire.errors import ErrorCode, MalformedFrameError
from insync.wire.forwarded_client import decode_address, decode_principal
from insync.wire.messages import envelope as api

_DESCRIBE_QUORUM = APIS["describe_quorum"].key


def handle(node: NodeView, event: Request, now: int) -> None:
    request: api.EnvelopeRequest = event.request
    role = node.controller_role
    if role is None or not role.active:
        _refuse(node, event.token, ErrorCode.not_controller)
        return
    header, inner = _unwrap(request)
    client = _client_of(request, header, event.client)
    if isinstance(client, ErrorCode):
        _refuse(node, event.token, client)
        return
    key = -1 if inner is None else inner.__api_key__
    if key != _DESCRIBE_QUORUM and key not in FORWARDED:
        _refuse(node, event.token, ErrorCode.invalid_request)
        return
    access = node.access_control.access_of(client, now)
    rights = DESCRIBE_QUORUM if key == _DESCRIBE_QUORUM else FORWARDED[key].rights
    outcome = None if access is None else rights.check(inner, access, node)
    if isinstance(outcome, Refused):
        _answer(node, event.token, outcome.response)
        return

    def when_committed(error: ErrorCode | None, response: Message | None) -> None:
        if error is None:
            _answer(node, event.token, outcome.complete(response) if isinstance(outcome, Narrowed) else response)
        else:  # the broker asks the next controller
            _refuse(node, event.token, error)

    if key == _DESCRIBE_QUORUM:  # the quorum answers; there is nothing to decide
        when_committed(None, node.quorum.describe(now))
    else:
        asked_for = UNKNOWN_CLIENT if request.request_principal is None else client
        role.decide(FORWARDED[key], inner if outcome is None else outcome.request, when_committed, now, asked_for)


def _client_of(request: api.EnvelopeRequest, header: RequestHeader | None, sender: Client) -> Client | ErrorCode:
    """The client for which the sender, a broker, forwards the request; the sender itself if it names none."""
    if request.request_principal is None:
        return sender
    try:
        principal = decode_principal(request.request_principal)
    except MalformedFrameError:
        return ErrorCode.principal_deserialization_failure
    try:
        host = decode_address(request.client_host_address)
    except MalformedFrameError:
        return ErrorCode.invalid_request
    return Client(
        id=(header.client_id if header is not None else None) or "",
        host=f"/{host}",
        version=request.client_version,
        principal=principal,
        listener=sender.listener,
        on_node_listener=sender.on_node_listener,
    )


def _answer(node: NodeView, token: int, response: Message) -> None:
    data = codec.encode_response(response, 0)
    node.out.reply(token, api.EnvelopeResponse(response_data=data, error_code=ErrorCode.none))


def _refuse(node: NodeView, token: int, error: ErrorCode) -> None:
    node.out.reply(token, api.EnvelopeResponse(response_data=None, error_code=error))


def _unwrap(request: api.EnvelopeRequest) -> tuple[RequestHeader | None, Message | None]:
    """The request in the envelope; None if its bytes are not a request in the version that nodes speak."""
    try:
        header, inner = codec.decode_request(request.request_data)
    except MalformedFrameError:
        return None, None
    return header, inner if type(inner) is codec.pinned_request_type(header.api_key) else None
