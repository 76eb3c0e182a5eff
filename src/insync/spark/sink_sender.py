"""Batches on their way: of each partition one at a time and in order, of many partitions at once.

`put` waits while too many bytes are under way. What passes by itself, such as a leader that changes, is tried again
until the delivery timeout; a batch that is sent twice is stored once. The first failure that does not pass ends it all.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import numpy as np

from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, RefusedError, is_retriable
from insync.client.model import Topic
from insync.client.producer import Producer
from insync.client.sync_client import SyncClient
from insync.columnar.columns import columns
from insync.columnar.decode import Wanted, decode
from insync.columnar.encode import Builder
from insync.wire import batch, compression

Key = tuple[str, int]


class Sender:
    def __init__(self, client: SyncClient, *, codec: int, delivery_s: float, memory: int) -> None:
        self._client = client
        self._codec = codec
        self._delivery_s = delivery_s
        self._memory = memory
        self._under_way = 0
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._producers: dict[str, Producer] = {}
        self._turns: dict[Key, asyncio.Lock] = {}
        self._sendings: dict[Future[None], None] = {}
        self.batches = self.bytes = 0

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """After a failure: what is under way comes to its end, or is given up; whoever tries again finds it settled."""
        with self._changed:
            self._failure = self._failure or ClientError("given up")
            self._changed.wait_for(lambda: not self._under_way, self._client.timeout)
        for sending in tuple(self._sendings):
            sending.cancel()

    def put(self, topic: Topic, partition: int, data: bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._under_way < self._memory)
            self._raise_failure()
            self._under_way += len(data)
        self.batches += 1
        self.bytes += len(data)
        sending = self._client.submit(lambda cluster: self._send(cluster, topic, partition, data))
        self._sendings[sending] = None
        sending.add_done_callback(lambda done: self._done(done, len(data)))

    def drain(self) -> None:
        """Returns when everything is stored by all in-sync replicas."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self._under_way)
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _done(self, sending: Future[None], size: int) -> None:
        with self._changed:
            self._under_way -= size
            self._sendings.pop(sending, None)
            if not sending.cancelled():
                self._failure = self._failure or sending.exception()
            self._changed.notify_all()

    # --- in the client's loop ----------------------------------------------------------------------------------------

    async def _send(self, cluster: Client, topic: Topic, partition: int, data: bytes) -> None:
        turn = self._turns.setdefault((topic.name, partition), asyncio.Lock())
        async with turn:
            if self._failure is None:  # nothing may be stored behind what was not
                await self._in_time(self._producer(cluster, topic), partition, data)

    def _producer(self, cluster: Client, topic: Topic) -> Producer:
        found = self._producers.get(topic.name)
        if found is None:
            found = Producer(cluster, topic, compression=compression.NAMES[self._codec])
            self._producers[topic.name] = found
        return found

    async def _in_time(self, producer: Producer, partition: int, data: bytes) -> None:
        deadline = asyncio.get_running_loop().time() + self._delivery_s
        while True:
            try:
                await producer.store(partition, data)
                return
            except ClientError as error:
                if _is(error, ErrorCode.message_too_large) and batch.read_header(data).count > 1:
                    for half in self._halves(data):
                        await self._in_time(producer, partition, half)
                    return
                if not is_retriable(error) or asyncio.get_running_loop().time() > deadline:
                    raise _explained(error, producer.topic.name, partition) from None

    def _halves(self, data: bytes) -> list[bytes]:
        """The topic takes smaller batches than we made."""
        header = batch.read_header(data)
        rows = decode(data, Wanted(("key", "value", "headers", "timestamp"))).batch
        parts = columns(*(rows.column(name) for name in ("value", "key", "headers", "timestamp")))
        builder = Builder(self._codec, len(rows) and rows.nbytes * 2 + 64 * len(rows))
        found = []
        for indexes in np.array_split(np.arange(len(rows)), 2):
            sequence = header.base_sequence + int(indexes[0])
            builder.add(parts, indexes, 0, 0)
            found.append(builder.finish(header.producer_id, header.producer_epoch, sequence))
        return found


def _is(error: ClientError, code: ErrorCode) -> bool:
    return isinstance(error, RefusedError) and error.code is code


def _explained(error: ClientError, topic: str, partition: int) -> ClientError:
    where = f"{topic}-{partition}"
    if _is(error, ErrorCode.out_of_order_sequence_number):
        return ClientError(
            f"another attempt of this task writes to {where} too; one that starts now finds what is there"
        )
    if _is(error, ErrorCode.invalid_producer_epoch):
        return ClientError(f"a later micro-batch of the same query writes to {where}: this one is over")
    if _is(error, ErrorCode.message_too_large):
        return ClientError(f"a record for {where} is larger than the topic's max.message.bytes")
    return error
