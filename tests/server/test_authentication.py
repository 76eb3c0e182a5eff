"""SASL on a connection: what is answered before and during authentication, failures, and sessions that expire."""

from __future__ import annotations

import logging
import time
from struct import pack, unpack
from typing import Any

import pytest
from kio.schema.sasl_authenticate.v0.request import SaslAuthenticateRequest as SaslAuthenticateV0
from kio.schema.sasl_handshake.v0.request import SaslHandshakeRequest as SaslHandshakeV0

from insync.client.scram import Scram
from insync.security.sasl import SaslSettings
from insync.security.scram import ScramUsers, make_credential
from insync.server import authentication
from insync.server.acceptor import Acceptor
from insync.server.authentication import LoginCounts
from insync.server.sasl_listener import SaslListener
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import api_versions, sasl_authenticate, sasl_handshake
from insync.wire.types import NO_DURATION, millis
from tests.security.test_oauthbearer import first_message, unsecured
from tests.server.connection_harness import ConnectionHarness, Peer, ask_id, ask_records, new_id

SCRAM = "SCRAM-SHA-256"
USERS = ScramUsers.of({(SCRAM, "alice"): make_credential(SCRAM, "wonder", b"salt of alice", 4_096)})
MODULES = "org.apache.kafka.common.security"
SETTINGS = {
    "sasl.enabled.mechanisms": f"PLAIN,{SCRAM},OAUTHBEARER",
    "plain.sasl.jaas.config": f'{MODULES}.plain.PlainLoginModule required user_alice="wonder" user_bob="builder";',
    "oauthbearer.sasl.jaas.config": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
    "unsecuredValidatorAllowableClockSkewMs=0;",
}


class SaslHarness(ConnectionHarness):
    def __init__(self, serves_nodes: bool = False, **settings: str) -> None:
        given = {**SETTINGS, **{key.replace("_", "."): value for key, value in settings.items()}}
        self.sasl = SaslListener("SASL", SaslSettings.of(given), lambda: USERS)
        super().__init__(Acceptor("SASL", serves_nodes, None, self.sasl))

    def client(self) -> SaslClient:
        return SaslClient(self)


class SaslClient(Peer):
    """Reads its answers."""

    def __init__(self, harness: SaslHarness) -> None:
        super().__init__(harness)
        self.harness = harness
        self._read = 0

    def frame(self) -> bytes | None:
        """The next answer; None if there is none."""
        data = bytes(self.transport.written[self._read :])
        if not data:
            return None
        (length,) = unpack(">i", data[:4])
        self._read += 4 + length
        return data[4 : 4 + length]

    def ask(self, request: Any, client_id: str = "test") -> Any:
        """The answer; None if there is none yet."""
        self.send(request, client_id)
        frame = self.frame()
        return None if frame is None else codec.decode_response(frame, type(request))[1]

    def handshake(self, mechanism: str) -> Any:
        return self.ask(sasl_handshake.SaslHandshakeRequest(mechanism=mechanism))

    def message(self, message: bytes) -> Any:
        return self.ask(sasl_authenticate.SaslAuthenticateRequest(auth_bytes=message))

    def log_in(self, user: str = "alice", password: str = "wonder") -> Any:
        assert self.handshake("PLAIN").error_code is ErrorCode.none
        return self.message(f"\0{user}\0{password}".encode())

    def fail(self) -> Any:
        """The failure that was delayed, as an answer to SaslAuthenticate."""
        assert self.frame() is None
        assert not self.transport.reading
        self.harness.run_timers()
        frame = self.frame()
        assert self.ended == "closed"
        return None if frame is None else codec.decode_response(frame, sasl_authenticate.SaslAuthenticateRequest)[1]


def versions() -> Any:
    return api_versions.ApiVersionsRequest(client_software_name="x", client_software_version="1")


# --- mechanisms ---


def test_plain_opens_a_session() -> None:
    harness = SaslHarness()
    client = harness.client()
    answer = client.handshake("PLAIN")
    assert (answer.error_code, answer.mechanisms) == (ErrorCode.none, ("PLAIN", SCRAM, "OAUTHBEARER"))
    answer = client.message(b"\0alice\0wonder")
    assert (answer.error_code, answer.auth_bytes, answer.session_lifetime) == (ErrorCode.none, b"", NO_DURATION)
    client.send(ask_id(), "app")
    assert (harness.asker.principal, harness.asker.id, harness.asker.listener) == ("User:alice", "app", "SASL")


def test_scram_opens_a_session_and_proves_the_server() -> None:
    harness = SaslHarness()
    client, scram = harness.client(), Scram("sha256", "alice", "wonder", "nonce")
    client.handshake(SCRAM)
    proof = scram.answer(client.message(scram.first()).auth_bytes)
    assert proof is not None
    assert scram.answer(client.message(proof).auth_bytes) is None
    client.send(ask_id())
    assert harness.asker.principal == "User:alice"


def test_a_token_opens_a_session_as_long_as_it_is_valid() -> None:
    harness = SaslHarness()
    client = harness.client()
    client.handshake("OAUTHBEARER")
    answer = client.message(first_message(unsecured({"sub": "carol", "exp": time.time() + 60})))
    assert answer.error_code is ErrorCode.none
    assert 50_000 < millis(answer.session_lifetime) <= 60_000
    client.send(ask_id())
    assert harness.asker.principal == "User:carol"


def test_a_bad_token_is_answered_with_a_document_and_then_refused() -> None:
    client = SaslHarness().client()
    client.handshake("OAUTHBEARER")
    answer = client.message(first_message(unsecured({"sub": "carol", "exp": 1})))
    assert (answer.error_code, answer.auth_bytes) == (ErrorCode.none, b'{"status":"invalid_token"}')
    assert client.message(b"\x01") is None
    failure = client.fail()
    assert failure.error_code is ErrorCode.sasl_authentication_failed
    assert failure.error_message == '{"status":"invalid_token"}'


def test_old_clients_send_messages_without_headers() -> None:
    """After a handshake of version 0."""
    harness = SaslHarness()
    client = harness.client()
    assert client.ask(SaslHandshakeV0(mechanism="PLAIN")).error_code is ErrorCode.none
    message = b"\0alice\0wonder"
    client.connection.data_received(pack(">i", len(message)) + message)
    assert client.frame() == b""
    client.send(ask_id())
    assert harness.asker.principal == "User:alice"


def test_old_clients_that_fail_are_closed_without_an_answer() -> None:
    client = SaslHarness().client()
    client.ask(SaslHandshakeV0(mechanism="PLAIN"))
    message = b"\0alice\0guess"
    client.connection.data_received(pack(">i", len(message)) + message)
    assert client.fail() is None


def test_version_0_of_sasl_authenticate_has_no_lifetime() -> None:
    client = SaslHarness(connections_max_reauth_ms="60000").client()
    client.handshake("PLAIN")
    answer = client.ask(SaslAuthenticateV0(auth_bytes=b"\0alice\0wonder"))
    assert answer.error_code is ErrorCode.none
    assert not hasattr(answer, "session_lifetime")


# --- before authentication ---


def test_api_versions_needs_no_authentication() -> None:
    harness = SaslHarness()
    client = harness.client()
    client.send(versions())
    assert len(harness.asked) == 1
    assert harness.asker.principal == "User:UNAUTHENTICATED"
    assert client.connection.peer is None


def test_nothing_else_is_served_before_authentication() -> None:
    for request in (ask_id(), ask_records(), sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonder")):
        harness = SaslHarness()
        client = harness.client()
        assert client.ask(request) is None
        assert client.fail() is None
        assert harness.asked == {}


def test_what_follows_a_failure_is_not_served() -> None:
    harness = SaslHarness()
    client = harness.client()
    client.handshake("PLAIN")
    client.message(b"\0alice\0guess")
    client.send(versions())
    client.send(sasl_authenticate.SaslAuthenticateRequest(auth_bytes=b"\0alice\0wonder"))
    harness.run_turns()
    assert client.fail().error_code is ErrorCode.sasl_authentication_failed
    assert harness.asked == {}


def test_a_mechanism_that_is_not_enabled_is_refused_with_those_that_are() -> None:
    harness = SaslHarness()
    client = harness.client()
    assert client.handshake("SCRAM-SHA-512") is None
    harness.run_timers()
    frame = client.frame()
    assert frame is not None
    answer = codec.decode_response(frame, sasl_handshake.SaslHandshakeRequest)[1]
    assert (answer.error_code, answer.mechanisms[0]) == (ErrorCode.unsupported_sasl_mechanism, "PLAIN")
    assert client.ended == "closed"


def test_a_second_handshake_is_an_illegal_state() -> None:
    harness = SaslHarness()
    client = harness.client()
    client.handshake("PLAIN")
    assert client.handshake("PLAIN") is None
    harness.run_timers()
    frame = client.frame()
    assert frame is not None
    answer = codec.decode_response(frame, sasl_handshake.SaslHandshakeRequest)[1]
    assert answer.error_code is ErrorCode.illegal_sasl_state
    assert client.ended == "closed"


def test_frames_are_small_until_a_client_is_authenticated() -> None:
    harness = SaslHarness(sasl_server_max_receive_size="1000")
    client = harness.client()
    client.connection.data_received(pack(">i", 1_001))
    assert client.ended == "aborted"
    client = harness.client()
    client.log_in()
    client.connection.data_received(pack(">i", 1_001))
    assert client.ended == ""


@pytest.mark.parametrize(
    "frame", [b"", b"\x00", b"\x00\x11", b"\x00\x11\x00\x09" + bytes(10), b"\x00\x11\x00\x01" + b"\xff" * 9]
)
def test_truncated_and_malformed_frames_close_the_connection(frame: bytes) -> None:
    client = SaslHarness().client()
    client.connection.data_received(pack(">i", len(frame)) + frame)
    assert client.ended == "aborted"


def test_a_client_id_does_not_make_a_connection_a_nodes_before_it_is_authenticated() -> None:
    harness = SaslHarness(serves_nodes=True)
    harness.listener.may_act_as_node = lambda client: client.principal == "User:alice"
    client = harness.client()
    client.send(versions(), "insync-node-2")
    assert client.connection.peer is None
    client = harness.client()
    client.log_in()
    client.send(ask_records(), "insync-node-2")
    assert client.connection.peer == 2
    impostor = harness.client()
    impostor.log_in("bob", "builder")
    impostor.send(ask_records(), "insync-node-2")
    assert impostor.connection.peer is None


# --- failures ---


@pytest.mark.parametrize("mechanism", ["PLAIN", SCRAM])
def test_an_unknown_user_and_a_wrong_password_are_answered_alike(mechanism: str) -> None:
    answers = []
    for user, password in (("alice", "guess"), ("mallory", "wonder")):
        client = SaslHarness().client()
        client.handshake(mechanism)
        if mechanism == "PLAIN":
            assert client.message(f"\0{user}\0{password}".encode()) is None
        else:
            scram = Scram("sha256", user, password, "nonce")
            proof = scram.answer(client.message(scram.first()).auth_bytes)
            assert proof is not None
            assert client.message(proof) is None
        failure = client.fail()
        answers.append((failure.error_code, failure.error_message))
    assert answers[0] == answers[1]
    assert answers[0][0] is ErrorCode.sasl_authentication_failed


def test_failures_are_logged_with_the_user_and_without_the_password(caplog: pytest.LogCaptureFixture) -> None:
    client = SaslHarness().client()
    with caplog.at_level(logging.INFO):
        assert client.log_in("evil\nevent=forged", "hunter2") is None
        client.fail()
    assert "event=authentication_failed listener=SASL client=10.0.0.1:5000 mechanism=PLAIN" in caplog.text
    assert "\nevent=forged" not in caplog.text
    assert "hunter2" not in caplog.text


def test_a_client_that_leaves_before_it_is_answered_is_forgotten() -> None:
    harness = SaslHarness()
    client = harness.client()
    client.handshake("PLAIN")
    client.message(b"\0alice\0guess")
    client.disconnect()
    harness.run_timers()
    assert client.frame() is None
    assert len(harness.listener.pending) == 0


# --- limits ---


def test_a_client_that_does_not_authenticate_is_closed() -> None:
    harness = SaslHarness()
    idle, served = harness.client(), harness.client()
    served.log_in()
    harness.listener.pending.close_overdue(time.monotonic_ns() + 11_000_000_000)
    assert (idle.ended, served.ended) == ("aborted", "")
    assert len(harness.listener.pending) == 0


def test_strangers_who_fill_the_memory_are_closed_before_users() -> None:
    """They may send little each, but come on many connections."""
    harness = SaslHarness()
    harness.listener.budget_received.limit = 300_000
    alice, strangers = harness.client(), [harness.client() for _ in range(4)]
    alice.log_in()
    alice.connection.data_received(pack(">i", 1_000_000) + bytes(200_000))
    for stranger in strangers:
        stranger.connection.data_received(pack(">i", 100_000) + bytes(60_000))
    assert alice.ended == ""
    assert [stranger.ended for stranger in strangers].count("aborted") == 3


def test_too_many_unauthenticated_connections_are_refused() -> None:
    harness = SaslHarness()
    clients = [harness.client() for _ in range(11)]
    assert [client.ended for client in clients] == [""] * 10 + ["aborted"]


# --- sessions that expire ---


class Clock:
    """Stands in for the module time."""

    def __init__(self) -> None:
        self.now = time.time()

    def time(self) -> float:
        return self.now

    def monotonic_ns(self) -> int:
        return int(self.now * 1e9)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(authentication, "time", made)
    return made


def session(harness: SaslHarness) -> SaslClient:
    client = harness.client()
    assert millis(client.log_in().session_lifetime) == 60_000
    return client


def served(harness: SaslHarness, client: SaslClient) -> bool:
    """Whether a request is served."""
    before = len(harness.asked)
    client.send(ask_id())
    return len(harness.asked) > before


def test_a_request_after_the_end_of_the_session_closes_the_connection(clock: Clock) -> None:
    harness = SaslHarness(connections_max_reauth_ms="60000")
    client = session(harness)
    clock.now += 59
    assert served(harness, client)
    clock.now += 2
    assert not served(harness, client)
    assert client.ended == "aborted"


def test_a_session_is_renewed_on_the_same_connection(clock: Clock) -> None:
    harness = SaslHarness(connections_max_reauth_ms="60000")
    client = session(harness)
    clock.now += 61
    assert millis(client.log_in().session_lifetime) == 60_000
    clock.now += 59
    assert served(harness, client)


def test_answers_of_a_renewal_wait_for_earlier_requests(clock: Clock) -> None:
    harness = SaslHarness(connections_max_reauth_ms="60000")
    client = session(harness)
    client.send(ask_id())
    clock.now += 30
    assert client.handshake("PLAIN") is None
    harness.answer(1, new_id())
    first, second = client.frame(), client.frame()
    assert first is not None
    assert second is not None
    assert codec.decode_response(second, sasl_handshake.SaslHandshakeRequest)[1].error_code is ErrorCode.none


def session_of_30_s(clock: Clock) -> tuple[SaslHarness, SaslClient]:
    """A client that logged in 30 seconds ago, for a session of a minute."""
    harness = SaslHarness(connections_max_reauth_ms="60000")
    client = session(harness)
    clock.now += 30
    return harness, client


def test_a_renewal_keeps_the_user_and_the_mechanism(clock: Clock) -> None:
    harness, client = session_of_30_s(clock)
    assert client.log_in("bob", "builder") is None
    failure = client.fail()
    assert failure.error_message == "Cannot change principals during re-authentication from User.alice: User.bob"
    client = session(harness)
    clock.now += 30
    client.handshake(SCRAM)
    assert client.message(b"n,,n=alice,r=x") is None
    assert "is not supported for re-authentication of mechanism 'PLAIN'" in client.fail().error_message


def test_logins_renewals_and_ends_of_sessions_are_counted(clock: Clock) -> None:
    harness, client = session_of_30_s(clock)
    client.log_in()
    clock.now += 61
    assert not served(harness, client)
    other = session(harness)
    clock.now += 30
    other.log_in("alice", "wrong")
    assert harness.sasl.counts == LoginCounts(successful=2, renewed=1, failed_renewals=1, expired=1)
    assert harness.sasl.failures.total == 1


def test_requests_during_a_renewal_are_not_served(clock: Clock) -> None:
    harness, client = session_of_30_s(clock)
    client.handshake("PLAIN")
    assert not served(harness, client)
    assert client.fail() is None


def test_a_session_is_renewed_at_most_once_a_second(clock: Clock) -> None:
    """As in Kafka, the node answers ILLEGAL_SASL_STATE then."""
    harness, client = session_of_30_s(clock)
    client.log_in()
    clock.now += 0.5
    client.handshake("PLAIN")
    assert len(harness.asked) == 1


def test_sessions_without_an_end_are_not_renewed() -> None:
    harness = SaslHarness()
    client = harness.client()
    client.log_in()
    client.handshake("PLAIN")
    assert len(harness.asked) == 1  # the node answers ILLEGAL_SASL_STATE


def test_the_shorter_of_both_limits_counts(clock: Clock) -> None:
    client = SaslHarness(connections_max_reauth_ms="5000").client()
    client.handshake("OAUTHBEARER")
    answer = client.message(first_message(unsecured({"sub": "carol", "exp": time.time() + 60})))
    assert millis(answer.session_lifetime) == 5_000
