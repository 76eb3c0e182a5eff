"""The client for callers without an event loop: the loop runs in a thread of its own.

    with Blocking(bootstrap) as client:
        client.call(lambda cluster: topics.describe(cluster, ["orders"]))
        for fetched in client.raw(topic, {0: 17}, {0: 1_000}, next_of=...):
            ...

`raw` reads ahead: while the caller works on one answer, the next is under way.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, TypeVar

from insync.client.cluster import Cluster
from insync.client.consumer import Fetched, Reader
from insync.client.errors import ClientError
from insync.client.model import Topic

T = TypeVar("T")

AHEAD = 3
"""Answers that wait for the caller at most."""
POLL_S = 0.002
_END = object()


class Blocking:
    """Use with `with`, or call `close`. Errors are the `ClientError`s of the calls."""

    def __init__(self, bootstrap: str, *, timeout: float = 30.0, client_id: str = "insync") -> None:
        self._cluster = Cluster.connect(bootstrap, timeout=timeout, client_id=client_id)
        self._loop = asyncio.new_event_loop()
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

    def raw(
        self,
        topic: Topic,
        positions: Mapping[int, int],
        stops: Mapping[int, int],
        *,
        next_of: Callable[[bytes], int],
        isolation: int,
        partition_bytes: int,
    ) -> Iterator[Fetched]:
        """`next_of` tells the offset after the last whole batch of an answer, -1 if it has none."""
        reader = Reader(self._cluster, topic, positions, stops, isolation=isolation, partition_bytes=partition_bytes)
        answers: queue.Queue[Any] = queue.Queue(AHEAD)
        ended = threading.Event()
        fetching = asyncio.run_coroutine_threadsafe(_fetch_all(reader, next_of, answers, ended), self._loop)
        try:
            while (answer := answers.get()) is not _END:
                yield answer
            fetching.result()
        finally:
            ended.set()

    def _run(self, work: Awaitable[T]) -> T:
        async def awaited() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result()


async def _fetch_all(
    reader: Reader, next_of: Callable[[bytes], int], answers: queue.Queue[Any], ended: threading.Event
) -> None:
    try:
        async for fetched in reader.raw():
            reader.positions[fetched.partition] = max(reader.positions[fetched.partition], next_of(fetched.data))
            if not await _put(answers, fetched, ended):
                return
    finally:
        await _put(answers, _END, ended)


async def _put(answers: queue.Queue[Any], item: Any, ended: threading.Event) -> bool:
    """Waits for room without holding the loop; False once nobody listens any longer."""
    while not ended.is_set():
        try:
            answers.put_nowait(item)
        except queue.Full:
            await asyncio.sleep(POLL_S)
        else:
            return True
    return False
