"""A simulated producer: sends unique values, retries as Kafka's own producer does, and records the results.

Each partition has a queue of batches. Several may be in flight; after a failure the producer waits for the others to
return and sends what is unresolved again, in order and with the same sequence numbers. A batch fails after its delivery
timeout. An idempotent producer whose batch failed gets a new producer id, because its sequence now has a gap.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from insync.metadata.partition import PartitionKey
from insync.properties.history import UNKNOWN_CRC, Acked, Failed, History, Sent
from insync.sansio import Message
from insync.sim.plans.plan import ClientPlan
from insync.sim.workload.client import Client, Worker
from insync.sim.workload.requests import produce_request
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import init_producer_id
from insync.wire.types import ms

DELIVERY_TIMEOUT_MS = 2_500
BACKOFF_MS = 60
WALL_CLOCK_START_MS = 1_700_000_000_000

FATAL_ERRORS = (
    ErrorCode.unknown_topic_id,
    ErrorCode.corrupt_message,
    ErrorCode.invalid_record,
    ErrorCode.message_too_large,
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.unknown_producer_id,
)
"""Errors that a retry does not change."""


class PendingBatch:
    """One batch for one partition, through all its attempts."""

    __slots__ = ("attempts", "data", "deadline", "number", "producer", "sequence")

    def __init__(self, number: int, data: bytes, deadline: int, producer: int) -> None:
        self.number = number
        self.data = data
        self.deadline = deadline
        self.producer = producer
        self.attempts = 0


class PartitionQueue:
    """The unresolved batches of one partition, oldest first."""

    __slots__ = ("batches", "broken", "in_flight", "next_sequence")

    def __init__(self) -> None:
        self.batches: deque[PendingBatch] = deque()
        self.in_flight = 0
        self.broken = False
        self.next_sequence = 0


class Producer(Worker):
    def __init__(
        self,
        client: Client,
        plan: ClientPlan,
        history: History,
        topics: tuple[str, ...],
        append_time_topics: tuple[str, ...] = (),
    ) -> None:
        super().__init__(client, plan, history, topics)
        self.acked = 0
        self.failed = 0
        self._append_time_topics = append_time_topics
        self._queues: dict[PartitionKey, PartitionQueue] = {}
        self._values = 0
        self._sent_count = 0
        self._producer_id = -1
        self._asking_id = False

    @property
    def unanswered(self) -> int:
        return sum(len(queue.batches) for queue in self._queues.values())

    def _work(self) -> None:
        if self._plan.idempotent and self._producer_id < 0:
            self._ask_producer_id()
            return
        key = self._cache.pick_partition()
        if key is not None:
            self._produce(key)

    # --- a producer id -----------------------------------------------------------------------------------------------

    def _ask_producer_id(self) -> None:
        if self._asking_id:
            return
        self._asking_id = True
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=None, transaction_timeout=ms(60_000), producer_id=-1, producer_epoch=-1
        )
        self.client.ask_random_broker(request, self._on_producer_id)

    def _on_producer_id(self, response: Message | None, _now: int) -> None:
        self._asking_id = False
        if response is not None and response.error_code is ErrorCode.none:
            self._producer_id = response.producer_id
            for queue in self._queues.values():
                queue.next_sequence = 0

    def _drop_producer_id(self) -> None:
        """The sequence has a gap: whatever is not sent yet starts over with a new producer id."""
        self._producer_id = -1

    # --- sending -----------------------------------------------------------------------------------------------------

    def _produce(self, key: PartitionKey) -> None:
        queue = self._queues.setdefault(key, PartitionQueue())
        if queue.broken or len(queue.batches) >= self._plan.in_flight:
            return
        pending = self._new_batch(key, queue)
        if self._plan.acks == 0:
            self._history.append(Acked(pending.number, self.client.engine.now))
        else:
            queue.batches.append(pending)
        self._send(key, queue, pending)

    def _new_batch(self, key: PartitionKey, queue: PartitionQueue) -> PendingBatch:
        plan, now = self._plan, self.client.engine.now
        count = self.client.rng.randint(1, plan.max_records)
        records = [batch.NewRecord(None, self._value()) for _ in range(count)]
        idempotent = plan.idempotent
        data = batch.build(
            records,
            timestamp_ms=WALL_CLOCK_START_MS + now // 1_000,
            producer_id=self._producer_id if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=queue.next_sequence if idempotent else -1,
        )
        queue.next_sequence += count
        self._sent_count += 1
        number = -plan.client_id * 1_000_000 + self._sent_count
        crc = UNKNOWN_CRC if self._uses_append_time(key) else batch.read_header(data).crc
        self._history.append(Sent(number, now, key, acks=plan.acks, count=count, crc=crc, idempotent=idempotent))
        return PendingBatch(number, bytes(data), now + DELIVERY_TIMEOUT_MS * 1_000, self._producer_id)

    def _value(self) -> bytes:
        self._values += 1
        return b"p%d-%d" % (-self._plan.client_id, self._values) + b"." * self._plan.value_bytes

    def _uses_append_time(self, key: PartitionKey) -> bool:
        leader = self._cache.leaders.get(key)
        return leader is not None and leader.topic in self._append_time_topics

    def _send(self, key: PartitionKey, queue: PartitionQueue, pending: PendingBatch) -> None:
        leader = self._cache.leaders.get(key)
        node = leader.node if leader is not None and leader.node >= 0 else self.client.rng.choice(self.client.brokers)
        request = produce_request(key, pending.data, acks=self._plan.acks, timeout_ms=self.client.timeout_ms * 2 // 3)
        pending.attempts += 1
        if self._plan.acks == 0:
            self.client.ask(node, request, lambda _response, _now: None, one_way=True)
            return
        queue.in_flight += 1
        self.client.ask(node, request, lambda response, now: self._on_produced(key, queue, pending, response, now))

    # --- answers -----------------------------------------------------------------------------------------------------

    def _on_produced(
        self, key: PartitionKey, queue: PartitionQueue, pending: PendingBatch, response: Message | None, now: int
    ) -> None:
        queue.in_flight -= 1
        answer = None if response is None else _only_partition(response)
        error = ErrorCode.network_exception if answer is None else answer.error_code
        if error in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            self._resolve(queue, pending)
            self.acked += 1
            self._history.append(Acked(pending.number, now, -1 if answer is None else answer.base_offset))
        elif self._is_fatal(queue, pending, error):
            self._fail(queue, pending, error)
        else:
            queue.broken = True
            self._cache.refresh()
        if queue.broken and queue.in_flight == 0:
            self.client.later(BACKOFF_MS, self._retry, key, queue)

    def _is_fatal(self, queue: PartitionQueue, pending: PendingBatch, error: ErrorCode) -> bool:
        """A batch behind an unresolved one may be out of order only because of that one."""
        if error is ErrorCode.out_of_order_sequence_number and queue.batches and queue.batches[0] is not pending:
            return False
        return error in FATAL_ERRORS

    def _retry(self, key: PartitionKey, queue: PartitionQueue) -> None:
        """Send everything unresolved again, in order; batches whose timeout has passed fail."""
        now = self.client.engine.now
        queue.broken = False
        for pending in list(queue.batches):
            if now >= pending.deadline or (pending.producer != self._producer_id and self._plan.idempotent):
                self._fail(queue, pending, ErrorCode.request_timed_out)
        for pending in list(queue.batches):
            self._send(key, queue, pending)

    def _fail(self, queue: PartitionQueue, pending: PendingBatch, error: ErrorCode) -> None:
        self._resolve(queue, pending)
        self.failed += 1
        self._history.append(Failed(pending.number, self.client.engine.now, error.name))
        if self._plan.idempotent and pending.producer == self._producer_id:
            self._drop_producer_id()

    def _resolve(self, queue: PartitionQueue, pending: PendingBatch) -> None:
        queue.batches.remove(pending)


def _only_partition(response: Message) -> Any:
    return response.responses[0].partition_responses[0]
