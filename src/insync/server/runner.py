"""Drives one node on one event loop: events in, effects out, one timer.

`step` runs the node synchronously and carries out its effects at once, so that an answer leaves in the callback that
read its request. Nothing here is re-entered: whatever an effect causes comes back through the loop. A broken
invariant or a failing disk ends the process without the clean-shutdown file. A request that makes the node raise is a
defect, but only its sender's connection is closed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Protocol

from insync import sansio
from insync.errors import InvariantError
from insync.node.node import Node
from insync.server.disk import DiskThreads
from insync.server.divided import Answer
from insync.server.lateness import SOCKET_POLL_S, Lateness
from insync.server.loopback import Loopback
from insync.server.turns import Turns

log = logging.getLogger("insync.server")


class Peers(Protocol):
    def send(self, send: sansio.Send) -> None: ...


class Outgoing(Protocol):
    """Between `hold` and `release`, answers may be held back so that they are sent together."""

    def hold(self) -> None: ...

    def release(self) -> None: ...


class Notes(Protocol):
    def note(self, note: sansio.Note) -> None: ...


ARM_DELAY_S = 0.001
"""Computing the next deadline asks every part of the node, and costs as much as a small request. So it is done this
long after a step, once for all steps until then."""


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class Runner:
    """`stopped` is set with the `Stop` that ended the node."""

    def __init__(self, node: Node, threads: DiskThreads, notes: Notes, loop: asyncio.AbstractEventLoop) -> None:
        self.node = node
        self.loop = loop
        self.stopped: asyncio.Future[sansio.Stop] = loop.create_future()
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
        self._is_arming = False
        self._executors: dict[type, Callable[[Any], None]] = {
            sansio.Reply: self._reply,
            sansio.HangUp: self._hang_up,
            sansio.Send: self._send,
            sansio.Sync: self._sync,
            sansio.WriteFile: self._write,
            sansio.Note: notes.note,
            sansio.Stop: self._stop,
        }

    @property
    def unanswered(self) -> int:
        return len(self._answers)

    def use_turns(self, turns: Turns) -> None:
        """Requests of the node to itself wait for their turn among those of others."""
        self._loopback = Loopback(turns, self._request_self)

    def start(self) -> None:
        self._run_guarded(lambda: self.node.start(now_ms()))

    def request(
        self, message: sansio.Message, answer: Answer, client: sansio.Client = sansio.UNKNOWN_CLIENT, more: bool = False
    ) -> int:
        """Submit a request to the node; `answer` is called exactly once, possibly before this returns its token.

        `more`: another request follows at once, or `end_turn`.
        """
        self._next_token = token = self._next_token + 1
        self._answers[token] = answer
        try:
            effects = self.node.step(sansio.Request(token, message, client, more), now_ms())
        except InvariantError as violation:
            self._on_violation(violation)
            return token
        except Exception:  # a defect: the connection is closed, the others are served
            log.exception("event=request_failed api=%s", type(message).__name__)
            effects = self.node.out.drain()
            if token in self._answers:
                effects.append(sansio.HangUp(token, "the node failed to handle it"))
        self._execute(effects)
        return token

    def end_turn(self) -> None:
        """No request follows, although the last one announced another."""
        self.step(sansio.TurnEnded())

    def abandon(self, token: int, message: sansio.Message) -> None:
        """The client has disconnected. Its answer callback is released at once; the node answers later."""
        if token in self._answers:
            self._answers[token] = _discard_answer
            self.step(sansio.RequestAbandoned(token, message))

    def step(self, event: sansio.Event) -> None:
        self._run_guarded(lambda: self.node.step(event, now_ms()))

    def _run_guarded(self, action: Callable[[], list[sansio.Effect]]) -> None:
        try:
            effects = action()
        except InvariantError as violation:
            self._on_violation(violation)
        except OSError as error:
            self._stop(sansio.Stop(False, f"disk failed: {error}", error))
        except Exception as error:
            log.exception("event=step_failed")
            self._stop(sansio.Stop(False, f"defect: {error!r}"))
        else:
            self._execute(effects)

    def _execute(self, effects: list[sansio.Effect]) -> None:
        executors = self._executors
        outgoing = self.outgoing if len(effects) > 1 else None
        if outgoing is not None:
            outgoing.hold()
        try:
            for effect in effects:
                executors[type(effect)](effect)
        finally:
            if outgoing is not None:
                outgoing.release()
        if not self._is_arming:
            self._is_arming = True
            self.loop.call_later(ARM_DELAY_S, self._arm)

    # --- the timer ---------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        """Set a timer no later than the next deadline. If it fires early, it is set again."""
        self._is_arming = False
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
        elif self._lateness.should_poll_first(self._timer_at, now):
            self._timer = self.loop.call_later(SOCKET_POLL_S, self._fire)
        else:
            self.step(sansio.Timer())

    # --- effects -----------------------------------------------------------------------------------------------------

    def _reply(self, effect: sansio.Reply) -> None:
        self._answers.pop(effect.token)(effect.response)  # a second answer to one request is a defect: KeyError

    def _hang_up(self, effect: sansio.HangUp) -> None:
        self._answers.pop(effect.token)(effect)

    def _send(self, effect: sansio.Send) -> None:
        if effect.peer == self.node.id:
            if self._loopback is None:
                self.loop.call_soon(self._request_self, effect)
            else:
                self._loopback.send(effect)
        elif self.peers is not None:
            self.peers.send(effect)

    def _request_self(self, send: sansio.Send) -> None:
        """Without a socket, but by the same rule: one answer, or None at the timeout."""
        open_send = [send]

        def complete(response: sansio.Message | sansio.HangUp | None) -> None:
            if open_send:
                open_send.clear()
                timeout.cancel()
                self.step(sansio.Response(send, None if isinstance(response, sansio.HangUp) else response))

        timeout = self.loop.call_later(send.timeout_ms / 1_000, complete, None)
        self.request(send.request, lambda response: self._call_soon(complete, response))

    def _call_soon(self, complete: Answer, response: sansio.Message | sansio.HangUp | None) -> None:
        self.loop.call_soon(complete, response)

    def _sync(self, effect: sansio.Sync) -> None:
        def done(error: OSError | None) -> None:
            self.step(sansio.Synced(effect) if error is None else sansio.DiskFailed(error))

        self._threads.flush(effect.job, done)

    def _write(self, effect: sansio.WriteFile) -> None:
        def done(error: OSError | None) -> None:
            if error is not None:
                self.step(sansio.DiskFailed(error))

        self._threads.write(effect.path, effect.data, done)

    def _stop(self, effect: sansio.Stop) -> None:
        if not self.stopped.done():
            self.node.stopped = True
            self.stopped.set_result(effect)

    def _on_violation(self, violation: InvariantError) -> None:
        log.critical("event=invariant_on_violation property=%s detail=%r", violation.name, violation.detail)
        self._stop(sansio.Stop(False, f"invariant violated: {violation}"))


def _discard_answer(response: sansio.Message | sansio.HangUp | None) -> None:
    """For a request that was abandoned."""
