"""The controller's part of a node: decide, append, and answer once a majority has the decision (Q2, Q3).

A decision is replayed on the pending image at once, so that the next one rests on it (Q3), and waits here, with its
answer, for the quorum to commit it. An answer without records also waits for what was pending when it was made: it may
tell of a state that a deposed controller's successor never sees. Losing leadership drops the pending image and refuses
every waiting answer (Q2).

Notes: controller_active, controller_inactive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from types import ModuleType

from insync.controller.controller import Controller
from insync.controller.decision import Decision
from insync.metadata.image import Image
from insync.node.config import NodeConfig
from insync.quorum.quorum import Quorum
from insync.sansio import Message, Outbox
from insync.wire import metadata_records
from insync.wire.errors import ErrorCode

Answer = Callable[[Message], None]


class ControllerRole:
    def __init__(self, config: NodeConfig, quorum: Quorum, rng: Random, out: Outbox) -> None:
        self.quorum = quorum
        self.out = out
        self.now = 0  # of the step under way
        self.controller = Controller(config.controller, rng, out, self.submit)
        self._epoch = -1  # of the term in which the controller was activated
        self._waiting: deque[tuple[int, Callable[[ErrorCode | None], None]]] = deque()

    @property
    def active(self) -> bool:
        """Leading now: a resignation within this very step already ends it."""
        return self.controller.active and self._still_leads()

    def _still_leads(self) -> bool:
        return self.quorum.is_leader and self.quorum.epoch == self._epoch

    def handle(self, api: ModuleType, request: Message, answer: Answer, now: int) -> None:
        """Decide one request (Q3: one at a time, on the state that all earlier decisions left)."""
        if not self.active:
            answer(api.refuse(request, ErrorCode.not_controller))
            return
        self.controller.next_offset = self.quorum.leo
        decision = api.decide(self.controller, request, now)

        def when_committed(error: ErrorCode | None) -> None:
            answer(decision.response if error is None else api.refuse(request, error))

        self._carry_out(decision, when_committed)

    def submit(self, decision: Decision) -> None:
        """A change that the controller makes of its own accord; nobody waits for it."""
        if self.active:
            self._carry_out(decision, None)

    def tick(self, now: int) -> None:
        if self.active:
            self.controller.next_offset = self.quorum.leo
            self.controller.tick(now)

    def peer_lost(self, peer: int, now: int) -> None:
        if self.active:
            self.controller.next_offset = self.quorum.leo
            self.controller.peer_lost(peer, now)

    def held_up(self, late_ms: int, now: int) -> None:
        if self.active:
            self.controller.held_up(late_ms, now)

    def next_deadline(self) -> int | None:
        return self.controller.next_deadline() if self.active else None

    def activate_when_ready(self, image: Image, applied: int, now: int) -> None:
        """Lead once the record that opens this term is committed and applied: then the image is the whole log."""
        if self.controller.active or not self.quorum.is_leader or applied < self.quorum.leo:
            return
        self._epoch = self.quorum.epoch
        self.controller.next_offset = self.quorum.leo
        self.out.note("controller_active", epoch=self.quorum.epoch, offset=applied)
        self.controller.activate(image.copy(), self.quorum.epoch, now)

    def committed(self, hwm: int) -> None:
        """Q2: answer everything that is now on a majority."""
        while self._waiting and self._waiting[0][0] < hwm:
            self._waiting.popleft()[1](None)

    def step_down_if_deposed(self) -> None:
        """Q2: what was decided and not committed vanishes with its term."""
        if not self.controller.active or self._still_leads():
            return
        self.controller.deactivate()
        waiting, self._waiting = self._waiting, deque()
        self.out.note("controller_inactive", epoch=self._epoch, dropped=len(waiting))
        for _, when_committed in waiting:
            when_committed(ErrorCode.not_controller)

    def _carry_out(self, decision: Decision, when_committed: Callable[[ErrorCode | None], None] | None) -> None:
        if decision.records:
            base = self.quorum.leo
            self.quorum.propose([metadata_records.encode(record) for record in decision.records], self.now)
            for index, record in enumerate(decision.records):
                self.controller.replay(record, base + index)
            self.controller.next_offset = self.quorum.leo
        if when_committed is None:
            return
        last = self.quorum.leo - 1
        if last < self.quorum.hwm:
            when_committed(None)
        else:
            self._waiting.append((last, when_committed))
