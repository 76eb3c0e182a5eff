"""Drives one node on one event loop: events in, effects out, one timer.

`step` runs the node synchronously and carries out its effects at once, so that an answer leaves in the callback that
read its request. Nothing here is entered twice: whatever an effect causes comes back through the loop. A broken
invariant or a failing disk ends the process without the clean-shutdown file; a request that makes the node raise is a
defect, but costs its sender the connection and nobody else anything.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from insync.errors import InvariantError
from insync.node.node import Node
from insync.sansio import (
    UNKNOWN_CLIENT,
    Client,
    DiskFailed,
    Effect,
    Event,
    HangUp,
    Message,
    Note,
    Reply,
    Request,
    RequestAbandoned,
    Response,
    Send,
    Stop,
    Sync,
    Synced,
    Timer,
    TurnEnded,
    WriteFile,
)
from insync.server.disk import DiskThreads
from insync.server.lateness import LOOK_S, Lateness
from insync.server.loopback import Loopback
from insync.server.turns import Turns

log = logging.getLogger("insync.server")

Answer = Callable[[Message | HangUp | None], None]
"""Takes the answer to one request: None when none is due, a `HangUp` when none can be given."""


class Peers(Protocol):
    def send(self, send: Send) -> None: ...


class Outgoing(Protocol):
    """Where answers leave. Between the two, they may be held back, so as to leave together."""

    def hold(self) -> None: ...

    def release(self) -> None: ...


class Notes(Protocol):
    def note(self, note: Note) -> None: ...


ARM_S = 0.001
"""Deadlines are in milliseconds, and asking every part of the node for its own costs as much as a small request: it is
done this long after a step, once for all steps until then."""


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Runner:
    """`stopped` is set with the `Stop` that ended the node."""

    def __init__(self, node: Node, threads: DiskThreads, notes: Notes, loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        self.loop = loop
        self.stopped: asyncio.Future[Stop] = loop.create_future()
        self.peers: Peers | None = None
        self.outgoing: Outgoing | None = None
        self._loopback: Loopback | None = None
        self._threads = threads
        self._notes = notes
        self._answers: dict[int, Answer] = {}
        self._next_token = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0
        self._lateness = Lateness()
        self._arming = False
        self._carriers: dict[type, Callable[[Any], None]] = {
            Reply: self._reply,
            HangUp: self._hang_up,
            Send: self._send,
            Sync: self._sync,
            WriteFile: self._write,
            Note: notes.note,
            Stop: self._stop,
        }

    @property
    def unanswered(self) -> int:
        return len(self._answers)

    def take_turns(self, turns: Turns) -> None:
        """What the node asks itself waits for its turn among the requests of others."""
        self._loopback = Loopback(turns, self._ask_myself)

    def start(self) -> None:
        self._guarded(lambda: self.node.start(now_ms()))

    def request(self, message: Message, answer: Answer, client: Client = UNKNOWN_CLIENT, more: bool = False) -> int:
        """Hand a request to the node; `answer` is called exactly once, possibly before this returns its token.

        `more`: another one follows at once, or `end_turn`.
        """
        self._next_token = token = self._next_token + 1
        self._answers[token] = answer
        try:
            effects = self.node.step(Request(token, message, client, more), now_ms())
        except InvariantError as violation:
            self._violated(violation)
            return token
        except Exception:  # a defect, met by one request: that connection ends, the others are served
            log.exception("event=request_failed api=%s", type(message).__name__)
            effects = self.node.out.drain()
            if token in self._answers:
                effects.append(HangUp(token, "it could not be handled"))
        self._carry_out(effects)
        return token

    def end_turn(self) -> None:
        """No more requests follow, though the last one said so."""
        self.step(TurnEnded())

    def abandon(self, token: int, message: Message) -> None:
        """Whoever asked has gone. What was kept to answer with is let go of at once, whenever the node answers."""
        if token in self._answers:
            self._answers[token] = _to_nobody
            self.step(RequestAbandoned(token, message))

    def step(self, event: Event) -> None:
        self._guarded(lambda: self.node.step(event, now_ms()))

    def _guarded(self, act: Callable[[], list[Effect]]) -> None:
        try:
            effects = act()
        except InvariantError as violation:
            self._violated(violation)
        except OSError as error:
            self._stop(Stop(False, f"disk failed: {error}", error))
        except Exception as error:
            log.exception("event=step_failed")
            self._stop(Stop(False, f"defect: {error!r}"))
        else:
            self._carry_out(effects)

    def _carry_out(self, effects: list[Effect]) -> None:
        carriers = self._carriers
        outgoing = self.outgoing if len(effects) > 1 else None
        if outgoing is not None:
            outgoing.hold()
        try:
            for effect in effects:
                carriers[type(effect)](effect)
        finally:
            if outgoing is not None:
                outgoing.release()
        if not self._arming:
            self._arming = True
            self.loop.call_later(ARM_S, self._arm)

    # --- the timer ---------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """A timer no later than the next deadline. One that turns out to be early looks again."""
        self._arming = False
        deadline = None if self.stopped.done() else self.node.next_deadline()
        if deadline is None or (self._timer is not None and self._timer_at <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_at = deadline
        delay = max(deadline - now_ms(), 0) / 1_000
        self._timer = self.loop.call_later(delay, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self.stopped.done():
            return
        deadline, now = self.node.next_deadline(), now_ms()
        if deadline is None or deadline > now:
            self._arm()
        elif self._lateness.look_first(self._timer_at, now):
            self._timer = self.loop.call_later(LOOK_S, self._fire)
        else:
            self.step(Timer())

    # --- effects -----------------------------------------------------------------------------------------------------

    def _reply(self, effect: Reply) -> None:
        self._answers.pop(effect.token)(effect.response)  # a second answer to one request is a defect: KeyError

    def _hang_up(self, effect: HangUp) -> None:
        self._answers.pop(effect.token)(effect)

    def _send(self, effect: Send) -> None:
        if effect.peer == self.node.id:
            if self._loopback is None:
                self.loop.call_soon(self._ask_myself, effect)
            else:
                self._loopback.send(effect)
        elif self.peers is not None:
            self.peers.send(effect)

    def _ask_myself(self, send: Send) -> None:
        """Not worth a socket. The rule is the same: one answer, or None when the time is up."""
        open_send = [send]

        def settle(response: Message | HangUp | None) -> None:
            if open_send:
                open_send.clear()
                patience.cancel()
                self.step(Response(send, None if isinstance(response, HangUp) else response))

        patience = self.loop.call_later(send.timeout_ms / 1_000, settle, None)
        self.request(send.request, lambda response: self._soon(settle, response))

    def _soon(self, act: Answer, response: Message | HangUp | None) -> None:
        self.loop.call_soon(act, response)

    def _sync(self, effect: Sync) -> None:
        def done(error: OSError | None) -> None:
            self.step(Synced(effect) if error is None else DiskFailed(error))

        self._threads.flush(effect.job, done)

    def _write(self, effect: WriteFile) -> None:
        def done(error: OSError | None) -> None:
            if error is not None:
                self.step(DiskFailed(error))

        self._threads.write(effect.path, effect.data, done)

    def _stop(self, effect: Stop) -> None:
        if not self.stopped.done():
            self.node.stopped = True
            self.stopped.set_result(effect)

    def _violated(self, violation: InvariantError) -> None:
        log.critical("event=invariant_violated property=%s detail=%r", violation.name, violation.detail)
        self._stop(Stop(False, f"invariant violated: {violation}"))


def _to_nobody(response: Message | HangUp | None) -> None:
    """The answer to a request that was abandoned."""
