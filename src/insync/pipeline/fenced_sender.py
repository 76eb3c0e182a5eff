"""Sends batches to one partition exactly once, even if senders, brokers or the driver die in between.

A replay or mirror has one producer id, which is kept in its state. A batch's sequence number is the position of its
first record among all that the job writes to that partition. So the log itself says how far the job is: the last batch
with that producer id. It is looked up when a job continues, and after every failure before anything is sent again.
Batches in flight from a sender that was believed dead do no harm either: a broker accepts a batch only if its sequence
follows the last one, and at any position all senders have the same records.

A broker that does not know the producer accepts any sequence. So the first batch is acknowledged before a second one is
sent: otherwise the second could be stored where the first was refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from insync.client import apis, offsets, topics
from insync.client.client import Client
from insync.client.connection import Connection
from insync.client.consumer import Reader
from insync.client.errors import ClientError, ErrorCode, RefusedError, is_retriable, raise_for_error
from insync.client.model import NO_NODE, TopicPartition
from insync.columnar.headers import scan_headers
from insync.wire.types import ZERO_UUID, ms

SEQUENCES = 1 << 31
MAX_IN_FLIGHT = 4
"""Batches in flight; a broker remembers five per producer."""
FETCH_BYTES = 4 << 20
PAUSE_S = 0.1
_RETRIABLE = (ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id)
_STORED = (ErrorCode.none, ErrorCode.duplicate_sequence_number)


@dataclass(frozen=True, slots=True)
class Producer:
    id: int
    epoch: int


@dataclass(slots=True)
class Written:
    """The first `rows` records of the job are in the log, below offset `target`."""

    rows: int
    target: int


@dataclass(slots=True)
class _Batch:
    data: bytes
    position: int
    count: int
    response: asyncio.Task[int] | None = None


class Sender:
    def __init__(
        self,
        client: Client,
        key: TopicPartition,
        topic_id: str,
        producer: Producer,
        written: Written,
        on_stored: Callable[[int, int], None] = lambda position, offset: None,
    ) -> None:
        """`on_stored` is called with a batch's position and its offset in the log, if the broker says which."""
        self._client = client
        self._key = key
        self._topic_id = topic_id
        self._producer = producer
        self._pending: deque[_Batch] = deque()
        self._connection: Connection | None = None
        self._failing_since: float | None = None
        self._id = ZERO_UUID
        self._on_stored = on_stored
        self._is_known = False
        """Whether the leader knows the producer: it has stored a batch since the connection was made."""
        self.written = written

    async def start(self) -> None:
        """Find out how far the job is."""
        self.written = await self._client.retry(self._find_written)

    async def put(self, data: bytes, position: int, count: int) -> None:
        while len(self._pending) >= (MAX_IN_FLIGHT if self._is_known else 1):
            await self._complete_oldest()
        self._pending.append(_Batch(data, position, count))
        await self._send(self._pending[-1])

    async def drain(self) -> None:
        while self._pending:
            await self._complete_oldest()

    # --- one batch ---------------------------------------------------------------------------------------------------

    async def _send(self, batch: _Batch) -> None:
        if self._connection is None:
            self._is_known = False
            self._connection = await self._client.retry(self._connect)
        batch.response = asyncio.create_task(self._produce(batch, self._connection))
        await asyncio.sleep(0)  # let the request start before the next batch is built

    async def _produce(self, batch: _Batch, connection: Connection) -> int:
        topic, index = self._key
        data = {"name": topic, "topic_id": self._id, "partition_data": [{"index": index, "records": batch.data}]}
        timeout = ms(int(self._client.timeout_s * 1000))
        values = {"transactional_id": None, "acks": -1, "timeout": timeout, "topic_data": [data]}
        response = await connection.call(apis.PRODUCE, values)
        (stored,) = (p for topic in response.responses for p in topic.partition_responses)
        if stored.error_code not in _STORED:
            raise RefusedError(stored.error_code, f"writing to {topic}-{index}", getattr(stored, "error_message", None))
        base_offset: int = stored.base_offset
        return base_offset

    async def _complete_oldest(self) -> None:
        """Wait until the oldest batch is stored; after a failure, send again what is missing."""
        oldest = self._pending[0]
        if oldest.response is None:
            await self._send(oldest)
        try:
            offset = await oldest.response if oldest.response else -1
        except ClientError as error:
            if not is_retriable(error, _RETRIABLE):
                raise
            await self._recover(error)
            return
        self._pending.popleft()
        self._failing_since = None
        self._is_known = True
        if offset >= 0:
            self._on_stored(oldest.position, offset)
        self.written = Written(oldest.position + oldest.count, max(self.written.target, offset + oldest.count))

    async def _recover(self, error: ClientError) -> None:
        """Ask the current leader what is stored; the rest is sent again, one batch after the other."""
        await asyncio.gather(*(batch.response for batch in self._pending if batch.response), return_exceptions=True)
        await self._pause(error)
        self._connection = None
        self.written = await self._client.retry(self._find_written)
        while self._pending and self._pending[0].position + self._pending[0].count <= self.written.rows:
            self._pending.popleft()
            self._failing_since = None
        for batch in self._pending:
            batch.response = None

    async def _pause(self, error: ClientError) -> None:
        """Raises once failures have lasted longer than the timeout."""
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
            return
        if now - self._failing_since > self._client.timeout_s:
            raise error
        await asyncio.sleep(PAUSE_S)

    async def _connect(self) -> Connection:
        topic, partition = await topics.describe_partition(self._client, *self._key)
        if str(topic.id) != self._topic_id:
            raise ClientError(f"topic '{topic.name}' was recreated: its id is {topic.id} instead of {self._topic_id}")
        if partition.leader == NO_NODE:
            raise RefusedError(ErrorCode.leader_not_available, f"writing to {topic.name}-{partition.index}")
        self._id = topic.id
        return await self._client.broker_connection(partition.leader)

    # --- progress in the log ------------------------------------------------------------------------------------------

    async def _find_written(self) -> Written:
        topic = await topics.describe_one(self._client, self._key[0])
        earliest, latest = [
            (await offsets.list_offsets_with_retry(self._client, {self._key: which}, known=[topic]))[self._key]
            for which in (offsets.EARLIEST, offsets.LATEST)
        ]
        name = f"{self._key[0]}-{self._key[1]}"
        written = self.written
        if earliest.offset > written.target:
            raise ClientError(
                f"{name} now begins at offset {earliest.offset}: what was written from {written.target} on is deleted"
            )
        if latest.offset < written.target:
            raise ClientError(
                f"{name} ends at offset {latest.offset}, but reached {written.target} before: its log was truncated"
            )
        reader = Reader(
            self._client,
            topic,
            {self._key[1]: written.target},
            {self._key[1]: latest.offset},
            partition_bytes=FETCH_BYTES,
        )
        async for fetched in reader.fetch_batches():
            written, reader.positions[self._key[1]] = advance(written, bytes(fetched.data), self._producer)
        return written


def advance(written: Written, data: bytes, producer: Producer) -> tuple[Written, int]:
    """`written` after the job's own batches in a response, and the offset after the response's last batch."""
    headers, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    following = int(headers.last_offset[-1]) + 1
    ours = (headers.producer_id == producer.id) & (headers.producer_epoch == producer.epoch)
    ours &= headers.last_offset >= written.target
    if not ours.any():
        return written, following
    last = int(np.flatnonzero(ours)[-1])
    after = int(headers.base_sequence[last]) + int(headers.last_offset_delta[last]) + 1
    further = (after - written.rows) % SEQUENCES
    if further > SEQUENCES // 2:  # a batch that is counted already, but whose offset is unknown
        further = 0
    return Written(written.rows + further, int(headers.last_offset[last]) + 1), following


async def init_producer(client: Client) -> Producer:
    values = {"transactional_id": None, "transaction_timeout": ms(60_000), "producer_id": -1, "producer_epoch": -1}
    response = await client.call_any(apis.INIT_PRODUCER_ID, values)
    raise_for_error(response.error_code, "asking for a producer id")
    return Producer(response.producer_id, response.producer_epoch)
