"""Requests to other nodes over real sockets, with the same rules as in the simulated network."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from struct import pack, unpack

import pytest

from insync.sansio import Event, PeerLost, Response, Send
from insync.security.sasl import ClientLogin, SaslServer, SaslSettings
from insync.security.scram import ScramUsers, make_credential
from insync.security.tls import TlsSettings
from insync.server.acceptor import PeerSecurity
from insync.server.authentication import SaslSession
from insync.server.peers import HANDSHAKE_RESETS, Peers, Route, node_id_of_client
from insync.server.pending import PendingConnections
from insync.server.tls_contexts import TlsListener, TlsPeers
from insync.server.turns import Turns
from insync.wire import codec
from insync.wire.errors import ErrorCode
from insync.wire.messages import broker_heartbeat
from insync.wire.types import NO_DURATION
from insync.wire.versions.translator import VersionTranslator
from tests.server.connection_harness import Names
from tests.server.tls_harness import HOSTS, authority, inline_settings

TIMEOUT_S = 10
REQUEST = broker_heartbeat.BrokerHeartbeatRequest(
    broker_id=1, broker_epoch=2, current_metadata_offset=3, want_fence=False, want_shut_down=False
)
ANSWER = broker_heartbeat.BrokerHeartbeatResponse(
    throttle_time=NO_DURATION, error_code=ErrorCode.none, should_shut_down=False
)


class _Peer:
    """A listening socket whose answers the test controls."""

    def __init__(self, sasl: SaslServer | None = None) -> None:
        self.sasl = sasl
        self.frames: asyncio.Queue[tuple[codec.RequestHeader, asyncio.StreamWriter]] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []

    async def listen(self, tls: ssl.SSLContext | None = None) -> None:
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=tls)
        self.port: int = self.server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        session = None if self.sasl is None else SaslSession(self.sasl, VersionTranslator(Names()))
        try:
            while True:
                (length,) = unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(length)
                answer = None if session is None else session.receive(frame)
                if answer is not None:
                    writer.writelines(answer.pieces)
                else:
                    header, _ = codec.decode_request(frame)
                    await self.frames.put((header, writer))
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    def answer(self, header: codec.RequestHeader, writer: asyncio.StreamWriter) -> None:
        frame = codec.encode_response(ANSWER, header.correlation_id)
        writer.write(pack(">i", len(frame)) + frame)

    def die(self) -> None:
        self.server.close()
        for writer in self.writers:
            writer.transport.abort()


Scenario = Callable[[Peers, _Peer, "asyncio.Queue[Event]"], Awaitable[None]]


def run_scenario(
    scenario: Scenario,
    server: ssl.SSLContext | None = None,
    client: TlsPeers | None = None,
    sasl: SaslServer | None = None,
    login: ClientLogin | None = None,
) -> None:
    async def run() -> None:
        loop, events, peer = asyncio.get_running_loop(), asyncio.Queue[Event](), _Peer(sasl)
        await peer.listen(server)
        route = Route("127.0.0.1", peer.port, PeerSecurity(client, login))
        peers = Peers(1, lambda node, channel: route if node == 2 else None, events.put_nowait, loop)
        try:
            await asyncio.wait_for(scenario(peers, peer, events), TIMEOUT_S)
        finally:
            peers.close()
            peer.die()

    asyncio.run(run())


def _send(peer: int = 2, timeout_ms: int = 60_000, channel: str = "heartbeat") -> Send:
    return Send(peer, channel, REQUEST, lambda response, now: None, timeout_ms)


async def exchange(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
    """Send requests together; each gets its own answer."""
    sends = [_send() for _ in range(3)]
    for send in sends:
        peers.send(send)
    for send in sends:
        peer.answer(*await peer.frames.get())
        event = await events.get()
        assert isinstance(event, Response)
        assert (event.send, event.response) == (send, ANSWER)


async def be_refused(peers: Peers, events: asyncio.Queue[Event]) -> None:
    for _ in range(3):
        peers.send(_send())
        event = await events.get()
        assert isinstance(event, Response)
        assert event.response is None
        peers._retry_at.clear()


async def lose_peer(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
    """The peer dies with a request unanswered, and is reported as lost."""
    peers.send(_send())
    await peer.frames.get()
    peer.die()
    while not isinstance(await events.get(), PeerLost):
        pass


def test_requests_of_one_channel_share_a_connection_and_keep_their_order() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        await exchange(peers, peer, events)
        assert len(peer.writers) == 1

    run_scenario(scenario)


def test_every_channel_has_its_own_connection() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        for channel in ("fetch", "quorum"):
            peers.send(_send(channel=channel))
            await peer.frames.get()
        assert len(peer.writers) == 2

    run_scenario(scenario)


def test_the_client_id_of_a_node_has_its_node_id() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        peers.send(_send())
        header, _ = await peer.frames.get()
        assert node_id_of_client(header.client_id) == 1

    run_scenario(scenario)
    assert [
        node_id_of_client(name) for name in (None, "", "rdkafka", "insync-node-", "insync-node-x", "insync-node-²")
    ] == [None] * 6


def test_a_request_that_is_not_answered_in_time_loses_the_others_on_its_connection() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        patient, hasty = _send(), _send(timeout_ms=30)
        peers.send(patient)
        peers.send(hasty)
        lost = [await events.get(), await events.get()]
        assert [(e.send, e.response) for e in lost if isinstance(e, Response)] == [(patient, None), (hasty, None)]
        peers.send(_send())
        for _ in range(3):
            await peer.frames.get()
        assert len(peer.writers) == 2
        assert events.empty()  # a connection closed from here says nothing about the peer

    run_scenario(scenario)


def test_an_unknown_peer_and_one_that_does_not_listen_give_no_answer() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        peer.server.close()
        await peer.server.wait_closed()
        for send in (_send(peer=9), _send()):
            peers.send(send)
            event = await events.get()
            assert isinstance(event, Response)
            assert (event.send, event.response) == (send, None)

    run_scenario(scenario)


def test_a_peer_that_drops_its_connections_is_lost_and_that_is_repeated() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        send = _send()
        peers.send(send)
        await peer.frames.get()
        peer.die()
        seen = [await events.get() for _ in range(4)]
        assert [e.send for e in seen if isinstance(e, Response)] == [send]
        assert [e.peer for e in seen if isinstance(e, PeerLost)] == [2, 2, 2]

    run_scenario(scenario)


def test_a_peer_with_another_connection_left_is_not_lost() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        for channel in ("fetch", "quorum"):
            peers.send(_send(channel=channel))
        for _ in range(2):
            await peer.frames.get()
        peer.writers[0].transport.abort()
        assert isinstance(await events.get(), Response)
        peer.answer(codec.RequestHeader(63, 1, 1, None), peer.writers[1])
        assert isinstance(await events.get(), Response)
        assert events.empty()

    run_scenario(scenario)


def test_a_malformed_answer_resets_the_connection() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        peers.send(_send())
        _, writer = await peer.frames.get()
        writer.write(pack(">i", 3) + b"abc")
        event = await events.get()
        assert isinstance(event, Response)
        assert event.response is None

    run_scenario(scenario)


def test_a_client_that_claims_to_be_an_unknown_node_is_not_probed() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        for stranger in range(100, 1_100):
            peers.on_connected(stranger)
            peers.on_dropped(stranger)
        assert not peers.lost
        assert not peers._tasks
        assert not peers._open

    run_scenario(scenario)


def test_a_peer_that_leaves_the_cluster_is_no_longer_probed() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        await lose_peer(peers, peer, events)
        peers.route_to = lambda node, channel: None
        while peers._tasks:
            await asyncio.sleep(0.01)
        assert not peers.lost

    run_scenario(scenario)


# --- TLS ---


def server_context(hosts: tuple[str, ...] = HOSTS, **more: str) -> ssl.SSLContext:
    settings = TlsSettings.of_listener(inline_settings(hosts=hosts, **more))
    return settings.server_context(settings.read())


def tls_peers(*, authority_name: str = "insync test CA", **more: str) -> TlsPeers:
    settings = inline_settings("node", hosts=(), **more)
    settings["ssl.truststore.certificates"] = authority(authority_name).certificate_pem
    return TlsPeers("SSL", TlsSettings.of(settings))


def test_requests_travel_over_tls() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        await exchange(peers, peer, events)

    run_scenario(scenario, server_context(ssl_client_auth="required"), tls_peers())


@pytest.mark.parametrize(
    ("server", "client", "reason"),
    [
        (server_context(), tls_peers(authority_name="another CA"), "certificate of the other side was rejected"),
        (server_context(hosts=("elsewhere",)), tls_peers(), "certificate of the other side was rejected"),
    ],
)
def test_a_peer_that_refuses_tls_is_alive_and_reported_once(
    server: ssl.SSLContext, client: TlsPeers, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        await be_refused(peers, events)
        assert reason in peers.denied[2]
        peers._probe(2)
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert events.empty()  # no PeerLost

    with caplog.at_level(logging.ERROR):
        run_scenario(scenario, server, client)
    assert caplog.text.count("event=peer_denied") == 1


def test_a_peer_that_expects_tls_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Its listener answers a plain request with an alert."""

    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        loop = asyncio.get_running_loop()
        settings, pending = TlsSettings.of_listener(inline_settings()), PendingConnections(10, 10_000)
        tls = TlsListener("SSL", settings, pending, Turns(loop.call_soon))
        server = await loop.create_server(lambda: tls.wrap(asyncio.Protocol()), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        peers.route_to = lambda node, channel: Route("127.0.0.1", port)
        peers.send(_send())
        await events.get()
        assert peers.denied == {2: "it expects TLS"}
        server.close()

    with caplog.at_level(logging.ERROR):
        run_scenario(scenario)
    assert "listener.security.protocol.map" in caplog.text


def test_a_peer_that_closes_every_handshake_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    """One that does so once may just have died."""

    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        server = await asyncio.start_server(lambda _, writer: writer.transport.abort(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        client = tls_peers()
        peers.route_to = lambda node, channel: Route("127.0.0.1", port, PeerSecurity(client))
        for attempt in range(HANDSHAKE_RESETS):
            assert "event=peer_denied" not in caplog.text, attempt
            peers.send(_send())
            await events.get()
        server.close()

    with caplog.at_level(logging.ERROR):
        run_scenario(scenario)
    assert "does not speak TLS" in caplog.text


def test_a_peer_that_refused_is_not_tried_again_at_once() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        for _ in range(20):
            peers.send(_send())
            await events.get()
        assert len(peer.writers) == 0
        peers._retry_at.clear()
        peers.route_to = lambda node, channel: Route("127.0.0.1", peer.port, PeerSecurity(tls_peers()))
        peers.send(_send())
        peer.answer(*await peer.frames.get())
        await events.get()
        assert peers.denied == {}

    run_scenario(scenario, server_context(), tls_peers(authority_name="another CA"))


def test_a_refused_port_is_death_with_tls_too() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        await lose_peer(peers, peer, events)

    run_scenario(scenario, server_context(), tls_peers())


# --- SASL ---

SCRAM = "SCRAM-SHA-256"
USERS = ScramUsers.of({(SCRAM, "node"): make_credential(SCRAM, "n0de", b"salt", 4_096)})


def sasl_server(max_reauth_ms: int = 0) -> SaslServer:
    settings = {"sasl.enabled.mechanisms": SCRAM, "connections.max.reauth.ms": str(max_reauth_ms)}
    return SaslServer(SaslSettings.of(settings), lambda: USERS, None)


def login(password: str = "n0de", mechanism: str = SCRAM) -> ClientLogin:
    return ClientLogin(mechanism=mechanism, username="node", password=password, setting="the JAAS setting")


def test_a_connection_is_authenticated_before_the_first_request() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        await exchange(peers, peer, events)
        assert len(peer.writers) == 1

    run_scenario(scenario, sasl=sasl_server(), login=login())


@pytest.mark.parametrize(
    ("used", "reason"),
    [(login("guess"), "rejected user 'node'"), (login(mechanism="SCRAM-SHA-512"), "offers SCRAM-SHA")],
)
def test_a_login_that_is_refused_is_reported_once_and_is_not_death(
    used: ClientLogin, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        await be_refused(peers, events)
        assert reason in peers.denied[2]
        assert events.empty()  # no PeerLost

    with caplog.at_level(logging.ERROR):
        run_scenario(scenario, sasl=sasl_server(), login=used)
    assert caplog.text.count("event=peer_denied") == 1
    assert "guess" not in caplog.text


def test_a_session_that_expires_is_replaced_between_two_requests() -> None:
    """Before it has expired, and only when no answer is outstanding."""

    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        peers.send(_send())
        header, writer = await peer.frames.get()
        (connection,) = peers._connections.values()
        assert 0 < connection.renew_at - asyncio.get_running_loop().time() <= 50
        connection.renew_at = 0.001  # long ago
        peers.send(_send())
        peer.answer(header, writer)
        peer.answer(*await peer.frames.get())
        for _ in range(2):
            event = await events.get()
            assert isinstance(event, Response)
            assert event.response == ANSWER
        assert len(peer.writers) == 1
        peers.send(_send())
        peer.answer(*await peer.frames.get())
        await events.get()
        assert len(peer.writers) == 2

    run_scenario(scenario, sasl=sasl_server(max_reauth_ms=60_000), login=login())


def test_a_peer_that_dies_during_the_login_is_reported_as_lost() -> None:
    async def scenario(peers: Peers, peer: _Peer, events: asyncio.Queue[Event]) -> None:
        peers.send(_send())
        while not peer.writers:
            await asyncio.sleep(0.001)
        peer.die()
        kinds = [type(await events.get()) for _ in range(2)]
        assert kinds == [Response, PeerLost]

    run_scenario(scenario, sasl=sasl_server(), login=login())
