"""SASL authentication: SaslHandshake selects the mechanism, SaslAuthenticate carries its messages.

PLAIN sends the password in clear text and is meant for TLS; with SCRAM the password never leaves this machine.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from insync.client import apis
from insync.client.apis import Api
from insync.client.errors import AccessDeniedError, ErrorCode, error_name
from insync.client.scram import HASHES, Scram, ScramError
from insync.wire.types import millis

MECHANISMS = ("PLAIN", *HASHES)

Ask = Callable[[Api, Mapping[str, Any]], Awaitable[Any]]


class Conversation(Protocol):
    def first(self) -> bytes: ...

    def answer(self, challenge: bytes) -> bytes | None:
        """The next message to send; None at the end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    mechanism: str
    username: str
    password: str = field(repr=False)
    setting: str = "sasl.jaas.config"
    """The setting they come from, for error messages."""

    def conversation(self) -> Conversation:
        if self.mechanism == "PLAIN":
            return _Plain(self)
        return Scram(HASHES[self.mechanism], self.username, self.password, secrets.token_urlsafe(24))


class _Plain:
    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials

    def first(self) -> bytes:
        return f"\0{self._credentials.username}\0{self._credentials.password}".encode()

    def answer(self, challenge: bytes) -> None:
        return None


async def authenticate(ask: Ask, credentials: Credentials, address: str) -> float:
    """Returns the session lifetime in seconds, 0 if unlimited. `AccessDeniedError` if either side rejects the other."""
    await _agree(ask, credentials, address)
    conversation = credentials.conversation()
    message: bytes | None = conversation.first()
    lifetime = 0.0
    while message is not None:
        answer = await ask(apis.SASL_AUTHENTICATE, {"auth_bytes": message})
        if answer.error_code is not ErrorCode.none:
            raise _refused(credentials, address, answer)
        try:
            # In a thread: SCRAM hashes the password thousands of times.
            message = await asyncio.to_thread(conversation.answer, bytes(answer.auth_bytes))
        except ScramError as error:
            raise AccessDeniedError(f"{address} failed {credentials.mechanism} authentication: {error}") from None
        if (session_lifetime := getattr(answer, "session_lifetime", None)) is not None:
            lifetime = millis(session_lifetime) / 1_000
    return lifetime


def sasl_not_enabled_error(address: str) -> AccessDeniedError:
    return AccessDeniedError(
        f"{address} does not use SASL: set security.protocol to PLAINTEXT, or to SSL if it expects TLS, or use the "
        "address of a SASL listener in bootstrap.servers"
    )


async def _agree(ask: Ask, credentials: Credentials, address: str) -> None:
    answer = await ask(apis.SASL_HANDSHAKE, {"mechanism": credentials.mechanism})
    if answer.error_code is ErrorCode.unsupported_sasl_mechanism:
        offered = ", ".join(sorted(answer.mechanisms)) or "nothing"
        raise AccessDeniedError(f"sasl.mechanism is {credentials.mechanism}, but {address} offers {offered}")
    if answer.error_code is ErrorCode.illegal_sasl_state:
        raise sasl_not_enabled_error(address)
    if answer.error_code is not ErrorCode.none:
        raise AccessDeniedError(f"{address} rejected {credentials.mechanism}: {error_name(answer.error_code)}")


def _refused(credentials: Credentials, address: str, answer: Any) -> AccessDeniedError:
    reason = answer.error_message or error_name(answer.error_code)
    user = f"user '{credentials.username}' with {credentials.mechanism}"
    return AccessDeniedError(
        f"{address} rejected {user}: {reason}. Check the user name and password in {credentials.setting}"
    )
