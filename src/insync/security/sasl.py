"""The server's side of SASL mechanisms, and the settings of a listener that uses them.

A conversation is values only: each message of the client goes into `respond`, which returns the answer or raises
AuthenticationError, until it `is_complete`. Neither answers nor their timing say which users exist.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from insync.security import jaas
from insync.security.errors import AuthenticationError, SecuritySettingError
from insync.security.oauthbearer import OAuthBearerServer, OAuthSettings, TokenValidator
from insync.security.scram import HASHES, ScramServer, ScramUsers

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
MECHANISMS = (PLAIN, *HASHES, OAUTHBEARER)
JAAS = "sasl.jaas.config"
ENABLED = "sasl.enabled.mechanisms"
DEFAULT_MAX_RECEIVE_BYTES = 131_072
"""Kafka allows four times as much. All unauthenticated connections together must leave room for those that are."""
_USER = "user_"
_MODULES = {
    PLAIN: "PlainLoginModule",
    OAUTHBEARER: "OAuthBearerLoginModule",
    **dict.fromkeys(HASHES, "ScramLoginModule"),
}
_HANDLER = "sasl.server.callback.handler.class"
_OAUTH = "sasl.oauthbearer."


class Mechanism(Protocol):
    def respond(self, message: bytes) -> bytes: ...

    @property
    def is_complete(self) -> bool: ...

    @property
    def user(self) -> str | None:
        """Set when it is complete."""

    @property
    def claimed_user(self) -> str:
        """Whom the client says it is, for the log; empty if it has not said so."""

    @property
    def expires_at_ms(self) -> int | None:
        """When the credential itself expires, in wall-clock milliseconds; None: never."""


class PlainServer:
    """RFC 4616, with users from the settings."""

    expires_at_ms = None

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = users
        self.claimed_user = ""
        self.user: str | None = None

    @property
    def is_complete(self) -> bool:
        return self.user is not None

    def respond(self, message: bytes) -> bytes:
        fields = message.split(b"\0")
        if len(fields) != 3:
            raise AuthenticationError.for_both(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(fields)}")
        try:
            authorization_id, user, password = (field.decode() for field in fields)
        except UnicodeDecodeError:
            raise AuthenticationError.for_both("Invalid SASL/PLAIN response: it is not UTF-8") from None
        if not user or not password:
            raise AuthenticationError.for_both(
                f"Authentication failed: {'password' if user else 'username'} not specified"
            )
        self.claimed_user = user
        expected = self._users.get(user)
        # Digests of equal length are compared, for unknown users too: the time depends on nothing that is secret.
        is_right = hmac.compare_digest(_digest(password), _digest(expected if expected is not None else _NO_PASSWORD))
        if not is_right or expected is None:
            raise AuthenticationError.for_both("Authentication failed: Invalid username or password")
        if authorization_id not in ("", user):
            raise AuthenticationError.for_both(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = user
        return b""


_KEY = os.urandom(32)
_NO_PASSWORD = secrets.token_urlsafe(32)


def _digest(password: str) -> bytes:
    return hashlib.blake2b(password.encode(), key=_KEY).digest()


# --- settings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class SaslSettings:
    """Of one listener."""

    mechanisms: tuple[str, ...]
    users: Mapping[str, str] = field(repr=False)
    """Names and passwords for PLAIN."""
    oauth: OAuthSettings | None
    max_receive_bytes: int
    """sasl.server.max.receive.size: of a message before authentication."""
    max_reauth_ms: Mapping[str, int]
    """connections.max.reauth.ms by mechanism; 0: sessions do not expire."""

    @staticmethod
    def of(settings: Mapping[str, str]) -> SaslSettings:
        mechanisms = _read_mechanisms(settings)
        return SaslSettings(
            mechanisms=mechanisms,
            users=_read_users(settings) if PLAIN in mechanisms else {},
            oauth=_read_oauth(settings) if OAUTHBEARER in mechanisms else None,
            max_receive_bytes=_integer(settings, "sasl.server.max.receive.size", DEFAULT_MAX_RECEIVE_BYTES),
            max_reauth_ms={mechanism: _read_max_reauth_ms(settings, mechanism) for mechanism in mechanisms},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLogin:
    """How a node authenticates to a listener of another node."""

    mechanism: str
    username: str
    password: str = field(repr=False)
    setting: str
    """Where they come from, for error messages."""

    @staticmethod
    def of(settings: Mapping[str, str], mechanism_key: str) -> ClientLogin:
        """`mechanism_key`: sasl.mechanism.inter.broker.protocol, or that of the controllers."""
        mechanism = settings.get(mechanism_key, "").strip()
        supported = (PLAIN, *HASHES)
        if mechanism not in supported:
            problem = f"{mechanism!r} is not supported between nodes" if mechanism else "is missing"
            raise SecuritySettingError(mechanism_key, f"{problem}. Set it to one of {', '.join(supported)}.")
        enabled = _comma_separated(settings.get(ENABLED, ""))
        if mechanism not in enabled:
            raise SecuritySettingError(mechanism_key, f"{mechanism} is not in {ENABLED}. Add it there.")
        key, options = _read_jaas(settings, mechanism)
        username, password = options.get("username", ""), options.get("password", "")
        if not username or not password:
            missing = "password" if username else "username"
            raise SecuritySettingError(key, f'has no {missing}="..." for connections to other nodes.')
        return ClientLogin(mechanism=mechanism, username=username, password=password, setting=key)


def _comma_separated(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _integer(settings: Mapping[str, str], key: str, default: int) -> int:
    text = settings.get(key, "").strip()
    if not text:
        return default
    if not text.isascii() or not text.isdecimal():
        raise SecuritySettingError(key, f"{text!r} is not a whole number")
    return int(text)


def _read_mechanisms(settings: Mapping[str, str]) -> tuple[str, ...]:
    mechanisms = _comma_separated(settings.get(ENABLED, ""))
    if not mechanisms:
        raise SecuritySettingError(
            ENABLED, f"is missing, and Kafka's default GSSAPI is not supported. Set some of {', '.join(MECHANISMS)}."
        )
    for mechanism in mechanisms:
        if mechanism not in MECHANISMS:
            raise SecuritySettingError(
                ENABLED, f"{mechanism!r} is not supported. Choose among {', '.join(MECHANISMS)}."
            )
    return mechanisms


def _own_key(mechanism: str, key: str) -> str:
    return f"{mechanism.lower()}.{key}"


def _read_jaas(settings: Mapping[str, str], mechanism: str) -> tuple[str, dict[str, str]]:
    """(the key, the options of the login module)."""
    key = _own_key(mechanism, JAAS)
    text = settings.get(key)
    if text is None:
        raise SecuritySettingError(key, f"is missing. Set it to a {_MODULES[mechanism]}, as for Kafka.")
    try:
        module, options = jaas.parse(text)
    except jaas.JaasError as error:
        raise SecuritySettingError(key, str(error)) from None
    if module.rpartition(".")[2] != _MODULES[mechanism]:
        raise SecuritySettingError(key, f"must use {_MODULES[mechanism]} for {mechanism}.")
    return key, options


def _read_users(settings: Mapping[str, str]) -> dict[str, str]:
    handler = _own_key(PLAIN, _HANDLER)
    if settings.get(handler):
        raise SecuritySettingError(handler, "names a Java class, which cannot be used here. Remove the setting.")
    _, options = _read_jaas(settings, PLAIN)
    return {name.removeprefix(_USER): password for name, password in options.items() if name.startswith(_USER)}


def _read_oauth(settings: Mapping[str, str]) -> OAuthSettings:
    key, options = _read_jaas(settings, OAUTHBEARER)
    own = _own_key(OAUTHBEARER, _OAUTH)
    for_mechanism = {_OAUTH + name.removeprefix(own): value for name, value in settings.items() if name.startswith(own)}
    return OAuthSettings.of(
        {**settings, **for_mechanism}, options, settings.get(_own_key(OAUTHBEARER, _HANDLER), ""), key
    )


def _read_max_reauth_ms(settings: Mapping[str, str], mechanism: str) -> int:
    key = "connections.max.reauth.ms"
    own = _own_key(mechanism, key)
    return _integer(settings, own if own in settings else key, 0)


# --- conversations ---------------------------------------------------------------------------------------------------


class SaslServer:
    """Makes the conversations of one listener."""

    def __init__(
        self, settings: SaslSettings, users: Callable[[], ScramUsers], validator: TokenValidator | None
    ) -> None:
        """`users`: of SCRAM, as they are now. `validator`: of tokens, if OAUTHBEARER is enabled."""
        self.settings = settings
        self._users = users
        self._validator = validator
        self._mock_key = os.urandom(32)

    def begin(self, mechanism: str) -> Mechanism:
        """`mechanism`: one of the settings'."""
        if mechanism == PLAIN:
            return PlainServer(self.settings.users)
        if self._validator is not None and mechanism == OAUTHBEARER:
            return OAuthBearerServer(self._validator)
        return ScramServer(mechanism, self._users(), secrets.token_urlsafe(24), self._mock_key)
