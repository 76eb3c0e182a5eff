"""One machine with one process.

The disk and the clock outlive the process; the node, its timer and its unanswered requests do not. While a process is
paused, bytes pile up in its sockets and its clock goes on; when it resumes it handles all of them, late, before or
after it looks at its clock.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from insync.sansio import Effect, Event, Message, PeerLost, Request, Response, Send, Timer
from insync.sim.engine.connection import Connection
from insync.sim.engine.disk import SimDisk
from insync.sim.engine.engine import Engine, NodeClock
from insync.sim.engine.network import Network
from insync.sim.engine.principals import ClientOf, no_principals

LATE_TIMER_US = 200
"""A deadline that has passed fires this much later, so that a node that asks for it again cannot stop time."""


class NodeLike(Protocol):
    """What the simulator needs to run a node."""

    def start(self, now: int) -> list[Effect]: ...
    def step(self, event: Event, now: int) -> list[Effect]: ...
    def next_deadline(self) -> int | None: ...


class Host:
    """An endpoint of the network; `run_step` is `Cluster.step`, `client_of` says what connections show of others."""

    def __init__(
        self,
        node_id: int,
        config: Any,
        disk: SimDisk,
        clock: NodeClock,
        run_step: Callable[[Host, Event], None],
        client_of: ClientOf = no_principals,
    ) -> None:
        self.id = node_id
        self.config = config
        self.disk = disk
        self.clock = clock
        self.node: Any = None
        self.generation = 0
        self.powered_off = False
        self.paused = False
        self.stopping = False
        self.outage = 0
        self.disk_delay_us = 0
        self.flush_delay_us = 0
        self.written_at = 0
        self.tokens: dict[int, tuple[Connection, int]] = {}
        self._backlog: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._run_step = run_step
        self._client_of = client_of
        self._next_token = 0
        self._timer_at = 0
        self._timer_sequence = 0

    @property
    def alive(self) -> bool:
        return self.node is not None

    def start_process(self, node: NodeLike) -> None:
        self.node = node
        self.generation += 1
        self.powered_off = self.paused = self.stopping = False
        self._clear_process_state()

    def end_process(self, *, powered_off: bool) -> None:
        self.node = None
        self.powered_off = powered_off
        self.paused = self.stopping = False
        self._clear_process_state()

    def _clear_process_state(self) -> None:
        self.tokens.clear()
        self._backlog.clear()
        self._timer_at = 0
        self._timer_sequence += 1

    # --- input of the process ----------------------------------------------------------------------------------------

    def deliver(self, event: Event) -> None:
        if self.paused:
            self._backlog.append((self._run_step, (self, event)))
        elif self.node is not None:
            self._run_step(self, event)

    def run_when_awake(self, action: Callable[..., None], *args: Any) -> None:
        """Run work of the process itself, such as a finished fsync; while the process is paused, the work waits."""
        if self.paused:
            self._backlog.append((action, args))
        else:
            action(*args)

    def on_request(self, connection: Connection, correlation: int, request: Message) -> None:
        self._next_token = token = self._next_token + 1
        self.tokens[token] = (connection, correlation)
        self.deliver(Request(token, request, self._client_of(connection.src)))

    def on_response(self, send: Send, response: Message | None) -> None:
        self.deliver(Response(send, response))

    def on_peer_lost(self, peer: int) -> None:
        self.deliver(PeerLost(peer))

    def reply(self, network: Network, token: int, response: Message | None) -> None:
        connection, correlation = self.tokens.pop(token)  # KeyError if a node answers a request twice
        if response is None:
            network.refuse_to_reply(connection, correlation)
        else:
            network.reply(connection, correlation, response)

    # --- pausing -----------------------------------------------------------------------------------------------------

    def pause(self) -> None:
        self.paused = True

    def resume(self, engine: Engine, rng: random.Random, fire: Callable[[Host, int], None]) -> None:
        """Handle what piled up; chance decides whether the process reads its clock or its sockets first."""
        self.paused = False
        if rng.random() < 0.5:
            self._run_step(self, Timer())
        while self._backlog and self.node is not None:
            action, args = self._backlog.popleft()
            action(*args)
        self.rearm_timer(engine, fire)

    # --- timer -------------------------------------------------------------------------------------------------------

    def rearm_timer(self, engine: Engine, fire: Callable[[Host, int], None]) -> None:
        self._timer_at = 0
        self.arm_timer(engine, fire)

    def arm_timer(self, engine: Engine, fire: Callable[[Host, int], None]) -> None:
        """Keep one timer scheduled, no later than the node's next deadline."""
        node = self.node
        if node is None or self.paused:
            return
        deadline = node.next_deadline()
        if deadline is None:
            return
        at = self.clock.sim_time_of(deadline)
        if at <= engine.now:
            at = engine.now + LATE_TIMER_US
        if self._timer_at and self._timer_at <= at:
            return
        self._timer_at = at
        self._timer_sequence += 1
        engine.call_at(at, fire, self, self._timer_sequence)

    def timer_is_due(self, sequence: int, engine: Engine) -> bool:
        """False if the timer was replaced, or the node has postponed its deadline."""
        if sequence != self._timer_sequence or self.node is None or self.paused:
            return False
        self._timer_at = 0
        deadline = self.node.next_deadline()
        return deadline is not None and self.clock.sim_time_of(deadline) <= engine.now
