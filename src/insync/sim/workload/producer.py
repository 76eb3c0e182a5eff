"""A simulated producer: sends unique values, retries as Kafka's own producer does, and writes down what it was told.

Per partition there is a lane of batches in order. Several may be in flight; after a failure the lane waits for the
others to come back and sends what is unresolved again, in order and with the same sequence numbers. A batch is given up
after its delivery time. An idempotent producer that gives one up takes a new producer id, because the numbering has a
hole.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from insync.metadata.partition import PartitionKey
from insync.properties.history import UNKNOWN_CRC, Acked, Failed, History, Sent
from insync.sansio import Message
from insync.sim.plans.plan import ClientPlan
from insync.sim.workload.client import Client, MetadataCache
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import init_producer_id, produce
from insync.wire.types import ms

DELIVERY_MS = 2_500
BACKOFF_MS = 60
EPOCH_MS = 1_700_000_000_000

FATAL = (
    ErrorCode.unknown_topic_id,
    ErrorCode.corrupt_message,
    ErrorCode.invalid_record,
    ErrorCode.message_too_large,
    ErrorCode.out_of_order_sequence_number,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.unknown_producer_id,
)
"""What another attempt would not change."""


class Op:
    """One batch for one partition, through all its attempts."""

    __slots__ = ("attempts", "data", "deadline", "number", "producer", "sequence")

    def __init__(self, number: int, data: bytes, deadline: int, producer: int) -> None:
        self.number = number
        self.data = data
        self.deadline = deadline
        self.producer = producer
        self.attempts = 0


class Lane:
    """The unresolved batches of one partition, oldest first."""

    __slots__ = ("broken", "in_flight", "next_sequence", "queue")

    def __init__(self) -> None:
        self.queue: deque[Op] = deque()
        self.in_flight = 0
        self.broken = False
        self.next_sequence = 0


class Producer:
    def __init__(
        self,
        client: Client,
        plan: ClientPlan,
        history: History,
        topics: tuple[str, ...],
        append_time_topics: tuple[str, ...] = (),
    ) -> None:
        self.client = client
        self.acked = 0
        self.failed = 0
        self._plan = plan
        self._history = history
        self._cache = MetadataCache(client, topics)
        self._append_time_topics = append_time_topics
        self._lanes: dict[PartitionKey, Lane] = {}
        self._values = 0
        self._ops = 0
        self._producer_id = -1
        self._asking_id = False

    @property
    def unanswered(self) -> int:
        return sum(len(lane.queue) for lane in self._lanes.values())

    def start(self) -> None:
        self._cache.start()
        self._tick()

    def _tick(self) -> None:
        if not self.client.active:
            return
        self.client.later(self._plan.every_ms, self._tick)
        if self._plan.idempotent and self._producer_id < 0:
            self._ask_producer_id()
            return
        key = self._cache.some_partition()
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
        self.client.ask_anyone(request, self._on_producer_id)

    def _on_producer_id(self, response: Message | None, _now: int) -> None:
        self._asking_id = False
        if response is not None and response.error_code is ErrorCode.none:
            self._producer_id = response.producer_id
            for lane in self._lanes.values():
                lane.next_sequence = 0

    def _renumber(self) -> None:
        """The numbering has a hole: everything that is not sent yet starts over under a new producer id."""
        self._producer_id = -1

    # --- sending -----------------------------------------------------------------------------------------------------

    def _produce(self, key: PartitionKey) -> None:
        lane = self._lanes.setdefault(key, Lane())
        if lane.broken or len(lane.queue) >= self._plan.in_flight:
            return
        op = self._new_op(key, lane)
        if self._plan.acks == 0:
            self._history.append(Acked(op.number, self.client.engine.now))
        else:
            lane.queue.append(op)
        self._send(key, lane, op)

    def _new_op(self, key: PartitionKey, lane: Lane) -> Op:
        plan, now = self._plan, self.client.engine.now
        count = self.client.rng.randint(1, plan.max_records)
        records = [batch.NewRecord(None, self._value()) for _ in range(count)]
        idempotent = plan.idempotent
        data = batch.build(
            records,
            timestamp_ms=EPOCH_MS + now // 1_000,
            producer_id=self._producer_id if idempotent else -1,
            producer_epoch=0 if idempotent else -1,
            base_sequence=lane.next_sequence if idempotent else -1,
        )
        lane.next_sequence += count
        self._ops += 1
        number = -plan.client_id * 1_000_000 + self._ops
        crc = UNKNOWN_CRC if self._stamped(key) else batch.read_header(data).crc
        self._history.append(Sent(number, now, key, acks=plan.acks, count=count, crc=crc, idempotent=idempotent))
        return Op(number, bytes(data), now + DELIVERY_MS * 1_000, self._producer_id)

    def _value(self) -> bytes:
        self._values += 1
        return b"p%d-%d" % (-self._plan.client_id, self._values) + b"." * self._plan.value_bytes

    def _stamped(self, key: PartitionKey) -> bool:
        leader = self._cache.leaders.get(key)
        return leader is not None and leader.topic in self._append_time_topics

    def _send(self, key: PartitionKey, lane: Lane, op: Op) -> None:
        leader = self._cache.leaders.get(key)
        node = leader.node if leader is not None and leader.node >= 0 else self.client.rng.choice(self.client.brokers)
        partition = produce.PartitionProduceData(index=key[1], records=op.data)
        request = produce.ProduceRequest(
            acks=self._plan.acks,
            timeout=ms(self.client.timeout_ms * 2 // 3),
            topic_data=(produce.TopicProduceData(topic_id=key[0], partition_data=(partition,)),),
        )
        op.attempts += 1
        if self._plan.acks == 0:
            self.client.ask(node, request, lambda _response, _now: None, one_way=True)
            return
        lane.in_flight += 1
        self.client.ask(node, request, lambda response, now: self._on_produced(key, lane, op, response, now))

    # --- answers -----------------------------------------------------------------------------------------------------

    def _on_produced(self, key: PartitionKey, lane: Lane, op: Op, response: Message | None, now: int) -> None:
        lane.in_flight -= 1
        answer = None if response is None else _only_partition(response)
        error = ErrorCode.network_exception if answer is None else answer.error_code
        if error in (ErrorCode.none, ErrorCode.duplicate_sequence_number):
            self._resolve(lane, op)
            self.acked += 1
            self._history.append(Acked(op.number, now, -1 if answer is None else answer.base_offset))
        elif self._hopeless(lane, op, error):
            self._give_up(lane, op, error)
        else:
            lane.broken = True
            self._cache.refresh()
        if lane.broken and lane.in_flight == 0:
            self.client.later(BACKOFF_MS, self._retry, key, lane)

    def _hopeless(self, lane: Lane, op: Op, error: ErrorCode) -> bool:
        """A batch behind an unresolved one may be out of order only because of that."""
        if error is ErrorCode.out_of_order_sequence_number and lane.queue and lane.queue[0] is not op:
            return False
        return error in FATAL

    def _retry(self, key: PartitionKey, lane: Lane) -> None:
        """Everything unresolved again, in order; what is too old is given up."""
        now = self.client.engine.now
        lane.broken = False
        for op in list(lane.queue):
            if now >= op.deadline or (op.producer != self._producer_id and self._plan.idempotent):
                self._give_up(lane, op, ErrorCode.request_timed_out)
        for op in list(lane.queue):
            self._send(key, lane, op)

    def _give_up(self, lane: Lane, op: Op, error: ErrorCode) -> None:
        self._resolve(lane, op)
        self.failed += 1
        self._history.append(Failed(op.number, self.client.engine.now, error.name))
        if self._plan.idempotent and op.producer == self._producer_id:
            self._renumber()

    def _resolve(self, lane: Lane, op: Op) -> None:
        lane.queue.remove(op)


def _only_partition(response: Message) -> Any:
    return response.responses[0].partition_responses[0]
