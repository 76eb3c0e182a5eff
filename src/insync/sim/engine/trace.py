"""A running hash over every step of a run, and the steps as lines for people.

Two runs of a seed are equal if and only if their hashes are equal, on any machine and under any PYTHONHASHSEED, so only
values are hashed, never a repr that contains an address.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from insync.sansio import DiskFailed, Effect, Event, HangUp, Note, PeerLost, Reply, Request, Response, Send, Stop, Sync

Sink = Callable[[int, str], None]
"""Receives the simulated time in microseconds and one line."""

_FLUSH_EVERY = 512


class Trace:
    """`step` records what nodes do, `mark` what is done to them."""

    __slots__ = ("_hash", "_lines", "_on_mark", "_sink", "steps")

    def __init__(self, sink: Sink | None = None, on_mark: Sink | None = None) -> None:
        self.steps = 0
        self._on_mark = on_mark
        self._hash = blake2b(digest_size=16)
        self._lines: list[str] = []
        self._sink = sink

    def step(self, time_us: int, node: int, event: Event, effects: list[Effect], state: Any) -> None:
        self.steps += 1
        kind = type(event)
        if kind is Request:
            what = f"q{event.token} {type(event.request).__name__}"  # type: ignore[union-attr]
        elif kind is Response:
            send: Send = event.send  # type: ignore[union-attr]
            what = f"a{send.peer} {type(event.response).__name__}"  # type: ignore[union-attr]
        else:
            what = kind.__name__
        lines = self._lines
        lines.append(f"{time_us} {node} {what} {''.join([_LETTER[type(e)] for e in effects])} {_log_positions(state)}")
        if len(lines) >= _FLUSH_EVERY:
            self._flush()
        if self._sink is not None:
            self._sink(time_us, f"node {node}: {describe_event(event)}")
            for effect in effects:
                self._sink(time_us, f"    {describe_effect(effect)}")

    def mark(self, time_us: int, text: str) -> None:
        """A start, a crash, a fault: something that was done to a node."""
        self._lines.append(f"{time_us} {text}")
        if self._sink is not None:
            self._sink(time_us, f"-- {text}")
        if self._on_mark is not None:
            self._on_mark(time_us, text)

    @property
    def hash(self) -> str:
        self._flush()
        return self._hash.hexdigest()

    def _flush(self) -> None:
        self._hash.update("\n".join(self._lines).encode())
        self._lines.clear()


class _Letters(dict[type, str]):
    """One letter per kind of effect; those that only write to disk are a w."""

    def __missing__(self, key: type) -> str:
        return "w"


_LETTER = _Letters({Send: "s", Reply: "r", HangUp: "r", Sync: "y", Stop: "x", Note: "n"})


def _log_positions(replicas: Any) -> str:
    """The log positions of the replicas that this step changed."""
    if not replicas:
        return ""
    return " ".join([f"{r.partition.name}:{r.log.leo}/{r.log.hwm}" for r in replicas])


def describe_event(event: Event) -> str:
    if isinstance(event, Request):
        return f"request {event.token} {short(event.request)}"
    if isinstance(event, Response):
        answer = "no answer" if event.response is None else short(event.response)
        return f"answer from {event.send.peer} ({event.send.channel}) {answer}"
    if isinstance(event, PeerLost):
        return f"lost its connections to {event.peer}"
    if isinstance(event, DiskFailed):
        return f"disk failed: {event.error}"
    return type(event).__name__.lower()


def describe_effect(effect: Effect) -> str:
    if isinstance(effect, Send):
        return f"asks {effect.peer} ({effect.channel}) {short(effect.request)}"
    if isinstance(effect, Reply):
        return f"answers {effect.token} {'nothing' if effect.response is None else short(effect.response)}"
    if isinstance(effect, HangUp):
        return f"hangs up on {effect.token}: {effect.reason}"
    if isinstance(effect, Note):
        return f"notes {effect.kind} " + " ".join(f"{name}={value}" for name, value in effect.fields.items())
    if isinstance(effect, Stop):
        return f"stops ({'clean' if effect.clean else 'unclean'}): {effect.reason}"
    return type(effect).__name__.lower()


def short(message: Any, limit: int = 400) -> str:
    """The repr of a message, cut to `limit` characters."""
    text = repr(message)
    return text if len(text) <= limit else text[: limit - 1] + "…"
