"""The controller's part of a node: decide, append, and answer once a majority has the decision (Q2, Q3).

A decision is replayed on the pending image at once, so that the next one builds on it (Q3), and waits here, with its
answer, for the quorum to commit it. An answer without records also waits for what was pending when it was made: it may
report a state that the successor of a deposed controller never sees. Losing leadership drops the pending image and
refuses every waiting answer (Q2).

A change that comes in slices is carried out one slice per step, taking turns with other such changes. Requests and
heartbeats are served in between.

Notes: controller_active, controller_inactive.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from insync.controller.controller import Controller
from insync.controller.decision import Decision, Slices
from insync.metadata.image import Image
from insync.node.config import NodeConfig
from insync.node.controller_apis import ControllerApi, Decide
from insync.node.parts import Parts
from insync.quorum.quorum import Quorum
from insync.sansio import UNKNOWN_CLIENT, Client, Message, Outbox
from insync.security.quotas import MutationQuota, QuotaManager
from insync.wire import metadata_records
from insync.wire.errors import ErrorCode
from insync.wire.types import ms

Answer = Callable[[Message], None]
WhenCommitted = Callable[[ErrorCode | None, Message | None], None]
"""(why it was not committed, else None; the response of the last slice)."""


class ControllerRole:
    def __init__(
        self, config: NodeConfig, quorum: Quorum, rng: Random, out: Outbox, quotas: QuotaManager | None = None
    ) -> None:
        self._quotas = quotas or QuotaManager()
        self.quorum = quorum
        self.out = out
        self.controller = Controller(
            config.controller, rng, out, self.submit, has_authorizer=config.authorizer is not None
        )
        self._epoch = -1  # of the term in which the controller was activated
        self._applied = 0  # by this node: the offset of the next committed record
        self._waiting: deque[tuple[int, WhenCommitted, Message | None]] = deque()
        self._slices: deque[tuple[Slices, WhenCommitted | None]] = deque()
        self._slice_is_next = False  # slices take turns with the controller's own work

    @property
    def active(self) -> bool:
        """Leading now: a resignation within this very step already ends it."""
        return self.controller.active and self._still_leads()

    @property
    def has_slices(self) -> bool:
        """True if a slice of a change is due in the next step."""
        return bool(self._slices) and self.active

    def _still_leads(self) -> bool:
        return self.quorum.is_leader and self.quorum.epoch == self._epoch

    def handle(
        self, api: ControllerApi, request: Message, answer: Answer, now: int, client: Client = UNKNOWN_CLIENT
    ) -> None:
        """Decide a request, and answer it once that is committed, or refuse it."""

        def when_committed(error: ErrorCode | None, response: Message | None) -> None:
            answer(response if error is None else api.refuse(request, error))

        self.decide(api, request, when_committed, now, client)

    def decide(
        self,
        api: ControllerApi,
        request: Message,
        when_committed: WhenCommitted,
        now: int,
        client: Client = UNKNOWN_CLIENT,
    ) -> None:
        """Q3: one request at a time, on the state that all earlier decisions left."""
        if not self.active:
            when_committed(ErrorCode.not_controller, None)
            return
        self.controller.state.next_offset = self.quorum.leo
        decide: Decide = api.decide
        if self._quotas.is_active and api.strict_quota_since is not None and client is not UNKNOWN_CLIENT:
            is_strict = client.version < 0 or client.version >= api.strict_quota_since
            quota = self._quotas.mutation_quota(client.user, client.id, is_strict=is_strict, now=now)
            if quota is not None:
                decide = partial(api.decide, charge=quota.charge)
                when_committed = partial(_tell_throttle_time, quota, when_committed)
        parts = (request,) if api.parts is None else api.parts.divide(request)
        if api.parts is None or len(parts) == 1:
            self._begin(decide(self.controller.state, request, now), when_committed, now)
        else:
            self._begin(self._decide_parts(decide, api.parts, parts, now), when_committed, now)

    def _decide_parts(self, decide: Decide, division: Parts, parts: tuple[Message, ...], now: int) -> Slices:
        """A large request as several smaller ones, whose answers are joined."""
        responses = []
        for part in parts:
            change = decide(self.controller.state, part, now)
            for decision in [change] if isinstance(change, Decision) else change:
                yield Decision(records=decision.records, rest=decision.rest)
                response = decision.response
            responses.append(response)
        yield Decision(response=division.join(responses))

    def submit(self, change: Decision | Slices, now: int) -> None:
        """A change that the controller makes by itself; no answer waits for it."""
        if self.active:
            self._begin(change, None, now)

    def _begin(self, change: Decision | Slices, when_committed: WhenCommitted | None, now: int) -> None:
        if isinstance(change, Decision):
            self._carry_out(change, when_committed, now)
        else:
            self._carry_out_slice(change, when_committed, now)

    def _carry_out_slice(self, slices: Slices, when_committed: WhenCommitted | None, now: int) -> None:
        """Q3: each slice is decided on the state that all earlier decisions left, those of other changes included."""
        decision = next(slices, None)
        if decision is None:
            return
        if decision.response is None:
            self._carry_out(decision, None, now)
            if self.active:
                self._slices.append((slices, when_committed))
            elif when_committed is not None:
                when_committed(ErrorCode.not_controller, None)
        else:
            self._carry_out(decision, when_committed, now)

    def tick(self, now: int) -> None:
        if self.active:
            self.controller.state.next_offset = self.quorum.leo
            self._slice_is_next = bool(self._slices) and not self._slice_is_next
            if self._slice_is_next:
                slices, when_committed = self._slices.popleft()
                self._carry_out_slice(slices, when_committed, now)
            else:
                self.controller.tick(now)

    def peer_lost(self, peer: int, now: int) -> None:
        if self.active:
            self.controller.state.next_offset = self.quorum.leo
            self.controller.on_peer_lost(peer, now)

    def on_stall(self, late_ms: int, now: int) -> None:
        if self.active:
            self.controller.on_stall(late_ms, now)

    def next_deadline(self) -> int | None:
        """Of the controller's own work; see `has_slices` for the rest."""
        return self.controller.next_deadline() if self.active else None

    def activate_when_ready(self, image: Image, applied: int, now: int) -> None:
        """Lead once the record that opens this term is committed and applied: then the image is the whole log."""
        if self.controller.active or not self.quorum.is_leader or applied < self.quorum.leo:
            return
        self._epoch = self.quorum.epoch
        self.controller.state.next_offset = self.quorum.leo
        self.out.note("controller_active", epoch=self.quorum.epoch, offset=applied)
        self.controller.activate(image.copy(), self.quorum.epoch, now)

    def committed(self, applied: int) -> None:
        """Q2: answer what a majority has and this node has applied: a client that asks this node next sees it."""
        self._applied = applied
        while self._waiting and self._waiting[0][0] < applied:
            _, when_committed, response = self._waiting.popleft()
            when_committed(None, response)

    def step_down_if_deposed(self) -> None:
        """Q2: what was decided and not committed vanishes with its term."""
        if not self.controller.active or self._still_leads():
            return
        self.controller.deactivate()
        waiting, self._waiting = self._waiting, deque()
        slices, self._slices = self._slices, deque()
        self.out.note("controller_inactive", epoch=self._epoch, dropped=len(waiting))
        for _, when_committed, _ in waiting:
            when_committed(ErrorCode.not_controller, None)
        for _, when_complete in slices:
            if when_complete is not None:
                when_complete(ErrorCode.not_controller, None)

    def _carry_out(self, decision: Decision, when_committed: WhenCommitted | None, now: int) -> None:
        if decision.records:
            base = self.quorum.leo
            self.quorum.propose([metadata_records.encode(record) for record in decision.records], now)
            for index, record in enumerate(decision.records):
                self.controller.replay(record, base + index)
            self.controller.state.next_offset = self.quorum.leo
            self.controller.state.image.take_changes()  # of the pending image; nothing reads them
        if decision.rest is not None and self.active:
            self._slices.append((decision.rest, None))
        if when_committed is None:
            return
        last = self.quorum.leo - 1
        if last < self._applied:
            when_committed(None, decision.response)
        else:
            self._waiting.append((last, when_committed, decision.response))


def _tell_throttle_time(
    quota: MutationQuota, when_committed: WhenCommitted, error: ErrorCode | None, response: Message | None
) -> None:
    """KIP-599: the client's broker does not read its connection for so long."""
    if response is not None and quota.throttle_ms:
        response = replace(response, throttle_time=ms(quota.throttle_ms))
    when_committed(error, response)
