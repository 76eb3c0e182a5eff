"""Requests to other nodes: one connection per (peer, channel), requests pipelined in order.

The rules are those of the simulated network. Each `Send` gets exactly one answer. A request that is not answered in
time resets its connection, and every other request on it is lost too. Nothing is sent twice: the sender decides.

The client id of a node's requests contains its node id, so that both ends of a connection know the other. When the
last connection with a peer drops and its address refuses connections, its process has died: `PeerLost`. A connection
that was only reset proves nothing, or a node that wakes from a long pause would take all others for dead. While the
address refuses connections, `PeerLost` is repeated now and then, for a controller that was elected meanwhile.

A peer that refuses TLS or authentication is alive. It is reported once, with what to do, and tried again after a while.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter, deque
from collections.abc import Callable, Mapping
from struct import Struct
from typing import TYPE_CHECKING, Any, NamedTuple

from insync.escaping import log_value
from insync.node import forwarding, lifecycle, producer_ids
from insync.quorum.config import FETCH_CHANNEL, QUORUM_CHANNEL
from insync.replication import alter_partition
from insync.sansio import Event, Message, PeerLost, Response, Send
from insync.server.acceptor import PLAINTEXT, PeerSecurity
from insync.server.lateness import SOCKET_POLL_S, Lateness
from insync.server.network import Network
from insync.server.runner import now_ms
from insync.wire import codec, handwritten_fetch
from insync.wire.errors import MalformedFrameError
from insync.wire.frames import FrameBuffer

if TYPE_CHECKING:
    from insync.client.apis import Api
    from insync.security.sasl import ClientLogin

log = logging.getLogger("insync.server")

Step = Callable[[Event], None]

CLIENT_ID_PREFIX = "insync-node-"
MAX_RESPONSE_BYTES = 256 << 20
PROBE_CHANNEL = "probe"
CONTROLLER_CHANNELS = frozenset(
    (
        FETCH_CHANNEL,
        QUORUM_CHANNEL,
        alter_partition.CHANNEL,
        forwarding.CHANNEL,
        lifecycle.CHANNEL,
        producer_ids.CHANNEL,
        PROBE_CHANNEL,
    )
)
"""Channels to a peer in its role as a controller. The others lead to brokers."""
PROBE_MS = 20
FAST_PROBES = 100
"""The first probes follow each other quickly; after these, there is one a second."""

DENIED_BACKOFF_S = 0.5
"""How long a peer that refused TLS or authentication is not tried again."""

HANDSHAKE_RESETS = 5
RENEW_AFTER = 0.8
"""The part of a session's lifetime after which a new connection takes its place."""
LOGIN_ADVICE = (
    "Correct the login of this node, or create its user in the cluster (insync format --add-scram, for SCRAM)."
)
SAME_PROTOCOL = "Give the listener the same protocol on all nodes (listener.security.protocol.map)."

_LENGTH = Struct(">i")
_TLS_ALERT = b"\x15\x03"
"""How a listener with TLS answers what is not TLS."""


class Route(NamedTuple):
    """Where a peer is reached."""

    host: str
    port: int
    security: PeerSecurity = PLAINTEXT


RouteTo = Callable[[int, str], Route | None]
"""(peer, channel) -> its route; None if the cluster has no such node, or it has no such listener."""


def node_id_of_client(client_id: str | None) -> int | None:
    """The node that a request comes from; None if the client is not a node."""
    if client_id is None or not client_id.startswith(CLIENT_ID_PREFIX):
        return None
    suffix = client_id[len(CLIENT_ID_PREFIX) :]
    return int(suffix) if suffix.isascii() and suffix.isdigit() and len(suffix) < 10 else None


class Peers:
    """All connections to other nodes, and the detection of dead peers."""

    def __init__(
        self,
        node_id: int,
        route_to: RouteTo,
        step: Step,
        loop: asyncio.AbstractEventLoop,
        network: Network | None = None,
    ) -> None:
        self.client_id = f"{CLIENT_ID_PREFIX}{node_id}"
        self.loop = loop
        self.step = step
        self.route_to = route_to
        self.network = network or Network(loop)
        self._connections: dict[tuple[int, str], PeerConnection] = {}
        self._open: dict[int, int] = {}
        self._probing: dict[int, None] = {}
        self.lost: dict[int, float] = {}
        """Peers without a connection: since when."""
        self.denied: dict[int, str] = {}
        """Why peers refused TLS or authentication, until they answer a request."""
        self._retry_at: dict[tuple[int, str], float] = {}
        self._handshake_resets: Counter[int] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self.closed = False

    def send(self, send: Send) -> None:
        if self.closed:
            return
        key = (send.peer, send.channel)
        connection = self._connections.get(key)
        if connection is not None and connection.renew_at and connection.is_due_for_renewal():
            connection.reset()
            connection = None
        if connection is None:
            route = self.route_to(send.peer, send.channel)
            if route is None or self._retry_at.get(key, 0.0) > self.loop.time():
                self.loop.call_soon(self.step, Response(send, None))
                return
            connection = self._connections[key] = PeerConnection(self, send.peer, send.channel)
            self.spawn(connection.connect(route))
        connection.send(send)

    def spawn(self, work: object) -> None:
        task: asyncio.Task[None] = self.loop.create_task(work)  # type: ignore[arg-type]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def forget(self, connection: PeerConnection) -> None:
        key = (connection.peer, connection.channel)
        if self._connections.get(key) is connection:
            del self._connections[key]

    async def drain(self, timeout_s: float) -> None:
        """Wait until the last requests are answered: EndQuorumEpoch, above all."""
        deadline = self.loop.time() + timeout_s
        while any(c.outstanding for c in self._connections.values()) and self.loop.time() < deadline:
            await asyncio.sleep(0.005)

    def close(self) -> None:
        self.closed = True
        for connection in list(self._connections.values()):
            connection.reset()
        for task in list(self._tasks):
            task.cancel()

    # --- live and dead peers -----------------------------------------------------------------------------------------

    def on_connected(self, peer: int) -> None:
        """A connection with this peer was opened, by either side."""
        self.lost.pop(peer, None)
        self._open[peer] = self._open.get(peer, 0) + 1

    def on_dropped(self, peer: int) -> None:
        """A connection was closed by the peer, or broke."""
        self.on_closed_here(peer)
        if peer not in self._open and not self.closed:
            self._probe(peer)

    def on_closed_here(self, peer: int) -> None:
        """A connection was closed by this node, which proves nothing about the peer."""
        self._open[peer] -= 1
        if not self._open[peer]:
            del self._open[peer]

    def on_denied(self, peer: int, channel: str, reason: str, advice: str) -> None:
        """The peer refused TLS or authentication, or this node refused the peer."""
        self._retry_at[peer, channel] = self.loop.time() + DENIED_BACKOFF_S
        if self.denied.get(peer) != reason:
            self.denied[peer] = reason
            log.error("event=peer_denied peer=%d reason=%s advice=%s", peer, log_value(reason), log_value(advice))

    def on_handshake_reset(self, peer: int, channel: str) -> None:
        """A process that dies closes its connections, and so does one whose listener does not use TLS, each time."""
        self._handshake_resets[peer] += 1
        if self._handshake_resets[peer] >= HANDSHAKE_RESETS:
            self.on_denied(peer, channel, "it does not speak TLS, or closes every handshake", SAME_PROTOCOL)

    def on_accepted(self, peer: int) -> None:
        """The peer has answered a request."""
        if self.denied.pop(peer, None) is not None:
            self._handshake_resets.pop(peer, None)
            log.info("event=peer_accepted peer=%d", peer)

    def is_known(self, peer: int) -> bool:
        """Whether the cluster has a node of this id."""
        return self.route_to(peer, PROBE_CHANNEL) is not None

    def _probe(self, peer: int) -> None:
        """Any client may claim to be a node; only nodes of the cluster are probed."""
        if not self.is_known(peer):
            return
        self.lost.setdefault(peer, self.loop.time())
        if peer not in self._probing:
            self._probing[peer] = None
            self.spawn(self._probe_until_up(peer))

    async def _probe_until_up(self, peer: int) -> None:
        probes = 0
        try:
            while peer not in self._open and self.is_known(peer):
                if await self._is_refused(peer):
                    self.step(PeerLost(peer))
                probes = probes + 1 if peer not in self.denied else FAST_PROBES
                await asyncio.sleep((PROBE_MS if probes < FAST_PROBES else PROBE_MS * 50) / 1_000)
        finally:
            self._probing.pop(peer, None)
            if not self.is_known(peer):
                self.lost.pop(peer, None)

    async def _is_refused(self, peer: int) -> bool:
        """True only if the peer's machine refuses the connection: silence may be a slow network.

        An accepted connection is kept. A dying process may still have accepted it; then the connection drops.
        """
        route = self.route_to(peer, PROBE_CHANNEL)
        if route is None:
            return False
        probe = PeerConnection(self, peer, PROBE_CHANNEL)
        try:
            await asyncio.wait_for(probe.open(route), 1)
        except ConnectionRefusedError:
            return True
        except (OSError, TimeoutError):
            probe.reset()
            return False
        return False


class PeerConnection(asyncio.Protocol):
    def __init__(self, peers: Peers, peer: int, channel: str) -> None:
        self.peer = peer
        self.channel = channel
        self.outstanding: deque[tuple[int, int, Send]] = deque()  # (correlation id, deadline, send)
        self._peers = peers
        self._transport: asyncio.Transport | None = None
        self._unsent: list[bytes | bytearray] = []
        self._frames = FrameBuffer(MAX_RESPONSE_BYTES)
        self._correlation = 0
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._lateness = Lateness()
        self._is_ready = False  # connected and authenticated
        self._sasl_answer: asyncio.Future[bytes] | None = None  # set while the connection is authenticated
        self.renew_at = 0.0
        """When the session should be renewed, on the loop's clock; 0: it does not expire."""

    async def connect(self, route: Route) -> None:
        """Open the connection, and send what has been waiting for it."""
        try:
            await self.open(route)
        except OSError as error:
            log.debug("event=peer_unreachable peer=%d channel=%s error=%s", self.peer, self.channel, log_value(error))
            self.reset()

    async def open(self, route: Route) -> None:
        """OSError if it cannot be opened; a refusal of TLS or of the login is reported."""
        login = route.security.login
        self._is_ready = login is None
        try:
            await self._peers.network.connect(self.peer, self, route.host, route.port, route.security.tls)
            if login is not None:
                await self._authenticate(login, f"{route.host}:{route.port}")
        except ssl.SSLError as error:
            self._on_tls_error(error)
            raise
        except ConnectionResetError:
            if route.security.tls is not None and self._transport is None:
                self._peers.on_handshake_reset(self.peer, self.channel)
            raise

    def is_due_for_renewal(self) -> bool:
        """A new connection takes its place when no answer is outstanding: requests stay in order."""
        return not self.outstanding and self._peers.loop.time() > self.renew_at

    def send(self, send: Send) -> None:
        self._correlation = correlation = (self._correlation + 1) & 0x7FFFFFFF
        frame = self._encode(send, correlation)
        deadline = now_ms() + send.timeout_ms
        self.outstanding.append((correlation, deadline, send))
        self._arm_timer(deadline)
        if self._is_ready and self._transport is not None:
            self._transport.writelines((_LENGTH.pack(len(frame)), frame))
        else:
            self._unsent += (_LENGTH.pack(len(frame)), frame)

    def _encode(self, send: Send, correlation: int) -> bytes | bytearray:
        if send.request.__api_key__ == handwritten_fetch.KEY:
            frame = handwritten_fetch.encode_request(send.request, correlation, self._peers.client_id.encode())
            if frame is not None:
                return frame
        return codec.encode_request(send.request, correlation, self._peers.client_id)

    # --- TLS and SASL ------------------------------------------------------------------------------------------------

    async def _authenticate(self, login: ClientLogin, address: str) -> None:
        from insync.client import sasl
        from insync.client.errors import AccessDeniedError
        from insync.client.request_builder import build_request

        async def ask(api: Api, values: Mapping[str, Any]) -> Any:
            return await self._exchange(build_request(codec.pinned_request_type(api.key), values))

        credentials = sasl.Credentials(
            mechanism=login.mechanism, username=login.username, password=login.password, setting=login.setting
        )
        try:
            lifetime_s = await sasl.authenticate(ask, credentials, address)
        except AccessDeniedError as error:
            self._peers.on_denied(self.peer, self.channel, str(error), LOGIN_ADVICE)
            raise ConnectionAbortedError("authentication failed") from error
        if lifetime_s:
            self.renew_at = self._peers.loop.time() + RENEW_AFTER * lifetime_s
        self._sasl_answer = None
        self._is_ready = True
        self._flush()

    async def _exchange(self, request: Message) -> Message:
        if self._transport is None or self._closed:
            raise ConnectionResetError("closed during authentication")
        self._correlation += 1
        frame = codec.encode_request(request, self._correlation, self._peers.client_id)
        self._sasl_answer = self._peers.loop.create_future()
        self._transport.writelines((_LENGTH.pack(len(frame)), frame))
        try:
            return codec.decode_response(await self._sasl_answer, type(request))[1]
        except MalformedFrameError as error:
            raise ConnectionResetError(f"no answer of SASL: {error}") from error

    def _on_tls_error(self, error: ssl.SSLError) -> None:
        """One side did not accept the other's certificate, or they do not speak the same."""
        from insync.server.tls_contexts import PEER_ADVICE, explain

        self._peers.on_denied(self.peer, self.channel, explain(error), PEER_ADVICE)

    # --- the socket's events -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if self._closed:
            transport.abort()  # type: ignore[attr-defined]
            return
        self._transport = transport  # type: ignore[assignment]
        self._peers.on_connected(self.peer)
        if self._is_ready:
            self._flush()

    def _flush(self) -> None:
        if self._unsent and self._transport is not None:
            self._transport.writelines(self._unsent)
            self._unsent = []

    def data_received(self, data: bytes) -> None:
        self._frames.add(data)
        try:
            while not self._closed and (frame := self._frames.take()) is not None:
                if self._is_ready:
                    self._on_answer(frame)
                elif self._sasl_answer is not None and not self._sasl_answer.done():
                    self._sasl_answer.set_result(frame)
        except MalformedFrameError as error:
            if data.startswith(_TLS_ALERT):
                self._peers.on_denied(self.peer, self.channel, "it expects TLS", SAME_PROTOCOL)
            log.warning("event=bad_answer peer=%d channel=%s error=%s", self.peer, self.channel, log_value(error))
            self.reset()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self._closed:
            self._transport = None
            if isinstance(exc, ssl.SSLError):
                self._on_tls_error(exc)
            self.reset()
            self._peers.on_dropped(self.peer)

    def _on_answer(self, frame: bytes) -> None:
        if not self.outstanding or codec.read_correlation_id(frame) != self.outstanding[0][0]:
            raise MalformedFrameError("answer out of order")
        send = self.outstanding[0][2]
        response = self._decode(frame, send)
        self.outstanding.popleft()
        if self._peers.denied:
            self._peers.on_accepted(self.peer)
        self._peers.step(Response(send, response))

    def _decode(self, frame: bytes, send: Send) -> Message:
        if send.request.__api_key__ == handwritten_fetch.KEY:
            response = handwritten_fetch.decode_response(frame)
            if response is not None:
                return response
        return codec.decode_response(frame, type(send.request))[1]

    # --- timeouts ----------------------------------------------------------------------------------------------------

    def _arm_timer(self, deadline: int) -> None:
        if self._timer is not None and self._timer_at <= deadline:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        self._timer = self._peers.loop.call_later(max(0, deadline - now_ms()) / 1_000, self._on_timeout)

    def _on_timeout(self) -> None:
        """A request has reached its deadline: reset the connection."""
        self._timer = None
        if not self.outstanding:
            return
        deadline, now = min(entry[1] for entry in self.outstanding), now_ms()
        if deadline > now:
            self._arm_timer(deadline)
        elif self._lateness.should_poll_first(self._timer_at, now):
            self._timer = self._peers.loop.call_later(SOCKET_POLL_S, self._on_timeout)
        else:
            log.info("event=request_timed_out peer=%d channel=%s", self.peer, self.channel)
            self.reset()

    def reset(self) -> None:
        """Close the connection; every outstanding request is lost."""
        if self._closed:
            return
        self._closed = True
        self._peers.forget(self)
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
            self._peers.on_closed_here(self.peer)
        if self._sasl_answer is not None and not self._sasl_answer.done():
            self._sasl_answer.set_exception(ConnectionResetError("closed during authentication"))
        for _, _, send in self.outstanding:
            self._peers.loop.call_soon(self._peers.step, Response(send, None))
        self.outstanding.clear()
