"""CPU time of a broker's hot path: microseconds per 16 KB produce on the leader, and per follower fetch of one.

Run: python bench/replication.py. Each figure is the best of five runs. Everything is in memory (the simulator's disk);
no socket and no codec is involved.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from uuid import UUID

from insync.metadata.partition import Partition
from insync.replication.config import ReplicationConfig
from insync.replication.manager import ReplicaManager
from insync.replication.throttle import ThrottleRates, TopicThrottle
from insync.sansio import Outbox, Reply
from insync.sim.engine.disk import SimDisk
from insync.storage.config import LogConfig
from insync.storage.log_store import LogStore
from insync.wire import batch
from insync.wire.messages import fetch, produce
from insync.wire.types import ms

TOPIC_ID = UUID(int=0x70)
ROUNDS = 4_000
RUNS = 5


class Cluster:
    """Three brokers, all of them registered and unfenced."""

    broker_epoch = 1
    controller_id = -1
    throttle_rates = ThrottleRates()

    def is_fenced(self, broker: int) -> bool:
        return False

    def is_shutting_down(self, broker: int) -> bool:
        return False

    def broker_epoch_of(self, broker: int) -> int | None:
        return 1

    def min_insync_replicas(self, topic: str) -> int:
        return 1

    def log_config(self, topic: str) -> LogConfig:
        return LogConfig(segment_bytes=4 << 20)

    def throttle(self, topic: str) -> TopicThrottle:
        return TopicThrottle()

    def topic_name(self, topic_id: UUID) -> str | None:
        return "t"

    def has_partition(self, topic: str, index: int) -> bool:
        return True


def leader(followers: int, partitions: int = 1) -> ReplicaManager:
    disk = SimDisk()
    store = LogStore(disk, "data")
    store.start()
    manager = ReplicaManager(
        broker_id=0, log_store=store, config=ReplicationConfig(), out=Outbox(), cluster=Cluster(), now=0
    )
    members = tuple(range(followers + 1))
    manager.apply(
        [
            Partition(
                topic_id=TOPIC_ID,
                topic="t",
                index=index,
                replicas=members,
                isr=members,
                leader=0,
                leader_epoch=0,
                partition_epoch=0,
            )
            for index in range(partitions)
        ],
        [],
        0,
    )
    return manager


def produce_request(acks: int) -> produce.ProduceRequest:
    records = [batch.NewRecord(None, b"x" * 1_000) for _ in range(16)]
    data = produce.PartitionProduceData(index=0, records=bytes(batch.build(records, timestamp_ms=0)))
    topic = produce.TopicProduceData(topic_id=TOPIC_ID, partition_data=(data,))
    return produce.ProduceRequest(acks=acks, timeout=ms(1_000), topic_data=(topic,))


def fetch_request(offset: int, epoch: int, session: int, partitions: int = 1, replica: int = 1) -> fetch.FetchRequest:
    requested = tuple(
        fetch.FetchPartition(
            partition=index,
            current_leader_epoch=0,
            fetch_offset=offset,
            last_fetched_epoch=0 if offset else -1,
            partition_max_bytes=1 << 20,
        )
        for index in range(partitions)
    )
    topics = (fetch.FetchTopic(topic_id=TOPIC_ID, partitions=requested),) if partitions else ()
    return fetch.FetchRequest(
        replica_state=fetch.ReplicaState(replica_id=replica, replica_epoch=1),
        max_wait=ms(0),
        min_bytes=1,
        session_id=session,
        session_epoch=epoch,
        topics=topics,
        forgotten_topics_data=(),
    )


def drain(manager: ReplicaManager) -> list[Reply]:
    manager.changed.clear()
    return [effect for effect in manager._state.out.drain() if isinstance(effect, Reply)]


def bench_produce(followers: int) -> float:
    manager, request = leader(followers), produce_request(1)
    spent = 0.0
    for token in range(ROUNDS):
        start = time.process_time()
        manager.produce(request, token, token)
        spent += time.process_time() - start
        drain(manager)
    return spent / ROUNDS * 1e6


def session_of(reply: Reply) -> int:
    session_id: int = reply.response.session_id  # type: ignore[union-attr]  # a fetch is answered
    return session_id


def bench_follower_fetch() -> float:
    """One 16 KB batch per fetch in an incremental session: judge, record, advance the HWM, read, answer."""
    manager, request = leader(1), produce_request(1)
    manager.fetch(fetch_request(0, 0, 0), 0, 0)
    session = session_of(drain(manager)[-1])
    spent = 0.0
    for n in range(1, ROUNDS):
        manager.produce(request, n, n)
        drain(manager)
        fetch_next = fetch_request((n - 1) * 16, n, session)
        start = time.process_time()
        manager.fetch(fetch_next, n, n)
        spent += time.process_time() - start
        drain(manager)
    return spent / ROUNDS * 1e6


def bench_acks_all() -> float:
    """A produce with acks=all, and the fetches of two followers with which the high watermark passes it."""
    manager, request = leader(2), produce_request(-1)
    sessions = {}
    for replica in (1, 2):
        manager.fetch(fetch_request(0, 0, 0, replica=replica), 0, 0)
        sessions[replica] = session_of(drain(manager)[-1])
    spent = 0.0
    for n in range(1, ROUNDS):
        fetches = [fetch_request(n * 16, n, session, replica=replica) for replica, session in sessions.items()]
        start = time.process_time()
        manager.produce(request, n, n)
        for fetch_next in fetches:
            manager.fetch(fetch_next, n, n)
        spent += time.process_time() - start
        drain(manager)
    return spent / ROUNDS * 1e6


def bench_idle_round(partitions: int) -> float:
    """A round of an incremental session of many partitions in which nothing is new."""
    manager = leader(1, partitions)
    manager.fetch(fetch_request(0, 0, 0, partitions), 0, 0)
    session = session_of(drain(manager)[-1])
    start = time.process_time()
    for n in range(1, ROUNDS):
        manager.fetch(fetch_request(0, n, session, 0), n, n)
        drain(manager)
    return (time.process_time() - start) / ROUNDS * 1e6


def report(name: str, bench: Callable[[], float]) -> None:
    print(f"{name + ':':39}{min(bench() for _ in range(RUNS)):7.1f} us")


if __name__ == "__main__":
    report("produce, acks=1, 16 KB, no follower", lambda: bench_produce(0))
    report("produce, acks=1, 16 KB, two followers", lambda: bench_produce(2))
    report("produce, acks=all, with both fetches", bench_acks_all)
    report("follower fetch of 16 KB", bench_follower_fetch)
    report("idle round, 1 partition", lambda: bench_idle_round(1))
    report("idle round, 1000 partitions", lambda: bench_idle_round(1000))
