"""SASL on one connection: SaslHandshake chooses the mechanism, SaslAuthenticate carries its messages.

Before authentication only these and ApiVersions are answered. After a handshake of version 0 the messages of the
mechanism are frames by themselves, without headers; old clients do that.

A session may expire (KIP-368): by `connections.max.reauth.ms`, or with the token that opened it. The client gets its
lifetime, and authenticates again on the same connection, by the same mechanism and as the same user. A request after
the end of the session closes the connection.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from insync.security.errors import AuthenticationError
from insync.security.sasl import Mechanism, SaslServer
from insync.wire import frames
from insync.wire.apis import API_VERSIONS, APIS
from insync.wire.codec import RequestHeader
from insync.wire.errors import ErrorCode, MalformedFrameError
from insync.wire.handwritten_broker import Pieces
from insync.wire.messages import sasl_authenticate, sasl_handshake
from insync.wire.types import NO_DURATION, ms
from insync.wire.versions.context import RequestContext
from insync.wire.versions.translator import VersionTranslator

HANDSHAKE, AUTHENTICATE = APIS["sasl_handshake"].key, APIS["sasl_authenticate"].key
MIN_RENEWAL_NS = 1_000_000_000
"""As in Kafka: a session is renewed at most once a second."""


@dataclass(frozen=True, slots=True)
class SaslAnswer:
    context: RequestContext
    pieces: Pieces
    """Empty if there is nothing to send."""
    failure: str = ""
    """Why the connection is to be closed, for the log."""
    is_expiry: bool = False
    """It is closed because the session has expired, not because an authentication failed."""


@dataclass(slots=True)
class LoginCounts:
    """Of one listener, since the start. Failures of logins are counted with their log lines (`failure_log`)."""

    successful: int = 0
    renewed: int = 0
    """Successful re-authentications."""
    failed_renewals: int = 0
    expired: int = 0
    """Connections that were closed because their session had expired."""


class SaslSession:
    __slots__ = (
        "_conversation",
        "_counts",
        "_expires_at_ns",
        "_is_raw",
        "_mechanism",
        "_renewed_at_ns",
        "_server",
        "_translator",
        "_trying",
        "user",
    )

    def __init__(self, server: SaslServer, translator: VersionTranslator, counts: LoginCounts | None = None) -> None:
        self._server = server
        self._counts = counts or LoginCounts()
        self._translator = translator
        self._conversation: Mechanism | None = None
        self._trying = ""  # the mechanism of the conversation
        self._is_raw = False  # its messages are frames by themselves
        self._mechanism = ""  # by which the session was opened
        self._expires_at_ns: int | None = None
        self._renewed_at_ns = 0
        self.user: str | None = None
        """Of the session; None until there is one."""

    @property
    def is_authenticated(self) -> bool:
        return self.user is not None

    @property
    def expires(self) -> bool:
        return self._expires_at_ns is not None

    @property
    def claimed_user(self) -> str:
        return self._conversation.claimed_user if self._conversation is not None else ""

    @property
    def mechanism(self) -> str:
        return self._trying

    def receive(self, frame: bytes) -> SaslAnswer | None:
        """The answer; None if the frame is a request that is served as on any other listener."""
        if self._conversation is not None:
            return self._continue(frame)
        key = _api_key(frame)
        if self.user is not None:
            now = time.monotonic_ns()
            if key == HANDSHAKE and now - self._renewed_at_ns >= MIN_RENEWAL_NS:
                self._renewed_at_ns = now
                return self._begin(frame)
            if self._expires_at_ns is not None and now > self._expires_at_ns:
                self._counts.expired += 1
                return SaslAnswer(_context(key), [], "the session has expired", is_expiry=True)
            return None
        if key == API_VERSIONS:
            return None
        if key == HANDSHAKE:
            return self._begin(frame)
        return SaslAnswer(_context(key), [], f"a request of API {key} before authentication")

    def _begin(self, frame: bytes) -> SaslAnswer:
        context = self._translator.receive(frame)
        enabled, mechanism = self._server.settings.mechanisms, context.request.mechanism
        if mechanism not in enabled:
            pieces = self._handshake_response(context, ErrorCode.unsupported_sasl_mechanism)
            return SaslAnswer(context, pieces, "a mechanism that is not enabled")
        self._conversation, self._trying = self._server.begin(mechanism), mechanism
        self._is_raw = context.header.api_version == 0
        return SaslAnswer(context, self._handshake_response(context, ErrorCode.none))

    def _continue(self, frame: bytes) -> SaslAnswer:
        if self._is_raw:
            return self._on_message(_context(AUTHENTICATE), frame)
        key = _api_key(frame)
        if key == AUTHENTICATE:
            context = self._translator.receive(frame)
            return self._on_message(context, bytes(context.request.auth_bytes))
        failure = f"a request of API {key} during authentication"
        if key != HANDSHAKE:
            return SaslAnswer(_context(key), [], failure)
        context = self._translator.receive(frame)
        return SaslAnswer(context, self._handshake_response(context, ErrorCode.illegal_sasl_state), failure)

    def _on_message(self, context: RequestContext, message: bytes) -> SaslAnswer:
        conversation = self._conversation
        if conversation is None:
            raise MalformedFrameError("SaslAuthenticate without SaslHandshake")
        try:
            self._check_renewed_mechanism()
            challenge = conversation.respond(message)
            lifetime_ms = self._open_session(conversation) if conversation.is_complete else 0
        except AuthenticationError as error:
            what = "re-authentication" if self._mechanism else "authentication"
            self._counts.failed_renewals += bool(self._mechanism)
            text = error.for_client or (
                f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._trying}"
            )
            return SaslAnswer(context, self._failure_response(context, text), str(error))
        return SaslAnswer(context, self._success_response(context, challenge, lifetime_ms))

    def _check_renewed_mechanism(self) -> None:
        if self._mechanism not in ("", self._trying):
            raise AuthenticationError.for_both(
                f"SASL mechanism '{self._trying}' requested by client is not supported for re-authentication of "
                f"mechanism '{self._mechanism}'"
            )

    def _open_session(self, conversation: Mechanism) -> int:
        """Returns the lifetime of the session in milliseconds, 0 if it does not expire."""
        user = conversation.user
        if self.user not in (None, user):
            raise AuthenticationError.for_both(
                f"Cannot change principals during re-authentication from User.{self.user}: User.{user}"
            )
        limits = []
        if max_reauth_ms := self._server.settings.max_reauth_ms[self._trying]:
            limits.append(max_reauth_ms)
        if conversation.expires_at_ms is not None:
            limits.append(conversation.expires_at_ms - int(time.time() * 1_000))
        lifetime_ms = max(0, min(limits, default=0))
        self._expires_at_ns = time.monotonic_ns() + lifetime_ms * 1_000_000 if limits else None
        if self._mechanism:
            self._counts.renewed += 1
        else:
            self._counts.successful += 1
        self.user, self._mechanism, self._conversation = user, self._trying, None
        return lifetime_ms

    # --- answers -----------------------------------------------------------------------------------------------------

    def _handshake_response(self, context: RequestContext, error: ErrorCode) -> Pieces:
        mechanisms = self._server.settings.mechanisms
        response = sasl_handshake.SaslHandshakeResponse(error_code=error, mechanisms=mechanisms)
        return self._translator.encode_response(context, response)

    def _success_response(self, context: RequestContext, challenge: bytes, lifetime_ms: int) -> Pieces:
        if self._is_raw:
            return frames.framed(challenge)
        response = sasl_authenticate.SaslAuthenticateResponse(
            error_code=ErrorCode.none, error_message=None, auth_bytes=challenge, session_lifetime=ms(lifetime_ms)
        )
        return self._translator.encode_response(context, response)

    def _failure_response(self, context: RequestContext, text: str) -> Pieces:
        if self._is_raw:
            return []
        response = sasl_authenticate.SaslAuthenticateResponse(
            error_code=ErrorCode.sasl_authentication_failed,
            error_message=text,
            auth_bytes=b"",
            session_lifetime=NO_DURATION,
        )
        return self._translator.encode_response(context, response)


def _api_key(frame: bytes) -> int:
    if len(frame) < 2:
        raise MalformedFrameError("a frame without a header")
    return int.from_bytes(frame[:2], "big", signed=True)


def _context(api_key: int) -> RequestContext:
    """Of a frame whose header is not read, or that has none."""
    return RequestContext(RequestHeader(api_key, 0, 0, None))
