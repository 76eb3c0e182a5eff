"""Requests of a node to itself are served in turns."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import pytest

from insync.node.forwarding import CHANNEL as FORWARDED
from insync.sansio import Send
from insync.server import loopback
from insync.server.loopback import Loopback
from insync.server.turns import CLIENT_SLICE_NS, NODE_SLICE_NS, Turns

COST_NS = 1_000_000


class Node:
    """Each of its requests to itself takes a millisecond of the test's clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0
        self.asked: list[str] = []
        self.soon: deque[Callable[[], None]] = deque()
        self.loopback = Loopback(Turns(self.soon.append, lambda: self.now), self._ask)
        monkeypatch.setattr(loopback, "monotonic_ns", lambda: self.now)

    def _ask(self, send: Send) -> None:
        self.now += COST_NS
        self.asked.append(send.channel)

    def send(self, channel: str, count: int) -> None:
        for _ in range(count):
            self.loopback.send(Send(1, channel, None, _ignore, 1_000))

    def iterate(self) -> None:
        for _ in range(len(self.soon)):
            self.soon.popleft()()


def _ignore(response: Any, now: int) -> None: ...


def test_requests_that_a_broker_forwards_to_itself_have_the_turns_of_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node(monkeypatch)
    node.send(FORWARDED, 100)
    assert node.asked == [], "what is under way ends first"
    node.iterate()
    assert len(node.asked) == CLIENT_SLICE_NS // COST_NS


def test_a_nodes_own_requests_do_not_wait_for_forwarded_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """B4: its heartbeats to itself among them."""
    node = Node(monkeypatch)
    node.send(FORWARDED, 100)
    node.iterate()
    node.send("heartbeat", 1)
    before = len(node.asked)
    node.iterate()
    assert node.asked[before] == "heartbeat"
    assert len(node.asked) - before <= (CLIENT_SLICE_NS + NODE_SLICE_NS) // COST_NS
