"""A node that was held up reads what has come meanwhile before it concludes that nothing has."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

import uvloop

from insync.sansio import Effect, Event, Stop, Timer
from insync.server.lateness import LATE_MS, Lateness
from insync.server.runner import Runner, now_ms


def test_a_late_timer_is_excused_once() -> None:
    lateness = Lateness()
    assert not lateness.should_poll_first(due=1_000, now=1_000 + LATE_MS)
    assert lateness.should_poll_first(due=1_000, now=1_001 + LATE_MS)
    assert not lateness.should_poll_first(due=1_000, now=1_002 + LATE_MS), (
        "a process that is always late acts all the same"
    )
    assert lateness.should_poll_first(due=5_000, now=9_000)


WAIT_MS = 1_000
"""Longer than a busy machine keeps the test from its next line."""


class PatientNode:
    """Its one deadline moves with whatever it is sent."""

    def __init__(self, wait_ms: int) -> None:
        self.deadline = now_ms() + wait_ms
        self.gave_up = False
        self.stopped = False

    def heard(self) -> None:
        self.deadline += 60_000

    def next_deadline(self) -> int:
        return self.deadline

    def start(self, now: int) -> list[Effect]:
        return []

    def step(self, event: Event, now: int) -> list[Effect]:
        assert isinstance(event, Timer)
        self.gave_up = True
        return [Stop(False, "nobody is there")]


async def _held_up_while_something_comes() -> bool:
    """A request takes long; meanwhile another one arrives, and a deadline passes that it would have moved."""
    loop = asyncio.get_running_loop()
    node: Any = PatientNode(WAIT_MS)
    slow, slow_sender = socket.socketpair()
    quick, quick_sender = socket.socketpair()
    heard = asyncio.Event()

    def take_long() -> None:
        slow.recv(100)
        quick_sender.send(b"I am here")
        time.sleep((WAIT_MS + 4 * LATE_MS) / 1_000)

    def hear() -> None:
        quick.recv(100)
        node.heard()
        heard.set()

    runner = Runner(node, threads=None, notes=_Notes(), loop=loop)  # type: ignore[arg-type]
    loop.add_reader(slow, take_long)
    loop.add_reader(quick, hear)
    runner.start()
    loop.call_later(0.02, slow_sender.send, b"work")  # once the timer is set
    await asyncio.wait_for(heard.wait(), 20)
    for each in (slow, quick):
        loop.remove_reader(each)
    for each in (slow, slow_sender, quick, quick_sender):
        each.close()
    return bool(node.gave_up)


class _Notes:
    def note(self, note: object) -> None: ...


def test_what_came_in_time_counts_though_it_is_read_late() -> None:
    assert not uvloop.run(_held_up_while_something_comes())
