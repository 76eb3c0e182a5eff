"""Batches to one partition, exactly once, whoever dies in between.

A replay has one producer id, kept in its journal, and a batch's sequence number is the position of its first record in
the replay of that partition. So the log itself says how far the replay is: the last batch with that producer id. That
is read when a replay goes on, and after every failure, before anything is sent again. What is still under way from a
sender that was believed dead cannot double anything either: a broker takes a batch only if its sequence follows the
last one, and at any position all senders have the same records.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

import numpy as np

from insync.client import apis, offsets, topics
from insync.client.client import Client
from insync.client.connection import Connection
from insync.client.consumer import Reader
from insync.client.errors import ClientError, ErrorCode, RefusedError, is_retriable
from insync.client.model import NO_NODE, TopicPartition
from insync.columnar.headers import scan_headers
from insync.wire.types import ZERO_UUID, ms

SEQUENCES = 1 << 31
WINDOW = 4
"""Batches under way at a time; a broker remembers five."""
FETCH_BYTES = 4 << 20
PAUSE_S = 0.1
_AGAIN = (ErrorCode.out_of_order_sequence_number, ErrorCode.unknown_producer_id)
_STORED = (ErrorCode.none, ErrorCode.duplicate_sequence_number)


@dataclass(frozen=True, slots=True)
class Producer:
    id: int
    epoch: int


@dataclass(slots=True)
class Landed:
    """The first `rows` records of the replay are in the log, before offset `target`."""

    rows: int
    target: int


@dataclass(slots=True)
class _Batch:
    data: bytes
    position: int
    count: int
    answer: asyncio.Task[int] | None = None


class Sender:
    def __init__(self, cluster: Client, key: TopicPartition, topic_id: str, producer: Producer, landed: Landed) -> None:
        self._cluster = cluster
        self._key = key
        self._topic_id = topic_id
        self._producer = producer
        self._pending: deque[_Batch] = deque()
        self._connection: Connection | None = None
        self._failing_since: float | None = None
        self._id = ZERO_UUID
        self.landed = landed

    async def start(self) -> None:
        """Look how far the log is."""
        self.landed = await self._cluster.retry(self._look)

    async def put(self, data: bytes, position: int, count: int) -> None:
        while len(self._pending) >= WINDOW:
            await self._settle()
        self._pending.append(_Batch(data, position, count))
        await self._send(self._pending[-1])

    async def drain(self) -> None:
        while self._pending:
            await self._settle()

    # --- one batch ---------------------------------------------------------------------------------------------------

    async def _send(self, batch: _Batch) -> None:
        if self._connection is None:
            self._connection = await self._cluster.retry(self._connect)
        batch.answer = asyncio.create_task(self._stored(batch, self._connection))
        await asyncio.sleep(0)  # so that it is on its way before the next one is made

    async def _stored(self, batch: _Batch, connection: Connection) -> int:
        topic, index = self._key
        data = {"name": topic, "topic_id": self._id, "partition_data": [{"index": index, "records": batch.data}]}
        timeout = ms(int(self._cluster.timeout_s * 1000))
        values = {"transactional_id": None, "acks": -1, "timeout": timeout, "topic_data": [data]}
        answer = await connection.call(apis.PRODUCE, values)
        (stored,) = (p for topic in answer.responses for p in topic.partition_responses)
        if stored.error_code not in _STORED:
            raise RefusedError(stored.error_code, f"writing to {topic}-{index}", getattr(stored, "error_message", None))
        found: int = stored.base_offset
        return found

    async def _settle(self) -> None:
        """The oldest batch is stored, or all are sent again that are not."""
        oldest = self._pending[0]
        try:
            offset = -1 if oldest.answer is None else await oldest.answer
        except ClientError as error:
            if not is_retriable(error, _AGAIN):
                raise
            await self._recover(error)
            return
        self._pending.popleft()
        self._failing_since = None
        self.landed = Landed(oldest.position + oldest.count, max(self.landed.target, offset + oldest.count))

    async def _recover(self, error: ClientError) -> None:
        """Whoever leads now says what is there; the rest is sent again."""
        await asyncio.gather(*(each.answer for each in self._pending if each.answer), return_exceptions=True)
        await self._be_patient(error)
        self._connection = None
        self.landed = await self._cluster.retry(self._look)
        while self._pending and self._pending[0].position + self._pending[0].count <= self.landed.rows:
            self._pending.popleft()
            self._failing_since = None
        for each in self._pending:
            await self._send(each)

    async def _be_patient(self, error: ClientError) -> None:
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
            return
        if now - self._failing_since > self._cluster.timeout_s:
            raise error
        await asyncio.sleep(PAUSE_S)

    async def _connect(self) -> Connection:
        topic, partition = await topics.describe_partition(self._cluster, *self._key)
        if str(topic.id) != self._topic_id:
            raise ClientError(f"topic '{topic.name}' was made anew: its id is {topic.id} instead of {self._topic_id}")
        if partition.leader == NO_NODE:
            raise RefusedError(ErrorCode.leader_not_available, f"writing to {topic.name}-{partition.index}")
        self._id = topic.id
        return await self._cluster.broker_connection(partition.leader)

    # --- how far the log is ------------------------------------------------------------------------------------------

    async def _look(self) -> Landed:
        topic = await topics.describe_one(self._cluster, self._key[0])
        earliest, latest = [
            (await offsets.list_offsets_with_retry(self._cluster, {self._key: which}, known=[topic]))[self._key]
            for which in (offsets.EARLIEST, offsets.LATEST)
        ]
        name = f"{self._key[0]}-{self._key[1]}"
        landed = self.landed
        if earliest.offset > landed.target:
            raise ClientError(
                f"{name} begins at {earliest.offset} now: nobody can tell what landed from {landed.target}"
            )
        if latest.offset < landed.target:
            raise ClientError(f"{name} ends at {latest.offset}, and had {landed.target} before: its log was cut back")
        reader = Reader(
            self._cluster,
            topic,
            {self._key[1]: landed.target},
            {self._key[1]: latest.offset},
            partition_bytes=FETCH_BYTES,
        )
        async for fetched in reader.fetch_batches():
            landed, reader.positions[self._key[1]] = found_in(fetched.data, self._producer, landed)
        return landed


def found_in(data: bytes, producer: Producer, landed: Landed) -> tuple[Landed, int]:
    """What an answer shows of the replay's own batches, and the offset after its last batch."""
    headers, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    following = int(headers.last_offset[-1]) + 1
    ours = (headers.producer_id == producer.id) & (headers.producer_epoch == producer.epoch)
    ours &= headers.last_offset >= landed.target
    if not ours.any():
        return landed, following
    last = int(np.flatnonzero(ours)[-1])
    after = int(headers.base_sequence[last]) + int(headers.last_offset_delta[last]) + 1
    further = (after - landed.rows) % SEQUENCES
    if further > SEQUENCES // 2:  # one that is counted, and whose offset was not told
        further = 0
    return Landed(landed.rows + further, int(headers.last_offset[last]) + 1), following
