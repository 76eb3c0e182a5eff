"""A quiet client beside a flood: one request at a time on each of three connections, and how long each answer took.

It runs in a separate process, so that a flood in the same interpreter does not slow it down. The heartbeat is one
that the controller refuses (its broker epoch is unknown), sent with a broker's client id: it waits like a real one, and
changes nothing.
"""

from __future__ import annotations

import multiprocessing
import selectors
import socket
import time
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from struct import Struct
from typing import Any

Address = tuple[str, int]
PERIOD_S = 0.01
ANSWER_TIMEOUT_S = 60.0

_LENGTH = Struct(">i")


@dataclass(slots=True)
class Waits:
    """Milliseconds, by kind of request."""

    by_name: dict[str, list[float]] = field(default_factory=dict)

    def worst(self, name: str) -> float:
        return max(self.by_name[name], default=float("nan"))

    def p99(self, name: str) -> float:
        ordered = sorted(self.by_name[name])
        return ordered[int(0.99 * (len(ordered) - 1))] if ordered else float("nan")


class Probe:
    """`frames`: by name, the address and the frame to send repeatedly."""

    def __init__(self, frames: dict[str, tuple[Address, bytes]]) -> None:
        context = multiprocessing.get_context("fork")
        self._stop = context.Event()
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_probe, args=(frames, self._stop, theirs), daemon=True)
        self._process.start()
        self._ours.recv()  # the probe is connected, and every kind of request was answered once

    def finish(self) -> Waits:
        self._stop.set()
        waits: Waits = self._ours.recv()
        self._process.join(ANSWER_TIMEOUT_S)
        return waits


def _probe(frames: dict[str, tuple[Address, bytes]], stop: Event, results: Any) -> None:
    channels = {name: _Channel(name, address, frame) for name, (address, frame) in frames.items()}
    done: dict[str, _Channel] = {}
    selector = selectors.DefaultSelector()
    for channel in channels.values():
        channel.ask()
        channel.wait_for_answer()
        channel.waits.clear()
        selector.register(channel.socket, selectors.EVENT_READ, channel)
    results.send("ready")
    while not stop.is_set():
        _ask_idle(channels)
        for key, _ in selector.select(PERIOD_S / 2):
            try:
                key.data.receive()
            except OSError:  # a node that stopped, or dropped the connection, counts as the longest wait
                key.data.waits.append(float("inf"))
                selector.unregister(key.fileobj)
                del channels[key.data.name]
                done[key.data.name] = key.data
    for channel in channels.values():
        channel.wait_for_answer()
    channels |= done
    results.send(Waits({name: channel.waits for name, channel in channels.items()}))


def _ask_idle(channels: dict[str, _Channel]) -> None:
    now = time.monotonic()
    for channel in channels.values():
        if channel.asked_at is None and now >= channel.next_at:
            channel.ask()


class _Channel:
    def __init__(self, name: str, address: Address, frame: bytes) -> None:
        self.name = name
        self.socket = socket.create_connection(address, timeout=ANSWER_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.asked_at: float | None = None
        self.next_at = 0.0
        self.waits: list[float] = []
        self._frame = frame
        self._received = b""

    def ask(self) -> None:
        self.asked_at = time.monotonic()
        self.next_at = self.asked_at + PERIOD_S
        self.socket.sendall(self._frame)

    def receive(self) -> None:
        data = self.socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the node closed the probe's connection")
        self._received += data
        if len(self._received) >= 4 and len(self._received) >= 4 + _LENGTH.unpack(self._received[:4])[0]:
            self._received = b""
            if self.asked_at is not None:
                self.waits.append((time.monotonic() - self.asked_at) * 1_000)
            self.asked_at = None

    def wait_for_answer(self) -> None:
        while self.asked_at is not None:
            self.receive()
