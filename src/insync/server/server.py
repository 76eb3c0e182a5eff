"""One node as a process: its sockets opened, its node driven, its end awaited."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable

from insync.node import apis
from insync.node.node import Node
from insync.node.topic_names import NodeTopicNames
from insync.sansio import Shutdown, Stop
from insync.server import assembly, endpoints, scraping
from insync.server.disk import DiskThreads, ServerDisk
from insync.server.listener import Listener
from insync.server.network import Network
from insync.server.notes import NoteLog
from insync.server.peers import Address, AddressOf, Peers
from insync.server.properties import Properties
from insync.server.runner import Runner
from insync.server.traffic import Traffic
from insync.server.turns import Turns
from insync.wire.edge import Edge

log = logging.getLogger("insync.server")

FAREWELL_S = 0.5
"""How long a node that has ended waits for its last words to arrive."""


class Server:
    def __init__(self, properties: Properties) -> None:
        self.properties = properties
        self.traffic = Traffic()
        self.notes = NoteLog()

    async def run(self) -> Stop:
        """Until the node has stopped, cleanly or not."""
        loop = asyncio.get_running_loop()
        sockets = {each.name: endpoints.bind(each) for each in self.properties.listeners}
        config = assembly.node_config(self.properties, {name: _port(sock) for name, sock in sockets.items()})
        disk, network = self.disk(), self.network(loop)
        threads = DiskThreads(disk, loop)
        node = assembly.node(config, disk)
        runner = Runner(node, threads, self.notes, loop)
        peers = runner.peers = Peers(node.id, self._address_of(node), runner.step, loop, network)
        listener = runner.outgoing = Listener(
            limits=assembly.limits(self.properties),
            turns=Turns(loop.call_soon),
            request=runner.request,
            end_turn=runner.end_turn,
            abandon=runner.abandon,
            peers=peers,
            known_brokers=lambda: [broker.id for broker in node.image.brokers.values() if not broker.fenced],
            traffic=self.traffic,
            edge=Edge(apis.TYPES, apis.SERVED, NodeTopicNames(node)),
        )
        self._stop_when_told(loop, runner)
        runner.start()
        await listener.open(sockets.values(), network)
        metrics = await self._serve_metrics(node, listener)
        log.info("event=started roles=%s port=%s", "+".join(config.roles), [_port(s) for s in sockets.values()])
        stop = await runner.stopped
        _stop_listening_to_signals(loop)
        if stop.clean:
            await peers.drain(FAREWELL_S)
        if metrics is not None:
            metrics.close()
        listener.close()
        peers.close()
        threads.close()
        return stop

    # --- what a node stands on, and a test may replace ----------------------------------------------------------------

    def disk(self) -> ServerDisk:
        return ServerDisk(self.properties.directory)

    def network(self, loop: asyncio.AbstractEventLoop) -> Network:
        return Network(loop)

    def watch_supervisor(self, loop: asyncio.AbstractEventLoop, orphaned: Callable[[], None]) -> None:
        """Nobody writes to a node's standard input: that it can be read means that its other end is gone."""
        stdin = sys.stdin.fileno()

        def ended() -> None:
            loop.remove_reader(stdin)
            orphaned()

        if os.environ.get("INSYNC_SUPERVISED"):
            loop.add_reader(stdin, ended)

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _stop_when_told(self, loop: asyncio.AbstractEventLoop, runner: Runner) -> None:
        """SIGTERM and Ctrl-C are a controlled shutdown (B7); so is the death of a supervisor."""

        def stop() -> None:
            runner.step(Shutdown())

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        self.watch_supervisor(loop, stop)

    async def _serve_metrics(self, node: Node, listener: Listener) -> asyncio.Server | None:
        def page() -> scraping.Page:
            from insync.server import metrics  # not before somebody asks for them

            return metrics.page(metrics.NodeMetrics(node, listener, self.traffic, self.notes))

        port = self.properties.metrics_port
        host = self.properties.listeners[0].host
        return None if port is None else await scraping.serve(page, host, port)

    def _address_of(self, node: Node) -> AddressOf:
        voters = self.properties.voters

        def address_of(peer: int) -> Address | None:
            """Voters are named in the file, brokers in the image."""
            if peer in voters:
                return voters[peer]
            broker = node.image.brokers.get(peer)
            return (broker.endpoints[0].host, broker.endpoints[0].port) if broker and broker.endpoints else None

        return address_of


def _stop_listening_to_signals(loop: asyncio.AbstractEventLoop) -> None:
    """Who tells it once more is too late: the code that the process ends with is decided, and no signal changes it."""
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


def _port(sock: socket.socket) -> int:
    port: int = sock.getsockname()[1]
    return port
