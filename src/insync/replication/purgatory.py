"""Where acks=all produces wait for the high watermark (P1-P3, H5).

A request may write to many partitions. Each of its appends waits in the queue of its own replica, ordered by the offset
that the high watermark has to reach; the request is answered once, when the last append is decided.

Appends of the node itself wait here too. Their callbacks may append again, so they run at the end of the step
(`outcomes`) and not in the middle of whatever decided them. Such records take effect when they commit, even after the
append timed out: the append keeps its place in the queue while this replica leads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime
from heapq import heapify, heappop, heappush
from uuid import UUID

from insync.sansio import Outbox
from insync.wire.errors import ErrorCode, Refusal
from insync.wire.messages import produce

STALE_DEADLINES = 64
"""The heap of deadlines is rebuilt when entries of decided requests outnumber the others by this many."""
_NONE = ErrorCode.none
_NO_HINT = produce.LeaderIdAndEpoch()


class PartitionResult:
    """One partition of a produce response."""

    __slots__ = ("append_time", "base_offset", "error", "index", "leader_hint", "log_start", "refusal", "topic_id")

    def __init__(self, topic_id: UUID | None, index: int) -> None:
        self.topic_id = topic_id
        self.index = index
        self.error = _NONE
        self.base_offset = -1
        self.log_start = -1
        self.append_time: datetime | None = None
        self.leader_hint = _NO_HINT
        self.refusal: Refusal | None = None

    def refuse(self, refusal: Refusal) -> None:
        self.error = refusal.error
        self.refusal = refusal


class ParkedProduce:
    __slots__ = ("deadline", "results", "token", "undecided", "waiters")

    def __init__(self, token: int, deadline: int, results: list[PartitionResult]) -> None:
        self.token = token
        self.deadline = deadline
        self.results = results
        self.undecided = 0
        """How many of the waiters are not decided."""
        self.waiters: list[Waiter] = []


OnAppended = Callable[[ErrorCode, int, int], None]
"""Called with the error, the base offset (-1 if refused) and the time."""
OnCommitted = Callable[[int], None]
"""Called with the time."""


class ParkedAppend:
    """An append of the node itself, with acks=all.

    `on_done` is called once, with the result that an acks=all producer would get. `on_committed` is called once if the
    high watermark passes the records while this replica leads: in log order, and before `on_done` unless that was
    called already.
    """

    __slots__ = ("deadline", "on_committed", "on_done", "result", "undecided", "waiters")

    def __init__(self, on_done: OnAppended, on_committed: OnCommitted, deadline: int, result: PartitionResult) -> None:
        self.on_done: OnAppended | None = on_done
        self.on_committed = on_committed
        self.deadline = deadline
        self.result = result
        self.undecided = 0
        self.waiters: list[Waiter] = []


Parked = ParkedProduce | ParkedAppend


Uncommitted = tuple["deque[Waiter]", int, PartitionResult]
"""One append: the queue of its replica, the high watermark that commits it, and its result."""


class Waiter:
    """One append of a parked request. `required` is the high watermark that commits it."""

    __slots__ = ("is_decided", "parked", "queue", "required", "result")

    def __init__(self, queue: deque[Waiter], required: int, result: PartitionResult, parked: Parked) -> None:
        self.queue = queue
        self.required = required
        self.result = result
        self.parked = parked
        self.is_decided = False


class Purgatory:
    __slots__ = ("_deadlines", "_out", "_produces", "_sequence", "_undecided", "outcomes")

    def __init__(self, out: Outbox) -> None:
        self._out = out
        self._deadlines: list[tuple[int, int, Parked]] = []  # includes entries that were decided since
        self._undecided = 0
        self._produces: dict[int, ParkedProduce] = {}  # undecided requests of clients, by token
        self._sequence = 0
        self.outcomes: deque[Callable[[int], None]] = deque()
        """Callbacks of the node's own appends, to be called with the time at the end of the step."""

    def park(self, parked: Parked, uncommitted: list[Uncommitted]) -> None:
        """H5: the request waits for these appends. Without any it is finished: the others are committed, or failed."""
        if not uncommitted:
            if isinstance(parked, ParkedAppend) and parked.result.error is _NONE:
                self.outcomes.append(parked.on_committed)
            self._finish(parked)
            return
        parked.undecided = len(uncommitted)
        for queue, required, result in uncommitted:
            waiter = Waiter(queue, required, result, parked)
            parked.waiters.append(waiter)
            # Appends come in offset order; only a retried duplicate belongs further to the front.
            position = len(queue)
            while position and queue[position - 1].required > required:
                position -= 1
            queue.insert(position, waiter)
        self._sequence += 1
        heappush(self._deadlines, (parked.deadline, self._sequence, parked))
        self._undecided += 1
        if isinstance(parked, ParkedProduce):
            self._produces[parked.token] = parked
        if len(self._deadlines) > 2 * self._undecided + STALE_DEADLINES:
            self._deadlines = [entry for entry in self._deadlines if entry[2].undecided]
            heapify(self._deadlines)

    def complete_up_to(self, queue: deque[Waiter], hwm: int) -> None:
        """H5, P2: the high watermark has passed these appends, which it does only while the ISR has MinISR members."""
        while queue and queue[0].required <= hwm:
            waiter = queue.popleft()
            if isinstance(waiter.parked, ParkedAppend):
                self.outcomes.append(waiter.parked.on_committed)
            self._decide(waiter, _NONE)

    def fail_below_min_isr(self, queue: deque[Waiter]) -> None:
        """P2: the ISR fell below MinISR. The node's own appends stay queued: their records may still commit."""
        error = ErrorCode.not_enough_replicas_after_append
        waiters = list(queue)
        queue.clear()
        for waiter in waiters:
            if isinstance(waiter.parked, ParkedAppend):
                queue.append(waiter)
                self._fail_early(waiter.parked, error)
            else:
                self._decide(waiter, error)

    def fail_all(self, queue: deque[Waiter], error: ErrorCode) -> None:
        """T4, T7: this replica leads no longer."""
        waiters = list(queue)
        queue.clear()
        for waiter in waiters:
            self._decide(waiter, error)

    def expire(self, now: int) -> None:
        """P3: fail what has reached its deadline. The records stay in the log and may commit later."""
        while self._deadlines and self._deadlines[0][0] <= now:
            self._time_out(heappop(self._deadlines)[2])

    def abandon(self, token: int) -> None:
        """The client of this produce is gone."""
        parked = self._produces.get(token)
        if parked is not None:
            self._time_out(parked)

    def next_deadline(self) -> int | None:
        while self._deadlines and self._deadlines[0][2].undecided == 0:
            heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def _finish(self, parked: Parked) -> None:
        """Answer a request whose appends are all decided."""
        if isinstance(parked, ParkedProduce):
            self._out.reply(parked.token, make_response(parked.results))
            return
        on_done, parked.on_done = parked.on_done, None
        if on_done is not None:
            error = parked.result.error
            base_offset = parked.result.base_offset if error is _NONE else -1
            self.outcomes.append(lambda now: on_done(error, base_offset, now))

    def _time_out(self, parked: Parked) -> None:
        if isinstance(parked, ParkedAppend):
            self._fail_early(parked, ErrorCode.request_timed_out)
            return
        for waiter in parked.waiters:
            if not waiter.is_decided:
                waiter.queue.remove(waiter)
                self._decide(waiter, ErrorCode.request_timed_out)

    def _fail_early(self, parked: ParkedAppend, error: ErrorCode) -> None:
        """Report the failure; the records stay in the log and take effect if they commit."""
        if parked.undecided:
            parked.result.error = error
            self._finish(parked)

    def _decide(self, waiter: Waiter, error: ErrorCode) -> None:
        if waiter.is_decided:
            return
        waiter.is_decided = True
        waiter.result.error = error
        parked = waiter.parked
        parked.undecided -= 1
        if parked.undecided == 0:
            parked.waiters = []  # breaks a reference cycle, which would have to wait for the garbage collector
            self._undecided -= 1
            if isinstance(parked, ParkedProduce):
                del self._produces[parked.token]
            self._finish(parked)


def make_response(results: list[PartitionResult]) -> produce.ProduceResponse:
    topics: dict[UUID | None, list[produce.PartitionProduceResponse]] = {}
    for result in results:
        refusal, is_refused = result.refusal, result.error is not _NONE
        topics.setdefault(result.topic_id, []).append(
            produce.PartitionProduceResponse(
                index=result.index,
                error_code=result.error,
                base_offset=-1 if is_refused else result.base_offset,
                log_append_time=None if is_refused else result.append_time,
                log_start_offset=result.log_start,
                record_errors=()
                if refusal is None
                else tuple(
                    [
                        produce.BatchIndexAndErrorMessage(batch_index=index, batch_index_error_message=message)
                        for index, message in refusal.records
                    ]
                ),
                error_message=None if refusal is None else refusal.message,
                current_leader=result.leader_hint,
            )
        )
    return produce.ProduceResponse(
        responses=tuple(
            produce.TopicProduceResponse(topic_id=topic_id, partition_responses=tuple(partitions))
            for topic_id, partitions in topics.items()
        )
    )
