"""SaslHandshake and SaslAuthenticate on a connection that is authenticated, or needs no authentication.

Connections to a listener with SASL answer them themselves, until they are authenticated.
"""

from __future__ import annotations

from insync.node.node_view import NodeView
from insync.sansio import Request
from insync.wire.errors import ErrorCode
from insync.wire.messages import sasl_authenticate, sasl_handshake
from insync.wire.types import NO_DURATION


def refuse_handshake(node: NodeView, event: Request, now: int) -> None:
    answer = sasl_handshake.SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state, mechanisms=())
    node.out.reply(event.token, answer)


def refuse_authentication(node: NodeView, event: Request, now: int) -> None:
    answer = sasl_authenticate.SaslAuthenticateResponse(
        error_code=ErrorCode.illegal_sasl_state,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
        session_lifetime=NO_DURATION,
    )
    node.out.reply(event.token, answer)
