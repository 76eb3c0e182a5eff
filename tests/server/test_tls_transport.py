"""TLS between a connection and its socket: what is joined, counted, paused, closed and refused."""

from __future__ import annotations

import gc
import logging
import ssl
import weakref
from pathlib import Path

import pytest

from insync.server import tls_transport
from insync.server.tls_transport import MAX_RECORDS_WITHOUT_DATA, NOT_TLS_ALERT, SLICE_RECORDS
from tests.server.tls_harness import NEVER_NS, TlsPair, authority, inline_settings, receive
from tests.server.tls_records import UPDATE_REQUESTED, Records12, Records13

RECORD_OVERHEAD = 64
"""More than a record of either version adds."""


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
def test_both_versions_carry_bytes_in_both_directions(version: str) -> None:
    pair = TlsPair(inline_settings(ssl_enabled_protocols=version)).established()
    tls: ssl.SSLObject = pair.server_tls.get_extra_info("ssl_object")
    assert tls.version() == version
    pair.client_tls.writelines([b"ask", b"ing"])
    pair.pump()
    pair.server_tls.write(b"answer")
    pair.pump()
    assert (pair.server.received, pair.client.received) == (b"asking", b"answer")


def test_the_protocol_is_connected_after_the_handshake() -> None:
    pair = TlsPair()
    assert pair.server.transport is pair.client.transport is None
    pair.established()
    assert pair.server.transport is pair.server_tls
    assert pair.client.transport is pair.client_tls


def test_a_request_right_behind_the_handshake_is_not_lost() -> None:
    """The last message of a client's handshake and its first request arrive in one piece."""
    pair = TlsPair()
    receive(pair.server_tls, pair.client_pipe.take())
    receive(pair.client_tls, pair.server_pipe.take())
    pair.client_tls.write(b"first request")
    receive(pair.server_tls, pair.client_pipe.take())
    assert pair.server.received == b"first request"


def test_small_pieces_become_one_record() -> None:
    pair = TlsPair().established()
    pair.server_tls.writelines([b"x" * 20] * 100)
    assert len(pair.server_pipe.buffer) < 2_000 + RECORD_OVERHEAD
    pair.pump()
    assert pair.client.received == b"x" * 2_000


def test_many_records_are_delivered_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls_transport, "READ_NS", NEVER_NS)  # however busy the machine is
    pair = TlsPair().established()
    pair.client_tls.write(bytes(200_000))
    pair.pump()
    assert (len(pair.server.received), pair.server.deliveries) == (200_000, 1)


def test_everything_that_a_client_has_not_read_is_counted() -> None:
    """Also what is encrypted: a client that does not read is a slow reader, and charged to the memory budget."""
    pair = TlsPair().established()
    pair.server_tls.set_write_buffer_limits(1 << 20)
    pair.server_tls.write(bytes(10 << 20))
    assert pair.server_tls.get_write_buffer_size() >= 10 << 20
    assert pair.server.paused
    assert len(pair.server_pipe.buffer) < 1 << 20  # the rest is not encrypted yet


def test_writing_goes_on_when_the_client_reads() -> None:
    pair = TlsPair().established()
    pair.server_tls.set_write_buffer_limits(1 << 20)
    data = bytes(range(256)) * (20 << 10)
    pair.server_tls.write(data)
    assert pair.server.paused
    pair.pump()
    assert pair.client.received == data
    assert not pair.server.paused
    assert pair.server_tls.get_write_buffer_size() == 0


@pytest.mark.parametrize("high", [1, 1_000, 1 << 16, 1 << 20])
def test_writing_is_never_left_paused(high: int) -> None:
    """Whatever the limit is, and however little the client reads at a time."""
    pair = TlsPair().established()
    pair.server_tls.set_write_buffer_limits(high)
    pair.server_tls.writelines([bytes(3_000)] * 500)
    while pair.server_pipe.buffer:
        receive(pair.client_tls, pair.server_pipe.take(50_000))
    assert not pair.server.paused
    assert len(pair.client.received) == 1_500_000


def test_reading_is_paused_at_the_socket() -> None:
    pair = TlsPair().established()
    pair.server_tls.pause_reading()
    assert not pair.server_pipe.reading
    pair.server_tls.resume_reading()
    assert pair.server_pipe.reading


def test_closing_sends_what_was_written_and_says_goodbye() -> None:
    pair = TlsPair().established()
    pair.server_tls.set_write_buffer_limits(1_000)
    pair.server_tls.write(bytes(100_000))
    pair.server_tls.close()
    assert pair.server_pipe.ended == "closed"
    receive(pair.client_tls, pair.server_pipe.take())
    assert len(pair.client.received) == 100_000
    assert pair.client.saw_eof
    assert pair.client_pipe.ended == "closed"


def test_the_end_of_the_socket_ends_the_connection() -> None:
    pair = TlsPair().established()
    pair.server_tls.eof_received()
    pair.server_tls.connection_lost(None)
    assert pair.server.saw_eof
    assert pair.server.lost == [None]


def test_damaged_records_end_the_connection_with_their_reason() -> None:
    pair = TlsPair().established()
    pair.client_tls.write(b"request")
    damaged = bytearray(pair.client_pipe.take())
    damaged[-1] ^= 1
    receive(pair.server_tls, bytes(damaged))
    assert pair.server_pipe.ended == "aborted"
    assert pair.server.received == b""
    pair.server_tls.connection_lost(None)
    assert isinstance(pair.server.lost[0], ssl.SSLError)


def test_an_ended_connection_is_freed_at_once() -> None:
    """A node collects garbage rarely, and the state of TLS is large."""
    pair = TlsPair().established()
    pair.server_tls.connection_lost(None)
    freed = weakref.ref(pair.server)
    gc.disable()
    try:
        pair.server.transport = None
        del pair.server
        pair.server_tls._owner = pair.client
        assert freed() is None
    finally:
        gc.enable()


# --- records that take long ---


def hands_over(version: str, tmp_path: Path) -> tuple[TlsPair, Records13 | Records12]:
    """An established connection, whose client makes its own records from now on."""
    key_log = tmp_path / "keys"
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256" if version == "TLSv1.2" else "TLS_AES_256_GCM_SHA384"
    settings = inline_settings(ssl_enabled_protocols=version, ssl_cipher_suites=suite)
    pair = TlsPair(settings, key_log=key_log)
    receive(pair.server_tls, pair.client_pipe.take())
    server_hello = bytes(pair.server_pipe.buffer)
    receive(pair.client_tls, pair.server_pipe.take())
    pair.established()
    return pair, Records13(key_log) if version == "TLSv1.3" else Records12(key_log, server_hello)


def test_a_client_may_change_its_keys(tmp_path: Path) -> None:
    pair, client = hands_over("TLSv1.3", tmp_path)
    assert isinstance(client, Records13)
    for number in range(3 * MAX_RECORDS_WITHOUT_DATA):
        receive(pair.server_tls, client.key_update() + client.data(bytes((number,))))
    receive(pair.server_tls, client.key_update(UPDATE_REQUESTED) + client.data(b"last"))
    assert pair.server.received == bytes(range(3 * MAX_RECORDS_WITHOUT_DATA)) + b"last"
    assert pair.server_pipe.ended == ""
    pair.server_tls.write(b"answer")
    pair.pump()  # the server has changed its keys, too
    assert pair.client.received == b"answer"


@pytest.mark.parametrize("together", [True, False])
def test_endless_changes_of_keys_end_the_connection(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, together: bool
) -> None:
    """Each costs the server as much as a request, and no limit of requests would see it."""
    pair, client = hands_over("TLSv1.3", tmp_path)
    assert isinstance(client, Records13)
    flood = [client.data(b"x"), *(client.key_update() for _ in range(10_000))]
    with caplog.at_level(logging.INFO):
        for part in [b"".join(flood)] if together else flood:
            receive(pair.server_tls, part)
    assert pair.server_pipe.ended == "aborted"
    assert "event=connection_closed reason=tls_error" in caplog.text
    assert len(pair.server_tls._unread) == 0


def test_renegotiation_is_refused(tmp_path: Path) -> None:
    pair, client = hands_over("TLSv1.2", tmp_path)
    assert isinstance(client, Records12)
    receive(pair.server_tls, client.client_hello() + client.data(b"request"))
    assert pair.server.received == b"request"
    assert len(pair.server_pipe.buffer) < RECORD_OVERHEAD  # an alert
    assert pair.server.handshakes == [None]


def test_endless_renegotiation_ends_the_connection(tmp_path: Path) -> None:
    """Each attempt is answered, and a client that does not read would fill the memory with the answers."""
    pair, client = hands_over("TLSv1.2", tmp_path)
    assert isinstance(client, Records12)
    receive(pair.server_tls, b"".join(client.client_hello() for _ in range(10_000)))
    assert pair.server_pipe.ended == "aborted"
    assert len(pair.server_pipe.buffer) < (MAX_RECORDS_WITHOUT_DATA + SLICE_RECORDS) * RECORD_OVERHEAD


def test_answers_to_tls_messages_count_as_unread(tmp_path: Path) -> None:
    pair, client = hands_over("TLSv1.3", tmp_path)
    assert isinstance(client, Records13)
    pair.server_tls.set_write_buffer_limits(1_000)
    for _ in range(100):
        receive(pair.server_tls, client.key_update(UPDATE_REQUESTED) + client.data(b"x"))
    assert pair.server.paused


def test_tiny_records_are_decrypted_in_turns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair, client = hands_over("TLSv1.3", tmp_path)
    monkeypatch.setattr(tls_transport, "READ_NS", 0)
    pair.server.defers = True
    sent = bytes(index % 256 for index in range(10 * SLICE_RECORDS))
    receive(pair.server_tls, b"".join(client.data(bytes((value,))) for value in sent))
    assert pair.server.received == sent[:SLICE_RECORDS]
    assert not pair.server_pipe.reading
    turns = 0
    assert pair.server.waiting == [pair.server_tls]
    while pair.server_tls.serve(until_ns=0):
        turns += 1
        assert len(pair.server.received) == (turns + 1) * SLICE_RECORDS
        assert not pair.server_pipe.reading
    assert pair.server.received == sent
    assert pair.server_pipe.reading


def test_nothing_is_delivered_while_the_protocol_does_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pair, client = hands_over("TLSv1.3", tmp_path)
    monkeypatch.setattr(tls_transport, "READ_NS", 0)
    pair.server.defers = True
    receive(pair.server_tls, b"".join(client.data(b"x") for _ in range(3 * SLICE_RECORDS)))
    pair.server_tls.pause_reading()
    assert not pair.server_tls.serve(until_ns=0)
    assert len(pair.server.received) == SLICE_RECORDS
    pair.server.waiting.clear()
    pair.server_tls.resume_reading()
    assert not pair.server_pipe.reading  # what has arrived comes first
    assert pair.server.waiting == [pair.server_tls]
    while pair.server_tls.serve(until_ns=0):
        pass
    assert len(pair.server.received) == 3 * SLICE_RECORDS
    assert pair.server_pipe.reading


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 1_000, 20_000])
def test_records_arrive_in_pieces_of_any_size(size: int) -> None:
    """Headers, too, are split."""
    pair = TlsPair().established()
    data = bytes(range(251)) * 200
    pair.client_tls.writelines([data[:10], data[10:]])
    for piece in (data[:1], data[1:2], data[2:]):
        pair.client_tls.write(piece)
    sent = b""
    while pair.client_pipe.buffer:
        sent += pair.client_pipe.take()
    for start in range(0, len(sent), size):
        receive(pair.server_tls, sent[start : start + size])
    assert pair.server.received == data * 2


# --- handshakes that fail ---


def failed(pair: TlsPair) -> tuple[Exception | None, Exception | None]:
    pair.pump()
    return pair.server.handshakes[0] if pair.server.handshakes else None, (
        pair.client.handshakes[0] if pair.client.handshakes else None
    )


def test_what_is_not_tls_is_refused() -> None:
    pair = TlsPair()
    receive(pair.server_tls, b"\x00\x00\x00\x10\x00\x12\x00\x00GET / HTTP/1.1\r\n\r\n")
    (error,) = pair.server.handshakes
    assert isinstance(error, ssl.SSLError)
    assert pair.server_pipe.ended == "closed"
    assert pair.server_pipe.take() == NOT_TLS_ALERT
    assert pair.server.transport is None


def test_a_handshake_that_is_given_up_ends_once() -> None:
    pair = TlsPair()
    pair.server_tls.give_up("slow_authentication", "10 s")
    receive(pair.server_tls, pair.client_pipe.take())
    pair.server_tls.connection_lost(None)
    assert [str(error) for error in pair.server.handshakes] == ["slow_authentication: 10 s"]
    assert pair.server_pipe.ended == "aborted"
    assert pair.server.lost == []


def test_a_client_that_leaves_during_the_handshake_ends_it() -> None:
    pair = TlsPair()
    pair.server_tls.connection_lost(None)
    assert isinstance(pair.server.handshakes[0], ConnectionResetError)


def test_a_certificate_for_another_name_is_refused_by_the_client() -> None:
    error = failed(TlsPair(name="other.example.com"))[1]
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert error.verify_code == 62


def test_the_check_of_names_can_be_disabled() -> None:
    settings = inline_settings("client", hosts=(), ssl_endpoint_identification_algorithm="")
    TlsPair(client=settings, name="other.example.com").established()


def test_a_stranger_is_refused() -> None:
    stranger = authority("another CA").issue("mallory")
    own = {
        **inline_settings("client", hosts=()),
        "ssl.keystore.certificate.chain": stranger.certificate_pem,
        "ssl.keystore.key": stranger.key_pem(),
    }
    pair = TlsPair(inline_settings(ssl_client_auth="required"), own)
    assert isinstance(failed(pair)[0], ssl.SSLCertVerificationError)
    assert pair.server.transport is None
    # With TLS 1.3 the client has finished before the server has looked at its certificate; it learns of it afterwards.
    pair.client_tls.connection_lost(None)
    assert isinstance(pair.client.lost[0], ssl.SSLError)


@pytest.mark.parametrize(("demand", "passes"), [("none", True), ("requested", True), ("required", False)])
def test_a_client_without_a_certificate_passes_unless_one_is_required(demand: str, passes: bool) -> None:
    anonymous = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority().certificate_pem}
    pair = TlsPair(inline_settings(ssl_client_auth=demand), anonymous)
    pair.pump()
    assert (pair.server.handshakes == [None]) is passes


def test_an_expired_certificate_is_refused() -> None:
    expired = authority().issue("node", hosts=("localhost",), is_expired=True)
    own = {
        **inline_settings(),
        "ssl.keystore.certificate.chain": expired.certificate_pem,
        "ssl.keystore.key": expired.key_pem(),
    }
    error = failed(TlsPair(own))[1]
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert "expired" in error.verify_message


def test_no_common_version_is_refused() -> None:
    old = inline_settings("client", hosts=(), ssl_enabled_protocols="TLSv1.2")
    error = failed(TlsPair(inline_settings(ssl_enabled_protocols="TLSv1.3"), old))[0]
    assert isinstance(error, ssl.SSLError)


def test_every_truncation_of_a_handshake_only_waits() -> None:
    hello = TlsPair().client_pipe.take()
    for size in range(0, len(hello), 7):
        pair = TlsPair()
        receive(pair.server_tls, hello[:size])
        assert (pair.server.handshakes, pair.server_pipe.ended) == ([], "")
