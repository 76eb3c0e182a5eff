"""Requests of a node to itself: without a socket, but served in turns like those of other nodes.

Requests that a broker forwards for its clients to the controller in the same process get the turns of clients:
a client that floods its broker with CreateTopics must not get more of the controller here than from another broker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic_ns

from insync.node.forwarding import CHANNEL as FORWARDED
from insync.sansio import Send
from insync.server.turns import Turns

Ask = Callable[[Send], None]


class Loopback:
    """`ask` passes a request to the node."""

    def __init__(self, turns: Turns, ask: Ask) -> None:
        self._of_clients = LoopbackQueue(turns, ask, is_node=False)
        self._of_nodes = LoopbackQueue(turns, ask, is_node=True)

    def send(self, send: Send) -> None:
        (self._of_clients if send.channel == FORWARDED else self._of_nodes).add(send)


class LoopbackQueue:
    """Like a connection to the scheduler."""

    def __init__(self, turns: Turns, ask: Ask, *, is_node: bool) -> None:
        self.is_queued = False
        self.debt_ns = self.served_ns = 0
        self._turns = turns
        self._ask = ask
        self._is_node = is_node
        self._sends: deque[Send] = deque()

    def is_node(self) -> bool:
        return self._is_node

    def add(self, send: Send) -> None:
        self._sends.append(send)
        self._turns.ready_later(self)

    def serve(self, until_ns: int) -> bool:
        while self._sends:
            self._ask(self._sends.popleft())
            if monotonic_ns() >= until_ns:
                break
        return bool(self._sends)
