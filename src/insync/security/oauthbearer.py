"""SASL/OAUTHBEARER (RFC 7628, KIP-255, KIP-768): a client shows a token that an identity provider has signed.

Tokens are JWTs. Their signature is checked against the provider's keys (a JWKS in a file or at a URL), their issuer,
audience and expiry against the settings. Kafka also has unsecured tokens, which anyone can make; they are accepted only
if the settings ask for them by name.

A token that is not accepted is answered with the error document of RFC 7628; the client acknowledges it, and only then
the authentication fails.
"""

from __future__ import annotations

import json
import re
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from insync.security.errors import AuthenticationError, SecuritySettingError

SECURED_HANDLERS = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerValidatorCallbackHandler",
)
UNSECURED_HANDLER = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
VALIDATORS = (
    "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator",
    "org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",
)
JWKS_URL = "sasl.oauthbearer.jwks.endpoint.url"
ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
"""By type of key. Keys that both sides know are not among them: a verifier could make tokens itself."""
INVALID_TOKEN = "invalid_token"
MAX_TOKEN_BYTES = 1 << 16
_FIRST = re.compile(rb"n,(?:a=((?:[^,=\x00\x01]|=2C|=3D)+))?,\x01((?:[A-Za-z]+=[\x20-\x7e\t\r\n]+\x01)*)\x01")
_BEARER = re.compile(r"bearer +([-_.a-zA-Z0-9]+)", re.I)
_ACKNOWLEDGED = b"\x01"
_UNSECURED_OPTION = "unsecuredValidator"


class TokenError(AuthenticationError):
    """A token is not accepted. The text says why, and contains nothing of it."""

    def __init__(self, text: str, status: str = INVALID_TOKEN) -> None:
        super().__init__(text)
        self.status = status
        """As RFC 6750 names it."""


@dataclass(frozen=True, slots=True)
class Token:
    """What an accepted token says."""

    subject: str
    expires_at_ms: int


TokenValidator = Callable[[str], Token]
"""Returns what the token says; TokenError if it is not accepted."""


class OAuthBearerServer:
    """One authentication."""

    def __init__(self, validate: TokenValidator) -> None:
        self._validate = validate
        self._refused: TokenError | None = None
        self.claimed_user = ""  # a token that is not accepted says nothing
        self.user: str | None = None
        self.expires_at_ms: int | None = None

    @property
    def is_complete(self) -> bool:
        return self.user is not None

    def respond(self, message: bytes) -> bytes:
        if self._refused is not None:
            raise self._refused
        authorization_id, text = _parse_first(message)
        try:
            token = self._validate(text)
        except TokenError as error:
            document = json.dumps({"status": error.status}, separators=(",", ":"))
            self._refused = error
            error.for_client = document
            return document.encode()
        if authorization_id not in ("", token.subject):
            raise AuthenticationError.for_both(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        self.user, self.expires_at_ms = token.subject, token.expires_at_ms
        return b""


def _parse_first(message: bytes) -> tuple[str, str]:
    """(authorization id, token) of `n,a=alice,^Ahost=h^Aauth=Bearer TOKEN^A^A`."""
    match = _FIRST.fullmatch(message) if len(message) <= MAX_TOKEN_BYTES else None
    if match is None:
        raise AuthenticationError("the first message is not one of OAUTHBEARER")
    pairs = dict(pair.split("=", 1) for pair in match[2].decode("ascii").split("\x01") if pair)
    bearer = _BEARER.fullmatch(pairs.get("auth", ""))
    if bearer is None:
        raise AuthenticationError("the first message has no bearer token")
    try:
        authorization_id = (match[1] or b"").decode()
    except UnicodeDecodeError:
        raise AuthenticationError("the authorization id is not UTF-8") from None
    return authorization_id.replace("=2C", ",").replace("=3D", "="), bearer[1]


# --- settings ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthSettings:
    jwks_url: str
    """Empty: tokens are unsecured."""
    issuer: str | None
    audiences: tuple[str, ...]
    subject_claim: str
    clock_skew_s: float
    refresh_ms: int
    retry_ms: int
    max_retry_ms: int
    required_scope: tuple[str, ...]
    """Of unsecured tokens."""
    scope_claim: str

    @staticmethod
    def of(settings: Mapping[str, str], options: Mapping[str, str], handler: str, jaas_key: str) -> OAuthSettings:
        """`options`: of the login module. `handler`: the class that is to validate tokens, if it is set."""
        url = settings.get(JWKS_URL, "").strip()
        _check_classes(settings, handler)
        asks_for_unsecured = handler == UNSECURED_HANDLER or any(name.startswith(_UNSECURED_OPTION) for name in options)
        if not url and (handler in SECURED_HANDLERS or not asks_for_unsecured):
            raise SecuritySettingError(
                JWKS_URL,
                "is missing, so signatures of tokens could not be checked. Set it to the keys of the identity provider "
                f"(https://... or file:///...). To accept unsecured tokens in tests, give the module in {jaas_key} an "
                "option such as unsecuredValidatorAllowableClockSkewMs.",
            )
        if url and not url.startswith(("file:", "http://", "https://")):
            raise SecuritySettingError(JWKS_URL, f"{url!r} is neither a file: nor an http(s) URL")
        return OAuthSettings(
            jwks_url=url,
            issuer=settings.get("sasl.oauthbearer.expected.issuer") or None,
            audiences=_comma_separated(settings.get("sasl.oauthbearer.expected.audience", "")),
            subject_claim=(settings.get("sasl.oauthbearer.sub.claim.name") if url else "")
            or options.get("unsecuredValidatorPrincipalClaimName", "").strip()
            or "sub",
            clock_skew_s=_read_clock_skew_s(settings, options, is_secured=bool(url)),
            refresh_ms=_integer(settings, "sasl.oauthbearer.jwks.endpoint.refresh.ms", 3_600_000),
            retry_ms=_integer(settings, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", 100),
            max_retry_ms=_integer(settings, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", 10_000),
            required_scope=tuple(options.get("unsecuredValidatorRequiredScope", "").split()),
            scope_claim=options.get("unsecuredValidatorScopeClaimName", "").strip() or "scope",
        )


def _check_classes(settings: Mapping[str, str], handler: str) -> None:
    if handler and handler not in (*SECURED_HANDLERS, UNSECURED_HANDLER):
        raise SecuritySettingError(
            "oauthbearer.sasl.server.callback.handler.class",
            "names a Java class that cannot be used here. Use Kafka's OAuthBearerValidatorCallbackHandler.",
        )
    validator = settings.get("sasl.oauthbearer.jwt.validator.class", "")
    if validator and validator not in VALIDATORS:
        raise SecuritySettingError(
            "sasl.oauthbearer.jwt.validator.class",
            "names a Java class that cannot be used here. Remove the setting.",
        )


def _comma_separated(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _integer(settings: Mapping[str, str], key: str, default: int) -> int:
    text = settings.get(key, "").strip()
    if text and not (text.isascii() and text.isdecimal()):
        raise SecuritySettingError(key, f"{text!r} is not a whole number")
    return int(text) if text else default


def _read_clock_skew_s(settings: Mapping[str, str], options: Mapping[str, str], *, is_secured: bool) -> float:
    if is_secured:
        return _integer(settings, "sasl.oauthbearer.clock.skew.seconds", 30)
    return _integer(options, "unsecuredValidatorAllowableClockSkewMs", 0) / 1_000


# --- unsecured tokens -------------------------------------------------------------------------------------------------


class UnsecuredValidator:
    """Kafka's tokens without a signature, for tests."""

    def __init__(self, settings: OAuthSettings, wall_clock_s: Callable[[], float]) -> None:
        self._settings = settings
        self._clock = wall_clock_s

    def __call__(self, text: str) -> Token:
        parts = text.split(".")
        if len(parts) != 3 or parts[2]:
            raise TokenError("the token is not an unsecured JWT")
        header, claims = (_decode_part(part) for part in parts[:2])
        if header.get("alg") != "none":
            raise TokenError("the token is not an unsecured JWT")
        settings, now = self._settings, self._clock()
        expires = _number(claims, "exp")
        if expires is None or expires <= now - settings.clock_skew_s:
            raise TokenError("the token has expired, or does not say when it does")
        issued = _number(claims, "iat")
        if issued is not None and (issued > now + settings.clock_skew_s or issued > expires):
            raise TokenError("the token was issued in the future")
        scope = claims.get(settings.scope_claim, ())
        granted = scope.split() if isinstance(scope, str) else scope if isinstance(scope, list) else ()
        if any(required not in granted for required in settings.required_scope):
            raise TokenError("the token lacks a required scope", "insufficient_scope")
        return Token(_subject(claims, settings.subject_claim), int(expires * 1_000))


def _decode_part(part: str) -> dict[str, Any]:
    try:
        decoded = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise TokenError("the token is not a JWT") from None
    if not isinstance(decoded, dict):
        raise TokenError("the token is not a JWT")
    return decoded


def _number(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TokenError(f"the claim {name} is not a number")
    return value


def _subject(claims: Mapping[str, Any], name: str) -> str:
    subject = claims.get(name)
    if not isinstance(subject, str) or not subject.strip():
        raise TokenError(f"the token has no claim {name} with a name")
    return subject.strip()


# --- signed tokens ----------------------------------------------------------------------------------------------------


class KeySource(Protocol):
    def keys(self) -> Mapping[str, Any]:
        """The provider's keys (PyJWK) by key id."""

    def request_refresh(self) -> None:
        """A token names a key that is not known: the provider may have a new one."""


class JwtValidator:
    """Tokens that one of the provider's keys has signed."""

    def __init__(self, settings: OAuthSettings, source: KeySource) -> None:
        self._settings = settings
        self._source = source

    def __call__(self, text: str) -> Token:
        import jwt

        settings = self._settings
        try:
            header = jwt.get_unverified_header(text)
            key = self._find_key(header.get("kid"), str(header.get("alg")))
            claims = jwt.decode(
                text,
                key.key,
                algorithms=[str(header["alg"])],
                audience=settings.audiences or None,
                issuer=settings.issuer,
                leeway=settings.clock_skew_s,
                options={"require": ["exp", "iat"], "verify_sub": False},
            )
        except jwt.PyJWTError as error:
            raise TokenError(f"the token is not valid: {_explain(error)}") from None
        return Token(_subject(claims, settings.subject_claim), int(claims["exp"] * 1_000))

    def _find_key(self, key_id: str | None, algorithm: str) -> Any:
        keys = self._source.keys()
        is_only = key_id is None and len(keys) == 1
        key = next(iter(keys.values())) if is_only else keys.get(str(key_id))
        if key is None:
            self._source.request_refresh()
            raise TokenError("no key of the identity provider has the id that the token names")
        if algorithm not in ALGORITHMS.get(key.key_type, ()):
            raise TokenError("the token is signed by an algorithm that does not fit its key")
        return key


def parse_keys(data: bytes) -> dict[str, Any]:
    """The public keys of a JWKS document by id; ValueError if there is none."""
    import jwt

    document = json.loads(data)
    keys = {}
    for number, entry in enumerate(document["keys"]):
        if entry.get("kty") not in ALGORITHMS or entry.get("use", "sig") != "sig":
            continue
        try:
            keys[str(entry.get("kid", number))] = jwt.PyJWK(entry)
        except jwt.PyJWTError:
            continue
    if not keys:
        raise ValueError("it has no public key for signatures")
    return keys


def _explain(error: Exception) -> str:
    """Only the kind of the error: texts of the library may repeat parts of the token."""
    return re.sub(r"(?<!^)(?=[A-Z])", " ", type(error).__name__.removesuffix("Error")).lower()
