"""Sends batches: one at a time and in order for each partition, many partitions at once.

`put` blocks while too many bytes are in flight. Transient errors, such as a change of leader, are retried until the
delivery timeout; brokers store a batch that is sent twice once. The first permanent error stops everything.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import numpy as np

from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, RefusedError, is_retriable
from insync.client.model import Topic, TopicPartition
from insync.client.producer import Producer
from insync.client.sync_client import SyncClient
from insync.columnar.columns import to_columns
from insync.columnar.decode import DecodeOptions, decode
from insync.columnar.encode import BatchBuilder
from insync.wire import batch, compression


class Sender:
    def __init__(self, client: SyncClient, *, codec: int, delivery_s: float, buffer_bytes: int) -> None:
        self._client = client
        self._codec = codec
        self._delivery_s = delivery_s
        self._buffer_bytes = buffer_bytes
        self._bytes_in_flight = 0
        self._changed = threading.Condition()
        self._failure: BaseException | None = None
        self._producers: dict[str, Producer] = {}
        self._locks: dict[TopicPartition, asyncio.Lock] = {}
        self._in_flight: dict[Future[None], None] = {}
        self.batches = self.bytes = 0

    def __enter__(self) -> Sender:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Wait for what is in flight, or cancel it: afterwards, nothing more is written, and a retry can read back what
        is there."""
        with self._changed:
            self._failure = self._failure or ClientError("the sender was closed")
            self._changed.wait_for(lambda: not self._bytes_in_flight, self._client.timeout_s)
        for future in tuple(self._in_flight):
            future.cancel()

    def put(self, topic: Topic, partition: int, data: bytes) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._failure or self._bytes_in_flight < self._buffer_bytes)
            self._raise_failure()
            self._bytes_in_flight += len(data)
        self.batches += 1
        self.bytes += len(data)
        future = self._client.submit(lambda cluster: self._send(cluster, topic, partition, data))
        self._in_flight[future] = None
        future.add_done_callback(lambda done: self._on_done(done, len(data)))

    def drain(self) -> None:
        """Return once all in-sync replicas have everything."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self._bytes_in_flight)
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _on_done(self, future: Future[None], size: int) -> None:
        with self._changed:
            self._bytes_in_flight -= size
            self._in_flight.pop(future, None)
            if not future.cancelled():
                self._failure = self._failure or future.exception()
            self._changed.notify_all()

    # --- in the client's event loop ----------------------------------------------------------------------------------

    async def _send(self, cluster: Client, topic: Topic, partition: int, data: bytes) -> None:
        async with self._locks.setdefault((topic.name, partition), asyncio.Lock()):
            if self._failure is None:  # nothing may be stored behind a batch that was not
                await self._deliver(self._producer(cluster, topic), partition, data)

    def _producer(self, cluster: Client, topic: Topic) -> Producer:
        if topic.name not in self._producers:
            self._producers[topic.name] = Producer(cluster, topic, compression=compression.NAMES[self._codec])
        return self._producers[topic.name]

    async def _deliver(self, producer: Producer, partition: int, data: bytes) -> None:
        deadline = asyncio.get_running_loop().time() + self._delivery_s
        while True:
            try:
                await producer.store(partition, data)
                return
            except ClientError as error:
                if _has_code(error, ErrorCode.message_too_large) and batch.read_header(data).count > 1:
                    for half in self._split(data):
                        await self._deliver(producer, partition, half)
                    return
                if not is_retriable(error) or asyncio.get_running_loop().time() > deadline:
                    raise _explain(error, producer.topic.name, partition) from None

    def _split(self, data: bytes) -> list[bytes]:
        """Two batches of half the rows: the topic's max.message.bytes is below the batch size."""
        header = batch.read_header(data)
        rows = decode(data, DecodeOptions(("key", "value", "headers", "timestamp"))).batch
        parts = to_columns(*(rows.column(name) for name in ("value", "key", "headers", "timestamp")))
        builder = BatchBuilder(self._codec, len(rows) and rows.nbytes * 2 + 64 * len(rows))
        halves = []
        for indexes in np.array_split(np.arange(len(rows)), 2):
            sequence = header.base_sequence + int(indexes[0])
            builder.add(parts, indexes, 0, 0)
            halves.append(builder.finish(header.producer_id, header.producer_epoch, sequence))
        return halves


def _has_code(error: ClientError, code: ErrorCode) -> bool:
    return isinstance(error, RefusedError) and error.code is code


def _explain(error: ClientError, topic: str, partition: int) -> ClientError:
    where = f"{topic}-{partition}"
    if _has_code(error, ErrorCode.out_of_order_sequence_number):
        return ClientError(f"another attempt of this task is writing to {where}; retry the task")
    if _has_code(error, ErrorCode.invalid_producer_epoch):
        return ClientError(f"a later micro-batch of the same query is writing to {where}; aborting this one")
    if _has_code(error, ErrorCode.message_too_large):
        return ClientError(f"a record for {where} is larger than the topic's max.message.bytes")
    return error
