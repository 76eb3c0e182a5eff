"""The client for callers without an event loop, which runs in a thread of its own.

    with SyncClient(bootstrap) as client:
        client.call(lambda cluster: topics.describe(cluster, ["orders"]))
        for fetched in client.fetch_batches(topic, {0: 17}, {0: 1_000}, next_offset_of=...):
            ...

`fetch_batches` reads ahead: the next answers are fetched while the caller works on one.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Awaitable, Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import TypeVar
from uuid import UUID

from insync import event_loop
from insync.client.client import Client
from insync.client.consumer import FetchedBatches, Reader
from insync.client.errors import ClientError, UnknownTopicError
from insync.client.model import Broker, Topic
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings

T = TypeVar("T")

MAX_BUFFERED = 3
"""The most answers that wait for the caller."""


class StalledError(ClientError):
    """Nothing arrived in time."""


class SyncClient:
    """A `Client` for callers without an event loop: use it with `with`, or call `close`.

    With `lazy`, nothing is opened before the first request; `learn_topic` says where to send it.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_s: float = 30.0,
        client_id: str = "insync",
        settings: ClientSettings = DEFAULT_SETTINGS,
        retry_connect: bool = False,
        lazy: bool = False,
    ) -> None:
        self.timeout_s = timeout_s
        self._client = Client.connect(
            bootstrap, timeout_s=timeout_s, client_id=client_id, settings=settings, retry_connect=retry_connect
        )
        self._loop = event_loop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="insync-client", daemon=True)
        self._thread.start()
        if lazy:
            return
        try:
            self._run(self._client.__aenter__())
        except ClientError:
            self.close()
            raise

    def __enter__(self) -> SyncClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run `work` on the event loop and return its result; retriable errors are retried until the timeout."""
        return self._run(self._client.retry(lambda: work(self._client)))

    def submit(self, work: Callable[[Client], Awaitable[T]]) -> concurrent.futures.Future[T]:
        """Run `work` in the background, without retries. Work starts in the order of submission."""

        async def awaited() -> T:
            return await work(self._client)

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop)

    def learn_topic(self, topic: Topic, brokers: Iterable[Broker]) -> Topic:
        """Take over the leaders and the brokers' addresses that another client knows. Returns the topic with newer
        leaders where this client knows some."""

        async def learn() -> Topic:
            self._client.add_brokers(brokers)
            return self._client.leaders.with_newest_leaders(topic)

        return self._run(learn())

    def note_leader_epochs(self, epochs: Iterable[tuple[UUID, int, int]]) -> None:
        """Note (topic id, partition, leader epoch), as `LeaderCache.note_epoch` does."""

        async def note() -> None:
            for topic_id, partition, epoch in epochs:
                self._client.leaders.note_epoch(topic_id, partition, epoch)

        self._run(note())

    def fetch_batches(
        self,
        topic: Topic,
        positions: Mapping[int, int],
        stops: Mapping[int, int],
        *,
        next_offset_of: Callable[[bytes | memoryview], int],
        isolation: int,
        partition_bytes: int,
        timeout_s: float | None = None,
    ) -> Generator[FetchedBatches, None, None]:
        """Yields what leaders answer until every partition has reached its stop.

        `next_offset_of(data)` is the offset after the last whole batch of an answer, -1 if it contains none. Raises
        `StalledError` if nothing arrives for `timeout_s`; None waits indefinitely.
        """
        reader = Reader(self._client, topic, positions, stops, isolation=isolation, partition_bytes=partition_bytes)
        answers: queue.SimpleQueue[FetchedBatches | None] = queue.SimpleQueue()
        free_slots = asyncio.Semaphore(MAX_BUFFERED)
        fetching = asyncio.run_coroutine_threadsafe(_fetch_all(reader, next_offset_of, answers, free_slots), self._loop)
        try:
            while (answer := answers.get(timeout=timeout_s)) is not None:
                yield answer
                self._loop.call_soon_threadsafe(free_slots.release)
            fetching.result()
        except queue.Empty:
            raise StalledError(f"no data of topic '{topic.name}' arrived for {timeout_s:g} s") from None
        finally:
            fetching.cancel()

    def _run(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()


async def _fetch_all(
    reader: Reader,
    next_offset_of: Callable[[bytes | memoryview], int],
    answers: queue.SimpleQueue[FetchedBatches | None],
    free_slots: asyncio.Semaphore,
) -> None:
    """Puts None last, also after an error."""
    topic = reader.topic
    try:
        async for fetched in reader.fetch_batches():
            if reader.topic.id != topic.id:  # deleted and created again: its offsets mean something else
                raise UnknownTopicError(topic.name)
            reader.positions[fetched.partition] = max(reader.positions[fetched.partition], next_offset_of(fetched.data))
            await free_slots.acquire()
            answers.put(fetched)
    finally:
        answers.put(None)
