"""Where acks=all produces wait for the high watermark (P1-P3, H5). They hold no worker, only these few objects.

A request may write to many partitions. Each of its appends waits in its own replica's queue, ordered by the offset
that the high watermark has to reach; the request is answered once, when the last one is decided.

What the node itself appends waits here too. The appender may want to append again when it learns the outcome, so it is
called at the end of the step (`outcomes`), not in the middle of whatever decided it. Its records take effect when they
commit, also if that is after its timeout: such an append keeps its place in the queue while this replica leads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING
from uuid import UUID

from insync.sansio import Outbox
from insync.wire.errors import ErrorCode, Refusal
from insync.wire.messages import produce

if TYPE_CHECKING:
    from insync.replication.replica import Replica


FEW = 64
_NO_HINT = produce.LeaderIdAndEpoch()


class PartitionAnswer:
    """One partition's line in a produce answer."""

    __slots__ = ("append_time", "base_offset", "error", "index", "leader_hint", "log_start", "refusal", "topic_id")

    def __init__(self, topic_id: UUID | None, index: int) -> None:
        self.topic_id = topic_id
        self.index = index
        self.error = ErrorCode.none
        self.base_offset = -1
        self.log_start = -1
        self.append_time: datetime | None = None
        self.leader_hint = _NO_HINT
        self.refusal: Refusal | None = None

    def refuse(self, refusal: Refusal) -> None:
        self.error = refusal.error
        self.refusal = refusal


class ParkedProduce:
    __slots__ = ("answers", "deadline", "open", "token", "waiters")

    def __init__(self, token: int, deadline: int, answers: list[PartitionAnswer]) -> None:
        self.token = token
        self.deadline = deadline
        self.answers = answers
        self.open = 0
        self.waiters: list[Waiter] = []

    def finish(self, purgatory: Purgatory) -> None:
        purgatory.out.reply(self.token, response(self.answers))


OnAppended = Callable[[ErrorCode, int, int], None]
"""Called with the outcome, the base offset (-1 if refused) and the time."""
OnCommitted = Callable[[int], None]
"""Called with the time."""


class ParkedAppend:
    """An append of the node itself, with its own acks=all.

    `on_done` is called once, with what an acks=all producer would be answered. `on_committed` is called once if the
    high watermark passes the records while this replica leads, in the order of the log, before `on_done` if that was
    not called yet.
    """

    __slots__ = ("answer", "deadline", "on_committed", "on_done", "open", "waiters")

    def __init__(self, on_done: OnAppended, on_committed: OnCommitted, deadline: int, answer: PartitionAnswer) -> None:
        self.on_done: OnAppended | None = on_done
        self.on_committed = on_committed
        self.deadline = deadline
        self.answer = answer
        self.open = 0
        self.waiters: list[Waiter] = []

    def finish(self, purgatory: Purgatory) -> None:
        on_done, self.on_done = self.on_done, None
        if on_done is not None:
            error = self.answer.error
            base_offset = self.answer.base_offset if error is ErrorCode.none else -1
            purgatory.outcomes.append(lambda now: on_done(error, base_offset, now))

    def commit(self, purgatory: Purgatory) -> None:
        purgatory.outcomes.append(self.on_committed)


Parked = ParkedProduce | ParkedAppend


class Waiter:
    """One append of a parked produce: `required` is the high watermark that commits it."""

    __slots__ = ("answer", "done", "parked", "replica", "required")

    def __init__(self, replica: Replica, required: int, answer: PartitionAnswer, parked: Parked) -> None:
        self.replica = replica
        self.required = required
        self.answer = answer
        self.parked = parked
        self.done = False


class Purgatory:
    __slots__ = ("_deadlines", "_open", "_produces", "_sequence", "out", "outcomes")

    def __init__(self, out: Outbox) -> None:
        self.out = out
        self._deadlines: list[tuple[int, int, Parked]] = []  # some of them decided since
        self._open = 0  # how many are not
        self._produces: dict[int, ParkedProduce] = {}  # of these, by token, those of clients
        self._sequence = 0
        self.outcomes: deque[Callable[[int], None]] = deque()
        """Of the node's own appends: to be called with the time at the end of the step."""

    def park(self, parked: Parked, waiters: list[Waiter]) -> None:
        parked.waiters = waiters
        parked.open = len(waiters)
        for waiter in waiters:
            _enqueue(waiter.replica.waiting, waiter)
        self._sequence += 1
        heappush(self._deadlines, (parked.deadline, self._sequence, parked))
        self._open += 1
        if isinstance(parked, ParkedProduce):
            self._produces[parked.token] = parked
        if len(self._deadlines) > 2 * self._open + FEW:
            self._deadlines = [entry for entry in self._deadlines if entry[2].open]
            heapify(self._deadlines)

    def abandon(self, token: int) -> None:
        """Nobody waits for this produce's answer any longer."""
        parked = self._produces.get(token)
        if parked is not None:
            self._give_up(parked)

    def _give_up(self, parked: Parked) -> None:
        if isinstance(parked, ParkedAppend):
            self._answer_early(parked, ErrorCode.request_timed_out)
            return
        for waiter in parked.waiters:
            if not waiter.done:
                waiter.replica.waiting.remove(waiter)
                self._decide(waiter, ErrorCode.request_timed_out)

    def _answer_early(self, parked: ParkedAppend, error: ErrorCode) -> None:
        """The records stay in the log: they still take effect when they commit."""
        if parked.open:
            parked.answer.error = error
            parked.finish(self)

    def reached(self, replica: Replica, hwm: int, error: ErrorCode) -> None:
        """H5: the high watermark has passed these appends. P2: `error` if the ISR is below MinISR at this moment."""
        waiting = replica.waiting
        while waiting and waiting[0].required <= hwm:
            waiter = waiting.popleft()
            if isinstance(waiter.parked, ParkedAppend):
                waiter.parked.commit(self)
            self._decide(waiter, error)

    def fail_below_min_isr(self, replica: Replica) -> None:
        """P2: the ISR fell below MinISR. The node's own appends wait on, to take effect should they commit."""
        error = ErrorCode.not_enough_replicas_after_append
        waiting, replica.waiting = replica.waiting, deque()
        for waiter in waiting:
            if isinstance(waiter.parked, ParkedAppend):
                replica.waiting.append(waiter)
                self._answer_early(waiter.parked, error)
            else:
                self._decide(waiter, error)

    def fail_all(self, replica: Replica, error: ErrorCode) -> None:
        """T4, T7: this replica leads no longer."""
        waiting, replica.waiting = replica.waiting, deque()
        for waiter in waiting:
            self._decide(waiter, error)

    def expire(self, now: int) -> None:
        """P3: whoever has waited long enough is told so; the records stay and may commit later."""
        while self._deadlines and self._deadlines[0][0] <= now:
            self._give_up(heappop(self._deadlines)[2])

    def next_deadline(self) -> int | None:
        while self._deadlines and self._deadlines[0][2].open == 0:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _decide(self, waiter: Waiter, error: ErrorCode) -> None:
        if waiter.done:
            return
        waiter.done = True
        waiter.answer.error = error
        parked = waiter.parked
        parked.open -= 1
        if parked.open == 0:
            parked.waiters = []  # they refer back to it, and a cycle would have to wait for the garbage collector
            self._open -= 1
            if isinstance(parked, ParkedProduce):
                del self._produces[parked.token]
            parked.finish(self)


def response(answers: list[PartitionAnswer]) -> produce.ProduceResponse:
    topics: dict[UUID | None, list[produce.PartitionProduceResponse]] = {}
    for answer in answers:
        topics.setdefault(answer.topic_id, []).append(_line(answer))
    return produce.ProduceResponse(
        responses=tuple(
            produce.TopicProduceResponse(topic_id=topic_id, partition_responses=tuple(lines))
            for topic_id, lines in topics.items()
        )
    )


def _line(answer: PartitionAnswer) -> produce.PartitionProduceResponse:
    refused = answer.error is not ErrorCode.none
    return produce.PartitionProduceResponse(
        index=answer.index,
        error_code=answer.error,
        base_offset=-1 if refused else answer.base_offset,
        log_append_time=None if refused else answer.append_time,
        log_start_offset=answer.log_start,
        record_errors=() if answer.refusal is None else _record_errors(answer.refusal),
        error_message=None if answer.refusal is None else answer.refusal.message,
        current_leader=answer.leader_hint,
    )


def _record_errors(refusal: Refusal) -> tuple[produce.BatchIndexAndErrorMessage, ...]:
    return tuple(
        [
            produce.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
            for index, message in refusal.records
        ]
    )


def _enqueue(waiting: deque[Waiter], waiter: Waiter) -> None:
    """Appends come in offset order; only a retried duplicate belongs further to the front."""
    at = len(waiting)
    while at and waiting[at - 1].required > waiter.required:
        at -= 1
    waiting.insert(at, waiter)
