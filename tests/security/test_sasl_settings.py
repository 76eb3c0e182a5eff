"""SASL of a listener from Kafka's settings, and PLAIN."""

from __future__ import annotations

import pytest

from insync.security.errors import AuthenticationError, SecuritySettingError
from insync.security.sasl import ClientLogin, PlainServer, SaslServer, SaslSettings
from insync.security.scram import ScramServer, ScramUsers, make_credential

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
OAUTH_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
PLAIN = {
    "sasl.enabled.mechanisms": "PLAIN",
    "plain.sasl.jaas.config": f'{PLAIN_MODULE} required username="node" password="s3cret" user_node="s3cret" '
    'user_alice="al,ice=1";',
}
OAUTH = {"sasl.enabled.mechanisms": "OAUTHBEARER", "oauthbearer.sasl.jaas.config": f"{OAUTH_MODULE} required;"}


def test_users_of_plain_are_options_of_its_module() -> None:
    assert SaslSettings.of(PLAIN).users == {"node": "s3cret", "alice": "al,ice=1"}


def test_scram_needs_no_module_for_clients_that_log_in() -> None:
    settings = SaslSettings.of({"sasl.enabled.mechanisms": " SCRAM-SHA-512 ,SCRAM-SHA-256,SCRAM-SHA-512"})
    assert settings.mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256")


def test_sessions_expire_by_the_setting_of_their_mechanism() -> None:
    general = {**PLAIN, "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", "connections.max.reauth.ms": "1000"}
    assert SaslSettings.of(general).max_reauth_ms == {"PLAIN": 1_000, "SCRAM-SHA-256": 1_000}
    own = {**general, "plain.connections.max.reauth.ms": "50"}
    assert SaslSettings.of(own).max_reauth_ms == {"PLAIN": 50, "SCRAM-SHA-256": 1_000}


def test_passwords_are_not_shown() -> None:
    login = ClientLogin.of({**PLAIN, "sasl.mechanism.inter.broker.protocol": "PLAIN"}, MECHANISM_KEY)
    assert (login.username, login.password) == ("node", "s3cret")
    assert "s3cret" not in f"{SaslSettings.of(PLAIN)!r} {login!r}"


MECHANISM_KEY = "sasl.mechanism.inter.broker.protocol"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "sasl.enabled.mechanisms: is missing, and Kafka's default GSSAPI is not supported"),
        ({"sasl.enabled.mechanisms": "PLAIN,GSSAPI"}, "sasl.enabled.mechanisms: 'GSSAPI' is not supported"),
        ({"sasl.enabled.mechanisms": "PLAIN"}, "plain.sasl.jaas.config: is missing. Set it to a PlainLoginModule"),
        ({**PLAIN, "plain.sasl.jaas.config": "PlainLoginModule"}, "plain.sasl.jaas.config: must start with a login"),
        ({**PLAIN, "plain.sasl.jaas.config": f"{SCRAM_MODULE} required;"}, "plain.sasl.jaas.config: must use Plain"),
        ({**PLAIN, "plain.sasl.server.callback.handler.class": "a.B"}, "plain.sasl.server.callback.handler.class: nam"),
        ({**PLAIN, "sasl.server.max.receive.size": "-1"}, "sasl.server.max.receive.size: '-1' is not a whole number"),
        ({**PLAIN, "connections.max.reauth.ms": "soon"}, "connections.max.reauth.ms: 'soon' is not a whole number"),
        (OAUTH, "sasl.oauthbearer.jwks.endpoint.url: is missing, so signatures of tokens could not be checked"),
        ({**OAUTH, "sasl.oauthbearer.jwks.endpoint.url": "/k"}, "sasl.oauthbearer.jwks.endpoint.url: '/k' is neither"),
        (
            {**OAUTH, "oauthbearer.sasl.server.callback.handler.class": "a.B"},
            "oauthbearer.sasl.server.callback.handler.class: names a Java class",
        ),
        (
            {**OAUTH, "sasl.oauthbearer.jwt.validator.class": "a.B"},
            "sasl.oauthbearer.jwt.validator.class: names a Java",
        ),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SecuritySettingError) as caught:
        SaslSettings.of(settings)
    assert str(caught.value).startswith(message)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (PLAIN, f"{MECHANISM_KEY}: is missing. Set it to one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512."),
        ({**PLAIN, MECHANISM_KEY: "OAUTHBEARER"}, f"{MECHANISM_KEY}: 'OAUTHBEARER' is not supported between nodes"),
        (
            {**PLAIN, MECHANISM_KEY: "SCRAM-SHA-256"},
            f"{MECHANISM_KEY}: SCRAM-SHA-256 is not in sasl.enabled.mechanisms",
        ),
        (
            {**PLAIN, MECHANISM_KEY: "PLAIN", "plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_a="b";'},
            'plain.sasl.jaas.config: has no username="..."',
        ),
    ],
)
def test_a_login_that_cannot_work_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(SecuritySettingError) as caught:
        ClientLogin.of(settings, MECHANISM_KEY)
    assert str(caught.value).startswith(message)


# --- PLAIN ---


def test_the_right_password_opens_a_session() -> None:
    for message in (b"\0alice\0wonder", b"alice\0alice\0wonder"):
        server = PlainServer({"alice": "wonder"})
        assert server.respond(message) == b""
        assert (server.is_complete, server.user) == (True, "alice")


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice\0guess", "Authentication failed: Invalid username or password"),
        (b"\0mallory\0wonder", "Authentication failed: Invalid username or password"),
        (b"\0\0wonder", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"bob\0alice\0wonder", "Authentication failed: Client requested an authorization id that is different"),
        (b"alice\0wonder", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0alice\0wonder\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"\0alice\0\xff", "Invalid SASL/PLAIN response: it is not UTF-8"),
    ],
)
def test_everything_else_is_refused_in_kafkas_words(message: bytes, text: str) -> None:
    """An unknown user and a wrong password give the same answer."""
    server = PlainServer({"alice": "wonder"})
    with pytest.raises(AuthenticationError) as caught:
        server.respond(message)
    assert (caught.value.for_client or "").startswith(text)
    assert not server.is_complete


def test_a_user_with_an_empty_password_cannot_log_in() -> None:
    with pytest.raises(AuthenticationError):
        PlainServer({"alice": ""}).respond(b"\0alice\0")


def test_unknown_users_of_scram_cannot_be_distinguished_from_existing_ones() -> None:
    """Their salt is as long, and they have as many iterations."""
    mechanism = "SCRAM-SHA-256"
    known = make_credential(mechanism, "wonder", b"a salt of 20 letters", 8_192)
    settings = SaslSettings.of({"sasl.enabled.mechanisms": mechanism})
    server = SaslServer(settings, lambda: ScramUsers.of({(mechanism, "alice"): known}), None)
    answers = []
    for user in ("alice", "mallory"):
        conversation = server.begin(mechanism)
        assert isinstance(conversation, ScramServer)
        answer = conversation.respond(f"n,,n={user},r=nonce".encode()).decode()
        _, salt, iterations = answer.split(",")
        answers.append((len(salt), iterations))
    assert answers[0] == answers[1] == (2 + 28, "i=8192")
