"""Runs one node: opens its sockets, drives it, and waits until it stops."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Collection

from insync.escaping import log_value
from insync.metadata.security_records import MECHANISMS, to_scram_credential
from insync.node.config import NodeConfig
from insync.node.node import Node
from insync.node.node_view import NodeTopicNames
from insync.quorum.config import METADATA_DIRECTORY
from insync.sansio import Shutdown, Stop
from insync.security.scram import ScramUsers
from insync.server import assembly, metrics_endpoint, ownership, sockets
from insync.server.acceptor import Acceptor, NodeSecurity
from insync.server.directory_lock import DirectoryLock
from insync.server.disk import DiskThreads, ServerDisk
from insync.server.listener import Listener
from insync.server.network import Network
from insync.server.notes import NoteLog
from insync.server.peers import CONTROLLER_CHANNELS, Peers, Route, RouteTo
from insync.server.pending import PendingConnections
from insync.server.properties import Properties
from insync.server.runner import Runner, now_ms
from insync.server.traffic import Traffic
from insync.server.turns import Turns
from insync.wire.metadata_records import UserScramCredentialRecord
from insync.wire.versions.translator import VersionTranslator

log = logging.getLogger("insync.server")

DRAIN_TIMEOUT_S = 0.5
"""How long a stopped node waits until its last messages have been sent."""


class Server:
    def __init__(self, properties: Properties) -> None:
        self.properties = properties
        self.traffic = Traffic()
        self.notes = NoteLog()
        self._lock: DirectoryLock | None = None

    async def run(self) -> Stop:
        """Run until the node has stopped, cleanly or not.

        B9: the directory is locked, and checked to belong to this node, before a log is opened. The lock ends with the
        process, because threads may write until then.
        """
        loop = asyncio.get_running_loop()
        self._lock, identity = ownership.lock_and_check(self.properties)
        limits = assembly.limits(self.properties)
        pending = PendingConnections(limits.max_unauthenticated, limits.authentication_ms)
        turns = Turns(loop.call_soon)
        security = NodeSecurity.load(self.properties.listeners, pending, turns, lambda: _scram_users(node))
        addresses = [listener.address for listener in self.properties.listeners.bound]
        listening = list(
            zip(security.acceptors, [sockets.bind(address.host, address.port) for address in addresses], strict=True)
        )
        metrics_socket = self._bind_metrics()
        ports = {acceptor.name: _port(sock) for acceptor, sock in listening}
        config = assembly.node_config(self.properties, identity, ports, clock_ahead_ms=self.clock_ahead_ms())
        disk, network = self.disk(), self.network(loop)
        threads = DiskThreads(disk, loop)
        node = self._make_node(config, disk)
        runner = Runner(node, threads, self.notes, loop)
        peers = runner.peers = Peers(node.id, self._route_to(node, security), runner.step, loop, network)
        runner.use_turns(turns)
        listener = runner.outgoing = Listener(
            limits=limits,
            pending=pending,
            turns=turns,
            request=runner.request,
            end_turn=runner.end_turn,
            abandon=runner.abandon,
            peers=peers,
            known_brokers=lambda: [broker.id for broker in node.image.brokers.values() if not broker.fenced],
            traffic=self.traffic,
            translator=VersionTranslator(NodeTopicNames(node)),
            quotas=node.quotas,
            may_act_as_node=node.may_act_as_node,
            check_translated=lambda context, client: node.check_translated(context, client, now_ms()),
        )
        self._stop_on_signals(loop, runner)
        security.start(loop)
        runner.start()
        self._warn_of_exposure(listening)
        await self._open_listener(listener, listening, network)
        metrics = await self._serve_metrics(node, listener, metrics_socket)
        log.info("event=started roles=%s port=%s", "+".join(config.roles), list(ports.values()))
        stop = await runner.stopped
        _ignore_signals(loop)
        if stop.clean:
            await peers.drain(DRAIN_TIMEOUT_S)
        if metrics is not None:
            metrics.close()
        listener.close()
        peers.close()
        security.close()
        threads.close()
        return stop

    # --- what tests may replace --------------------------------------------------------------------------------------

    def clock_ahead_ms(self) -> int:
        return 0

    def disk(self) -> ServerDisk:
        return ServerDisk(self.properties.directory)

    def network(self, loop: asyncio.AbstractEventLoop) -> Network:
        return Network(loop)

    def watch_supervisor(self, loop: asyncio.AbstractEventLoop, orphaned: Callable[[], None]) -> None:
        """The supervisor writes nothing to a node's standard input: if it becomes readable, the supervisor is gone."""
        stdin = sys.stdin.fileno()

        def on_readable() -> None:
            loop.remove_reader(stdin)
            orphaned()

        if os.environ.get("INSYNC_SUPERVISED"):
            loop.add_reader(stdin, on_readable)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _stop_on_signals(self, loop: asyncio.AbstractEventLoop, runner: Runner) -> None:
        """SIGTERM and Ctrl-C are a controlled shutdown (B7); so is the death of a supervisor."""

        def stop() -> None:
            runner.step(Shutdown())

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        self.watch_supervisor(loop, stop)

    async def _open_listener(
        self, listener: Listener, listening: Collection[tuple[Acceptor, socket.socket]], network: Network
    ) -> None:
        try:
            await listener.open(listening, network)
        except OSError as error:
            first = next(iter(listening))[1].getsockname()
            raise sockets.BindError(first[0], first[1], error) from error

    def _bind_metrics(self) -> socket.socket | None:
        """Bound before the node starts: an address in use must not stop a node that already serves."""
        port = self.properties.metrics_port
        return None if port is None else sockets.bind(self.properties.metrics_host, port)

    def _make_node(self, config: NodeConfig, disk: ServerDisk) -> Node:
        """A new metadata log is for the owner only: it will have credentials, by which passwords can be guessed."""
        metadata = os.path.join(self.properties.directory, METADATA_DIRECTORY)
        is_new = not os.path.isdir(metadata)
        node = assembly.make_node(config, disk)
        if is_new:
            os.chmod(metadata, 0o700)
        return node

    def _warn_of_exposure(self, listening: Collection[tuple[Acceptor, socket.socket]]) -> None:
        """Once: other machines reach this node, and it does not protect what they send, or itself."""
        exposed = [acceptor for acceptor, sock in listening if not sockets.is_loopback(sock)]
        missing = [f"TLS on the listener {acceptor.name}" for acceptor in exposed if acceptor.tls is None]
        if exposed and self.properties.authorizer is None:
            missing.append("an authorizer (authorizer.class.name)")
        if missing:
            log.warning(
                "event=exposed listeners=%s missing=%s advice=%s",
                log_value(",".join(acceptor.name for acceptor in exposed)),
                log_value("; ".join(missing)),
                log_value("Other machines can connect. Bind to 127.0.0.1, or see docs/guides/security.md."),
            )

    async def _serve_metrics(self, node: Node, listener: Listener, sock: socket.socket | None) -> asyncio.Server | None:
        def page() -> metrics_endpoint.Page:
            from insync.server import metrics  # imported with the first scrape

            return metrics.render(metrics.NodeMetrics(node, listener, self.traffic, self.notes))

        return None if sock is None else await metrics_endpoint.serve(page, sock)

    def _route_to(self, node: Node, security: NodeSecurity) -> RouteTo:
        voters, listeners = self.properties.voters, self.properties.listeners
        inter_broker = listeners.inter_broker.name
        without_endpoint: dict[int, None] = {}

        def route_to(peer: int, channel: str) -> Route | None:
            """The addresses of voters are in the properties file, those of brokers in the image.

            A voter that is a broker too is reached at the address of a voter for everything, unless controllers have a
            listener of their own.
            """
            is_for_controller = channel in CONTROLLER_CHANNELS or not listeners.has_separate_controller_listener
            if peer in voters and is_for_controller:
                return Route(*voters[peer], security.controller)
            broker = node.image.brokers.get(peer)
            if broker is None:
                return None
            endpoint = broker.endpoint(inter_broker)
            if endpoint is None:
                if peer not in without_endpoint:
                    without_endpoint[peer] = None
                    log.error(
                        "event=peer_without_listener peer=%d listener=%s advice=%s",
                        peer,
                        log_value(inter_broker),
                        log_value("Let all nodes advertise the listener in inter.broker.listener.name."),
                    )
                return None
            without_endpoint.pop(peer, None)
            return Route(endpoint.host, endpoint.port, security.inter_broker)

        return route_to


def _scram_users(node: Node) -> ScramUsers:
    """Until a node knows any metadata, those that its directory was formatted with: a quorum whose voters authenticate
    by SCRAM could not elect its first leader otherwise."""
    image = node.image
    if image.offset >= 0:
        return ScramUsers(image.scram_credentials, image.scram_shapes)
    users = [record for record in node.config.controller.first_records if isinstance(record, UserScramCredentialRecord)]
    return ScramUsers.of({(MECHANISMS[user.mechanism], user.name): to_scram_credential(user) for user in users})


def _ignore_signals(loop: asyncio.AbstractEventLoop) -> None:
    """The exit code is decided; further signals must not change it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _port(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port
