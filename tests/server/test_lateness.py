"""A node that was stalled reads its sockets before it acts on a timer that is late."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any, cast

import uvloop

from insync.node.node import Node
from insync.sansio import Effect, Event, Stop, Timer
from insync.server.lateness import LATE_MS, Lateness
from insync.server.runner import Notes, Runner, now_ms


def test_a_late_timer_is_excused_once() -> None:
    lateness = Lateness()
    assert not lateness.should_poll_first(due=1_000, now=1_000 + LATE_MS)
    assert lateness.should_poll_first(due=1_000, now=1_001 + LATE_MS)
    assert not lateness.should_poll_first(due=1_000, now=1_002 + LATE_MS), (
        "a process that is always late still acts on its timers"
    )
    assert lateness.should_poll_first(due=5_000, now=9_000)


WAIT_MS = 1_000
"""Longer than a busy machine delays the test between two lines."""


class FakeNode:
    """Its only deadline moves with everything that it receives."""

    def __init__(self, wait_ms: int) -> None:
        self.deadline = now_ms() + wait_ms
        self.gave_up = False
        self.stopped = False

    def receive(self) -> None:
        self.deadline += 60_000

    def next_deadline(self) -> int:
        return self.deadline

    def start(self, now: int) -> list[Effect]:
        return []

    def step(self, event: Event, now: int) -> list[Effect]:
        assert isinstance(event, Timer)
        self.gave_up = True
        return [Stop(False, "no peer answers")]


async def _gives_up_after_stall() -> bool:
    """A request takes long; meanwhile another one arrives, and the deadline passes that it would have moved."""
    loop = asyncio.get_running_loop()
    node = FakeNode(WAIT_MS)
    no_threads: Any = None
    slow, slow_sender = socket.socketpair()
    quick, quick_sender = socket.socketpair()
    received = asyncio.Event()

    def take_long() -> None:
        slow.recv(100)
        quick_sender.send(b"hello")
        time.sleep((WAIT_MS + 4 * LATE_MS) / 1_000)

    def read_quick() -> None:
        quick.recv(100)
        node.receive()
        received.set()

    runner = Runner(cast(Node, node), threads=no_threads, notes=cast(Notes, _Notes()), loop=loop)
    loop.add_reader(slow, take_long)
    loop.add_reader(quick, read_quick)
    runner.start()
    loop.call_later(0.02, slow_sender.send, b"work")  # once the timer is set
    await asyncio.wait_for(received.wait(), 20)
    for reader in (slow, quick):
        loop.remove_reader(reader)
    for end in (slow, slow_sender, quick, quick_sender):
        end.close()
    return node.gave_up


class _Notes:
    def note(self, note: object) -> None: ...


def test_a_request_that_arrived_in_time_counts_though_it_is_read_late() -> None:
    assert not uvloop.run(_gives_up_after_stall())
