"""The client for callers without an event loop: the loop runs in a thread of its own.

    with Blocking(bootstrap) as client:
        client.call(lambda cluster: topics.describe(cluster, ["orders"]))
        for fetched in client.fetch_batches(topic, {0: 17}, {0: 1_000}, next_offset_of=...):
            ...

`raw` reads ahead: while the caller works on one answer, the next is under way.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import TypeVar
from uuid import UUID

from insync import event_loop
from insync.client.client import Client
from insync.client.consumer import FetchedBatches, Reader
from insync.client.errors import ClientError, UnknownTopicError
from insync.client.model import Topic
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings

T = TypeVar("T")

MAX_BUFFERED = 3
"""Answers that wait for the caller at most."""


class StalledError(ClientError):
    """No answer had anything."""


class SyncClient:
    """Use with `with`, or call `close`. Errors are the `ClientError`s of the calls."""

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout_s: float = 30.0,
        client_id: str = "insync",
        settings: ClientSettings = DEFAULT_SETTINGS,
        retry_connect: bool = False,
    ) -> None:
        self.timeout = timeout_s
        self._client = Client.connect(
            bootstrap, timeout_s=timeout_s, client_id=client_id, settings=settings, retry_connect=retry_connect
        )
        self._loop = event_loop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="insync-client", daemon=True)
        self._thread.start()
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
        """What passes by itself is tried again until the timeout."""
        return self._run(self._client.retry(lambda: work(self._client)))

    def submit(self, work: Callable[[Client], Awaitable[T]]) -> concurrent.futures.Future[T]:
        """In the background, and tried once; what is begun first runs first."""

        async def awaited() -> T:
            return await work(self._client)

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop)

    def note_leader_epochs(self, heard: Iterable[tuple[UUID, int, int]]) -> None:
        """(topic id, partition, leader epoch), as `Leaders.heard`."""

        async def tell() -> None:
            for each in heard:
                self._client.leaders.note_epoch(*each)

        self._run(tell())

    def fetch_batches(
        self,
        topic: Topic,
        positions: Mapping[int, int],
        stops: Mapping[int, int],
        *,
        next_offset_of: Callable[[bytes], int],
        isolation: int,
        partition_bytes: int,
        timeout_s: float | None = None,
    ) -> Iterator[FetchedBatches]:
        """Yields what leaders answer until every partition has reached its stop.

        `next_offset_of(data)` is the offset after the last whole batch of an answer, -1 if it contains none. Raises
        `StalledError` if nothing arrives for `timeout_s`; None waits indefinitely.
        """
        reader = Reader(self._client, topic, positions, stops, isolation=isolation, partition_bytes=partition_bytes)
        answers: queue.SimpleQueue[FetchedBatches | None] = queue.SimpleQueue()
        room = asyncio.Semaphore(MAX_BUFFERED)
        fetching = asyncio.run_coroutine_threadsafe(_fetch_all(reader, next_offset_of, answers, room), self._loop)
        try:
            while (answer := answers.get(timeout=timeout_s)) is not None:
                yield answer
                self._loop.call_soon_threadsafe(room.release)
            fetching.result()
        except queue.Empty:
            raise StalledError(f"nothing of topic '{topic.name}' came for {timeout_s:g} s") from None
        finally:
            fetching.cancel()

    def _run(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()


async def _fetch_all(
    reader: Reader,
    next_offset_of: Callable[[bytes], int],
    answers: queue.SimpleQueue[FetchedBatches | None],
    room: asyncio.Semaphore,
) -> None:
    """None is the last answer, whatever ended it."""
    topic = reader.topic
    try:
        async for fetched in reader.fetch_batches():
            if reader.topic.id != topic.id:  # offsets of another topic of the same name are not those that were meant
                raise UnknownTopicError(topic.name)
            reader.positions[fetched.partition] = max(reader.positions[fetched.partition], next_offset_of(fetched.data))
            await room.acquire()
            answers.put(fetched)
    finally:
        answers.put(None)
