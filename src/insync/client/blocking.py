"""The client for callers without an event loop: the loop runs in a thread of its own.

    with Blocking(bootstrap) as client:
        client.call(lambda cluster: topics.describe(cluster, ["orders"]))
        for fetched in client.raw(topic, {0: 17}, {0: 1_000}, next_of=...):
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

import uvloop

from insync.client.cluster import Cluster
from insync.client.consumer import Fetched, Reader
from insync.client.errors import ClientError, UnknownTopic
from insync.client.model import Topic
from insync.client.settings import DEFAULTS, ClientSettings

T = TypeVar("T")

AHEAD = 3
"""Answers that wait for the caller at most."""


class Stalled(ClientError):  # noqa: N818  says what happened
    """No answer had anything."""


class Blocking:
    """Use with `with`, or call `close`. Errors are the `ClientError`s of the calls."""

    def __init__(
        self,
        bootstrap: str,
        *,
        timeout: float = 30.0,
        client_id: str = "insync",
        settings: ClientSettings = DEFAULTS,
        patient: bool = False,
    ) -> None:
        self.timeout = timeout
        self._cluster = Cluster.connect(
            bootstrap, timeout=timeout, client_id=client_id, settings=settings, patient=patient
        )
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="insync-client", daemon=True)
        self._thread.start()
        try:
            self._run(self._cluster.__aenter__())
        except ClientError:
            self.close()
            raise

    def __enter__(self) -> Blocking:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._loop.is_closed():
            return
        self._run(self._cluster.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def call(self, work: Callable[[Cluster], Awaitable[T]]) -> T:
        """What passes by itself is tried again until the timeout."""
        return self._run(self._cluster.retrying(lambda: work(self._cluster)))

    def begin(self, work: Callable[[Cluster], Awaitable[T]]) -> concurrent.futures.Future[T]:
        """In the background, and tried once; what is begun first runs first."""

        async def awaited() -> T:
            return await work(self._cluster)

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop)

    def remember(self, heard: Iterable[tuple[UUID, int, int]]) -> None:
        """(topic id, partition, leader epoch), as `Leaders.heard`."""

        async def tell() -> None:
            for each in heard:
                self._cluster.leaders.heard(*each)

        self._run(tell())

    def raw(
        self,
        topic: Topic,
        positions: Mapping[int, int],
        stops: Mapping[int, int],
        *,
        next_of: Callable[[bytes], int],
        isolation: int,
        partition_bytes: int,
        patience_s: float | None = None,
    ) -> Iterator[Fetched]:
        """`next_of` tells the offset after the last whole batch of an answer, -1 if it has none. `Stalled` if there is
        nothing for so long; who began at the end of a log may wait for ever."""
        reader = Reader(self._cluster, topic, positions, stops, isolation=isolation, partition_bytes=partition_bytes)
        answers: queue.SimpleQueue[Fetched | None] = queue.SimpleQueue()
        room = asyncio.Semaphore(AHEAD)
        fetching = asyncio.run_coroutine_threadsafe(_fetch_all(reader, next_of, answers, room), self._loop)
        try:
            while (answer := answers.get(timeout=patience_s)) is not None:
                yield answer
                self._loop.call_soon_threadsafe(room.release)
            fetching.result()
        except queue.Empty:
            raise Stalled(f"nothing of topic '{topic.name}' came for {patience_s:g} s") from None
        finally:
            fetching.cancel()

    def _run(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()


async def _fetch_all(
    reader: Reader, next_of: Callable[[bytes], int], answers: queue.SimpleQueue[Fetched | None], room: asyncio.Semaphore
) -> None:
    """None is the last answer, whatever ended it."""
    topic = reader.topic
    try:
        async for fetched in reader.raw():
            if reader.topic.id != topic.id:  # offsets of another topic of the same name are not those that were meant
                raise UnknownTopic(topic.name)
            reader.positions[fetched.partition] = max(reader.positions[fetched.partition], next_of(fetched.data))
            await room.acquire()
            answers.put(fetched)
    finally:
        answers.put(None)
