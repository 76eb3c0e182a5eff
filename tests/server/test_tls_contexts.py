"""The TLS of a node's listeners: certificates that are replaced while it runs, limits of handshakes, principals."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections import deque
from collections.abc import Callable
from itertools import count
from pathlib import Path
from struct import pack
from time import monotonic, monotonic_ns

import pytest

from insync.security.errors import SecuritySettingError
from insync.security.tls import TlsSettings
from insync.server import failure_log
from insync.server import pending as pending_connections
from insync.server.acceptor import Acceptor
from insync.server.connection import Connection
from insync.server.pending import PendingConnections
from insync.server.tls_contexts import TlsListener, TlsPeers, TlsReloader
from insync.server.turns import TLS_SLICE_NS, Turns
from insync.wire import codec
from tests.server.connection_harness import START_NS, ConnectionHarness, ask_id, new_id
from tests.server.tls_harness import HOSTS, End, Pipe, TlsPair, authority, inline_settings, receive, write_files


def listener(settings: dict[str, str], limit: int = 10, timeout_ms: int = 1_000) -> TlsListener:
    turns = Turns(deque[Callable[[], None]]().append, lambda: START_NS)
    return TlsListener("SSL", TlsSettings.of_listener(settings), PendingConnections(limit, timeout_ms), turns)


def accept(tls: TlsListener, address: str = "10.0.0.1") -> tuple[End, Pipe]:
    end, pipe = End(), Pipe(address)
    transport = tls.wrap(end)
    pipe.end = transport
    transport.connection_made(pipe)  # type: ignore[arg-type]
    return end, pipe


# --- certificates that change ---


def reload(context: TlsListener) -> None:
    loop = asyncio.new_event_loop()
    try:
        loop.run_until_complete(TlsReloader([context], loop).reload(context))
    finally:
        loop.close()


def shown(context: TlsListener) -> bytes:
    """The certificate that a client gets."""
    pair = TlsPair(accept=context.wrap).established()
    certificate = pair.client_tls.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert isinstance(certificate, bytes)
    return certificate


def test_a_new_certificate_is_used_once_its_file_has_stopped_changing(tmp_path: Path) -> None:
    context = listener(write_files(tmp_path))
    before = shown(context)
    assert not context.has_settled_change()
    renewed = authority().issue("node", hosts=HOSTS)
    renewed.write(tmp_path / "node.pem")
    assert not context.has_settled_change()  # it may not be complete
    assert context.has_settled_change()
    reload(context)
    assert not context.has_settled_change()
    assert shown(context) == ssl.PEM_cert_to_DER_cert(renewed.certificate_pem) != before


def test_a_broken_file_leaves_the_old_certificate_in_use(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    context = listener(write_files(tmp_path))
    before = shown(context)
    (tmp_path / "node.pem").write_text("half of a file")
    assert [context.has_settled_change() for _ in range(2)] == [False, True]
    with caplog.at_level(logging.ERROR):
        reload(context)
    assert "event=tls_not_reloaded" in caplog.text
    assert "ssl.keystore.location" in caplog.text
    assert not context.has_settled_change()  # it is reported once
    assert shown(context) == before


def test_a_file_that_is_missing_for_a_moment_does_no_harm(tmp_path: Path) -> None:
    context = listener(write_files(tmp_path))
    os.rename(tmp_path / "node.pem", tmp_path / "away.pem")
    assert not context.has_settled_change()
    os.rename(tmp_path / "away.pem", tmp_path / "node.pem")
    assert not context.has_settled_change()
    assert not context.has_settled_change()


@pytest.mark.parametrize(
    ("name", "hosts", "setting", "problem"),
    [
        ("another", HOSTS, "ssl.allow.dn.changes", "CN=another"),
        ("node", ("localhost",), "ssl.allow.san.changes", "lacks names"),
    ],
)
def test_a_certificate_for_another_subject_or_fewer_names_needs_a_setting(
    tmp_path: Path, name: str, hosts: tuple[str, ...], setting: str, problem: str
) -> None:
    settings = write_files(tmp_path)
    strict, lenient = listener(settings), listener({**settings, setting: "true"})
    changed = authority().issue(name, hosts=hosts)
    changed.write(tmp_path / "node.pem")
    with pytest.raises(SecuritySettingError, match=problem) as caught:
        strict.reload()
    assert setting in str(caught.value)
    lenient.reload()
    assert shown(lenient) == ssl.PEM_cert_to_DER_cert(changed.certificate_pem)


def test_what_an_operator_should_know_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = write_files(tmp_path)
    authority().issue("node", hosts=HOSTS, is_expired=True).write(tmp_path / "node.pem")
    (tmp_path / "node.pem").chmod(0o644)
    loop = asyncio.new_event_loop()
    settings["ssl.cipher.suites"] = "TLS_AES_256_GCM_SHA384"
    reloader = TlsReloader([listener(settings), TlsPeers("SSL", TlsSettings.of(settings))], loop)
    with caplog.at_level(logging.INFO):
        reloader.start()
    reloader.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert "side=server certificate='CN=node, valid until 20" in caplog.text
    for event in ("certificate_expired", "private_key_exposed", "cipher_suites_not_restricted"):
        assert caplog.text.count(f"event={event}") == 1


# --- limits ---


def test_a_slow_handshake_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    tls = listener(inline_settings(), timeout_ms=1_000)
    end, pipe = accept(tls)
    tls._pending.close_overdue(monotonic_ns())
    assert pipe.ended == ""
    with caplog.at_level(logging.INFO):
        tls._pending.close_overdue(monotonic_ns() + 1_100_000_000)
    assert pipe.ended == "aborted"
    assert "slow_authentication: not complete in 1000 ms" in caplog.text
    assert end.transport is None
    assert len(tls._pending) == 0


def test_when_there_are_too_many_handshakes_the_newest_is_refused() -> None:
    tls = listener(inline_settings(), limit=3)
    ends = [accept(tls) for _ in range(4)]
    assert [pipe.ended for _, pipe in ends] == ["", "", "", "aborted"]


def test_a_flood_from_one_address_does_not_keep_others_out() -> None:
    tls = listener(inline_settings(), limit=4)
    flood = [accept(tls) for _ in range(4)]
    others = [accept(tls, f"10.0.0.{number}") for number in (2, 3)]
    flood.append(accept(tls))
    assert [pipe.ended for _, pipe in flood] == ["aborted", "aborted", "", "", "aborted"]
    assert [pipe.ended for _, pipe in others] == ["", ""]


def test_a_slow_handshake_makes_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    tls = listener(inline_settings(), limit=2)
    ends = [accept(tls), accept(tls)]
    now = monotonic_ns()
    monkeypatch.setattr(pending_connections, "monotonic_ns", lambda: now + 2 * pending_connections.SLOW_NS)
    ends.append(accept(tls))
    assert [pipe.ended for _, pipe in ends] == ["aborted", "", ""]


def test_a_completed_handshake_is_not_pending() -> None:
    tls = listener(inline_settings(), limit=1)
    shown(tls)
    assert len(tls._pending) == 0


def test_a_burst_of_handshakes_is_made_in_turns() -> None:
    """Meanwhile an established connection is served in every iteration of the loop."""
    soon: deque[Callable[[], None]] = deque()
    ticks = count(START_NS, 100_000)  # every look at the clock takes 0.1 ms
    turns = Turns(soon.append, lambda: next(ticks))
    settings = TlsSettings.of_listener(inline_settings())
    tls = TlsListener("SSL", settings, PendingConnections(100, 10_000), turns)
    harness = ConnectionHarness()
    harness.listener.turns = turns
    established = harness.connect()
    pairs = [TlsPair(accept=tls.wrap) for _ in range(60)]
    for pair in pairs:
        receive(pair.server_tls, pair.client_pipe.take())
    begun = sum(bool(pair.server_pipe.buffer) for pair in pairs)
    assert 0 < begun <= TLS_SLICE_NS // 100_000
    assert [pair.server_pipe.reading for pair in pairs] == [True] * begun + [False] * (60 - begun)
    iterations = 0
    while soon or any(pair.client_pipe.buffer or pair.server_pipe.buffer for pair in pairs):
        iterations += 1
        token = established.send(ask_id())
        for _ in range(len(soon)):
            soon.popleft()()
        harness.answer(token, new_id())
        assert established.received[-1] == token
        for pair in pairs:
            receive(pair.client_tls, pair.server_pipe.take())
            if pair.server_pipe.reading:
                receive(pair.server_tls, pair.client_pipe.take())
    assert all(pair.server.transport is pair.server_tls for pair in pairs)
    assert all(pair.server_pipe.reading for pair in pairs)
    assert iterations >= 3  # each has two steps, and 20 take a slice, in turns and again when their bytes arrive
    assert len(tls._pending) == 0


def test_a_silent_connection_costs_no_tls_state() -> None:
    tls = listener(inline_settings())
    _, pipe = accept(tls)
    assert pipe.end.get_extra_info("ssl_object") is None


def test_a_handshake_that_is_given_up_while_it_waits_for_its_turn_is_not_made() -> None:
    soon: deque[Callable[[], None]] = deque()
    ticks = count(START_NS, 10 * TLS_SLICE_NS)
    turns = Turns(soon.append, lambda: next(ticks))
    tls = TlsListener("SSL", TlsSettings.of_listener(inline_settings()), PendingConnections(10, 1_000), turns)
    pairs = [TlsPair(accept=tls.wrap) for _ in range(2)]
    for pair in pairs:
        receive(pair.server_tls, pair.client_pipe.take())
    tls._pending.close_overdue(monotonic_ns() + 1_100_000_000)
    while soon:
        soon.popleft()()
    assert [bool(pair.server_pipe.buffer) for pair in pairs] == [True, False]
    assert [pair.server_pipe.ended for pair in pairs] == ["aborted", "aborted"]


def test_a_flood_of_failures_does_not_flood_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = listener(inline_settings(), limit=100)
    with caplog.at_level(logging.INFO):
        for _ in range(3 * failure_log.LINES):
            receive(accept(tls)[1].end, b"this is not TLS")
        assert caplog.text.count("event=tls_handshake_failed") == failure_log.LINES
        now = monotonic()
        monkeypatch.setattr(failure_log, "monotonic", lambda: now + failure_log.WINDOW_S)
        receive(accept(tls)[1].end, b"this is not TLS")
    assert f"not_logged={2 * failure_log.LINES}" in caplog.text


# --- principals ---


def connect(acceptor: Acceptor) -> tuple[ConnectionHarness, TlsPair]:
    """A connection of alice, who has sent a request."""
    tls = acceptor.tls
    assert tls is not None
    harness = ConnectionHarness(acceptor)
    alice = authority().issue("alice", organization="example")
    own = {
        **inline_settings(),
        "ssl.keystore.certificate.chain": alice.certificate_pem,
        "ssl.keystore.key": alice.key_pem(),
    }
    connection = Connection(harness.listener, acceptor)
    pair = TlsPair(client=own, accept=lambda _: tls.wrap(connection)).established()
    frame = codec.encode_request(ask_id(), 1, "test")
    pair.client_tls.writelines([pack(">i", len(frame)), frame])
    pair.pump()
    return harness, pair


@pytest.mark.parametrize(
    ("auth", "rules", "principal"),
    [
        ("none", "", "User:ANONYMOUS"),
        ("required", "", "User:CN=alice,O=example"),
        ("requested", "RULE:^CN=(.*?),.*$/$1/U,DEFAULT", "User:ALICE"),
    ],
)
def test_the_principal_comes_from_the_certificate(auth: str, rules: str, principal: str) -> None:
    tls = listener(inline_settings(ssl_client_auth=auth, ssl_principal_mapping_rules=rules))
    harness, pair = connect(Acceptor("SSL", False, tls))
    assert harness.asker.principal == principal
    harness.answer(1, new_id())
    pair.pump()
    assert pair.client.received


def test_a_certificate_without_a_principal_is_refused() -> None:
    tls = listener(inline_settings(ssl_client_auth="required", ssl_principal_mapping_rules="RULE:^CN=bob$/bob/"))
    harness, pair = connect(Acceptor("SSL", False, tls))
    assert harness.asked == {}
    assert pair.server_pipe.ended == "aborted"
