"""OAUTHBEARER: tokens that an identity provider has signed, Kafka's unsecured ones, and the error document."""

from __future__ import annotations

import json
import time
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

from insync.security.errors import AuthenticationError
from insync.security.oauthbearer import (
    JwtValidator,
    OAuthBearerServer,
    OAuthSettings,
    Token,
    TokenError,
    UnsecuredValidator,
    parse_keys,
)

RSA_KEY = rsa.generate_private_key(65_537, 2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()
STRANGER = ec.generate_private_key(ec.SECP256R1())
NOW = int(time.time())
TOMORROW = NOW + 86_400
"""These tests may run long after this module was imported."""
GOOD = {"sub": "alice", "iss": "https://idp", "aud": "kafka", "iat": NOW - 10, "exp": TOMORROW}
OPTIONS = {"unsecuredValidatorAllowableClockSkewMs": "1000"}


def jwks() -> bytes:
    algorithms = jwt.algorithms
    keys = [
        {**algorithms.RSAAlgorithm.to_jwk(RSA_KEY.public_key(), as_dict=True), "kid": "rsa"},
        {**algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True), "kid": "ec"},
        {**algorithms.OKPAlgorithm.to_jwk(ED_KEY.public_key(), as_dict=True), "kid": "ed"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "shared"},
        {"kty": "RSA", "kid": "damaged", "n": "!", "e": "AQAB"},
        {**algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True), "kid": "enc", "use": "enc"},
    ]
    return json.dumps({"keys": keys}).encode()


class Keys:
    def __init__(self, data: bytes) -> None:
        self._keys = parse_keys(data)
        self.refreshes = 0

    def keys(self) -> Mapping[str, Any]:
        return self._keys

    def request_refresh(self) -> None:
        self.refreshes += 1


def settings(**more: str) -> OAuthSettings:
    given = {
        "sasl.oauthbearer.jwks.endpoint.url": "https://idp/keys",
        "sasl.oauthbearer.expected.issuer": "https://idp",
        "sasl.oauthbearer.expected.audience": "kafka,other",
        **{key.replace("_", "."): value for key, value in more.items()},
    }
    return OAuthSettings.of(given, {}, "", "jaas")


def signed(claims: dict[str, Any], key: Any = EC_KEY, algorithm: str = "ES256", kid: str | None = "ec") -> str:
    return jwt.encode(claims, key, algorithm, headers={} if kid is None else {"kid": kid})


def validate(token: str, **more: str) -> Token:
    return JwtValidator(settings(**more), Keys(jwks()))(token)


def unsecured(claims: dict[str, Any], header: dict[str, Any] | None = None) -> str:
    parts = [json.dumps({"alg": "none"} if header is None else header), json.dumps(claims)]
    return ".".join(urlsafe_b64encode(part.encode()).decode().rstrip("=") for part in parts) + "."


def first_message(token: str, authorization_id: str = "") -> bytes:
    name = f"a={authorization_id}" if authorization_id else ""
    return f"n,{name},\x01auth=Bearer {token}\x01\x01".encode()


# --- signed tokens ---


@pytest.mark.parametrize(
    ("key", "algorithm", "kid"), [(RSA_KEY, "RS256", "rsa"), (RSA_KEY, "PS512", "rsa"), (ED_KEY, "EdDSA", "ed")]
)
def test_every_kind_of_public_key_is_accepted(key: Any, algorithm: str, kid: str) -> None:
    assert validate(signed(GOOD, key, algorithm, kid)) == Token("alice", TOMORROW * 1_000)


def test_the_principal_may_be_another_claim() -> None:
    token = signed({**GOOD, "client": "billing"})
    assert validate(token, sasl_oauthbearer_sub_claim_name="client").subject == "billing"


@pytest.mark.parametrize(
    "claims",
    [
        {**GOOD, "exp": NOW - 60},
        {**GOOD, "iat": TOMORROW},
        {**GOOD, "nbf": TOMORROW},
        {**GOOD, "iss": "https://another"},
        {**GOOD, "aud": "another"},
        {**GOOD, "sub": ""},
        {**GOOD, "sub": 7},
        {key: value for key, value in GOOD.items() if key != "sub"},
        {key: value for key, value in GOOD.items() if key != "exp"},
        {key: value for key, value in GOOD.items() if key != "iat"},
        {key: value for key, value in GOOD.items() if key != "aud"},
    ],
)
def test_a_token_with_wrong_claims_is_refused(claims: dict[str, Any]) -> None:
    with pytest.raises(TokenError):
        validate(jwt.encode(claims, EC_KEY, "ES256", headers={"kid": "ec"}))


def test_clocks_may_differ_a_little() -> None:
    late = signed({**GOOD, "exp": int(time.time()) - 10})
    assert validate(late).subject == "alice"
    with pytest.raises(TokenError):
        validate(late, sasl_oauthbearer_clock_skew_seconds="1")


@pytest.mark.parametrize(
    "token",
    [
        signed(GOOD, STRANGER),
        signed(GOOD, kid="unknown"),
        signed(GOOD, kid=None),
        signed(GOOD, "x" * 64, "HS256", "shared"),
        signed(GOOD, "x" * 64, "HS256", "rsa"),
        signed(GOOD, RSA_KEY, "RS256", "ec"),
        signed(GOOD, kid="enc"),
        unsecured(GOOD),
        "not.a.token",
        "",
        signed(GOOD)[:-4] + "AAAA",
    ],
    ids=range(11),  # signatures differ each time, and workers must agree on the names of tests
)
def test_a_token_that_the_provider_did_not_sign_is_refused(token: str) -> None:
    """Also one that names another algorithm than its key has, or none."""
    with pytest.raises(TokenError) as caught:
        validate(token)
    assert not token or token not in str(caught.value)


def test_a_token_without_an_audience_setting_must_have_none() -> None:
    """As in Kafka."""
    bare = {key: value for key, value in GOOD.items() if key != "aud"}
    assert validate(signed(bare), sasl_oauthbearer_expected_audience="").subject == "alice"
    with pytest.raises(TokenError):
        validate(signed(GOOD), sasl_oauthbearer_expected_audience="")


def test_an_unknown_key_asks_for_a_refresh() -> None:
    source = Keys(jwks())
    with pytest.raises(TokenError):
        JwtValidator(settings(), source)(signed(GOOD, kid="new"))
    assert source.refreshes == 1


def test_the_only_key_needs_no_name() -> None:
    only = json.dumps({"keys": [jwt.algorithms.ECAlgorithm.to_jwk(EC_KEY.public_key(), as_dict=True)]})
    assert JwtValidator(settings(), Keys(only.encode()))(signed(GOOD, kid=None)).subject == "alice"


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "oct", "k": "AA"}]}', b"\xff"]
)
def test_a_document_without_public_keys_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, KeyError, TypeError)):
        parse_keys(data)


# --- unsecured tokens ---


def unsecured_settings(**options: str) -> OAuthSettings:
    return OAuthSettings.of({}, {**OPTIONS, **options}, "", "jaas")


def test_unsecured_tokens_are_accepted_if_the_settings_ask_for_them() -> None:
    validator = UnsecuredValidator(unsecured_settings(unsecuredValidatorRequiredScope="login"), lambda: NOW)
    assert validator(unsecured({"sub": "alice", "exp": NOW + 5, "scope": "read login"})).subject == "alice"
    assert validator(unsecured({"sub": "alice", "exp": NOW + 5, "scope": ["login"]})).expires_at_ms == (NOW + 5) * 1_000


@pytest.mark.parametrize(
    ("token", "status"),
    [
        (unsecured({"sub": "alice", "exp": NOW - 2, "scope": "login"}), "invalid_token"),
        (unsecured({"sub": "alice", "scope": "login"}), "invalid_token"),
        (unsecured({"sub": "alice", "exp": "soon", "scope": "login"}), "invalid_token"),
        (unsecured({"sub": "alice", "exp": True, "scope": "login"}), "invalid_token"),
        (unsecured({"sub": "alice", "exp": NOW + 5, "iat": NOW + 4, "scope": "login"}), "invalid_token"),
        (unsecured({"exp": NOW + 5, "scope": "login"}), "invalid_token"),
        (unsecured({"sub": "alice", "exp": NOW + 5}), "insufficient_scope"),
        (unsecured({"sub": "alice", "exp": NOW + 5, "scope": "login"}, {"alg": "ES256"}), "invalid_token"),
        (signed({**GOOD, "scope": "login"}), "invalid_token"),
        ("a.b", "invalid_token"),
        ("%%%.%%%.", "invalid_token"),
        (f"{'[' * 5000}.x.", "invalid_token"),
    ],
    ids=range(12),
)
def test_other_unsecured_tokens_are_refused(token: str, status: str) -> None:
    validator = UnsecuredValidator(unsecured_settings(unsecuredValidatorRequiredScope="login"), lambda: NOW)
    with pytest.raises(TokenError) as caught:
        validator(token)
    assert caught.value.status == status


# --- the conversation ---


def accept(token: str) -> Token:
    if token != "good":
        raise TokenError("it is bad")
    return Token("alice", 5)


def test_an_accepted_token_opens_a_session_until_it_expires() -> None:
    for authorization_id in ("", "alice"):
        server = OAuthBearerServer(accept)
        assert server.respond(first_message("good", authorization_id)) == b""
        assert (server.user, server.expires_at_ms, server.is_complete) == ("alice", 5, True)


def test_a_refused_token_is_answered_with_the_error_document_first() -> None:
    server = OAuthBearerServer(accept)
    assert server.respond(first_message("bad")) == b'{"status":"invalid_token"}'
    assert not server.is_complete
    with pytest.raises(AuthenticationError) as caught:
        server.respond(b"\x01")
    assert caught.value.for_client == '{"status":"invalid_token"}'


def test_another_name_than_the_tokens_is_refused() -> None:
    with pytest.raises(AuthenticationError):
        OAuthBearerServer(accept).respond(first_message("good", "bob"))


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x01",
        b"n,,",
        b"y,,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer good\x01",
        b"n,,\x01auth=Basic good\x01\x01",
        b"n,,\x01host=h\x01\x01",
        b"n,,\x01auth=Bearer go\xffd\x01\x01",
        b"n,a=\xff,\x01auth=Bearer good\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * 100_000 + b"\x01\x01",
    ],
)
def test_what_is_not_a_first_message_is_refused(message: bytes) -> None:
    with pytest.raises(AuthenticationError):
        OAuthBearerServer(accept).respond(message)


def test_extensions_are_allowed() -> None:
    server = OAuthBearerServer(accept)
    assert server.respond(b"n,,\x01auth=Bearer good\x01logicalCluster=lkc-1\x01\x01") == b""
