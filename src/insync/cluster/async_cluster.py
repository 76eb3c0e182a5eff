"""The cluster for programs with an event loop: the methods of `Cluster` as coroutines.

    async with AsyncCluster(brokers=3, topics=["orders"]) as cluster:
        leader = await cluster.kill_leader_of("orders")
        await cluster.wait_for_leader("orders", other_than=leader)

Each call runs in a thread, so the event loop, and the client under test in it, go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from insync.cluster.cluster import Cluster
from insync.server.local_cluster import LocalNode

P = ParamSpec("P")
T = TypeVar("T")


def _coroutine(
    method: Callable[Concatenate[Cluster, P], T],
) -> Callable[Concatenate[AsyncCluster, P], Coroutine[Any, Any, T]]:
    async def call(self: AsyncCluster, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.cluster, *args, **kwargs)

    call.__doc__, call.__name__ = method.__doc__, method.__name__
    return call


def _context(
    method: Callable[Concatenate[Cluster, P], AbstractContextManager[None]],
) -> Callable[Concatenate[AsyncCluster, P], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def context(self: AsyncCluster, /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[None]:
        fault = method(self.cluster, *args, **kwargs)
        await asyncio.to_thread(fault.__enter__)
        try:
            yield
        finally:
            await asyncio.to_thread(fault.__exit__, None, None, None)

    context.__doc__, context.__name__ = method.__doc__, method.__name__
    return context


class AsyncCluster:
    """Takes the options of `Cluster`. `cluster` is the one that it works with."""

    def __init__(self, **options: Any) -> None:
        self.cluster = Cluster(**options)

    @classmethod
    def of(cls, cluster: Cluster) -> AsyncCluster:
        """For a cluster that exists, such as a fixture's."""
        known = cls.__new__(cls)
        known.cluster = cluster
        return known

    async def __aenter__(self) -> AsyncCluster:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def bootstrap(self) -> str:
        """The value for a client's `bootstrap.servers`: the addresses of all brokers, running or not."""
        return self.cluster.bootstrap

    @property
    def nodes(self) -> Mapping[int, LocalNode]:
        """The nodes by id; a node has `port`, `roles`, `pid` and `is_running`."""
        return self.cluster.nodes

    def log_of(self, node: int) -> Path:
        """The log file of a node, with the lines of all its restarts."""
        return self.cluster.log_of(node)

    def client_config(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The settings with which a user connects to a secured cluster; see `Cluster.client_config`."""
        return self.cluster.client_config(*args, **kwargs)

    open = _coroutine(Cluster.open)
    close = _coroutine(Cluster.close)
    mend = _coroutine(Cluster.mend)
    reset = _coroutine(Cluster.reset)

    async def create_topic(self, name: str, partitions: int = 1, replication_factor: int = 0, **configs: Any) -> None:
        """Create a topic; returns when the brokers know its leaders."""
        await asyncio.to_thread(self.cluster.create_topic, name, partitions, replication_factor, **configs)

    async def fresh_topic(
        self, prefix: str = "topic", partitions: int = 1, replication_factor: int = 0, **configs: Any
    ) -> str:
        """Create a topic under a name that no other has, and return the name."""
        return await asyncio.to_thread(self.cluster.fresh_topic, prefix, partitions, replication_factor, **configs)

    delete_topic = _coroutine(Cluster.delete_topic)
    leader_of = _coroutine(Cluster.leader_of)
    isr_of = _coroutine(Cluster.isr_of)
    wait_for_leader = _coroutine(Cluster.wait_for_leader)
    wait_for_isr = _coroutine(Cluster.wait_for_isr)
    produce = _coroutine(Cluster.produce)
    consume = _coroutine(Cluster.consume)

    kill = _coroutine(Cluster.kill)
    kill_leader_of = _coroutine(Cluster.kill_leader_of)
    killed = _context(Cluster.killed)
    stop = _coroutine(Cluster.stop)
    stop_all = _coroutine(Cluster.stop_all)
    start = _coroutine(Cluster.start)
    restart = _coroutine(Cluster.restart)
    pause = _coroutine(Cluster.pause)
    resume = _coroutine(Cluster.resume)
    paused = _context(Cluster.paused)
    jump_clock = _coroutine(Cluster.jump_clock)
    wait_until_ended = _coroutine(Cluster.wait_until_ended)
    wait_until_ready = _coroutine(Cluster.wait_until_ready)

    partition = _coroutine(Cluster.partition)
    cut = _context(Cluster.cut)
    slow_network = _coroutine(Cluster.slow_network)
    slowed = _context(Cluster.slowed)
    heal = _coroutine(Cluster.heal)

    lose_unflushed = _coroutine(Cluster.lose_unflushed)
    fill_disk = _coroutine(Cluster.fill_disk)
    free_disk = _coroutine(Cluster.free_disk)
    slow_disk = _coroutine(Cluster.slow_disk)
    break_sectors = _coroutine(Cluster.break_sectors)
