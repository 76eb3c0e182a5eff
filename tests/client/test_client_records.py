"""Producing and reading: once, in order, whatever leaders do; damage is noticed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as oracle

from fake_cluster import FakeCluster
from insync.client import apis, offsets, topics
from insync.client.client import Client
from insync.client.consumer import Reader, visible_records
from insync.client.errors import ClientError, ErrorCode, RefusedError, UnknownTopicError
from insync.client.producer import Producer, murmur2, partition_for
from insync.wire import batch
from insync.wire.batch import NewRecord

T = TypeVar("T")


def on(fake: FakeCluster, work: Callable[[Client], Awaitable[T]], timeout: float = 2.0) -> T:
    async def session() -> T:
        async with Client.connect(fake.bootstrap, timeout_s=timeout) as cluster:
            return await work(cluster)

    return asyncio.run(session())


async def read_all(cluster: Client, name: str, stop: int) -> list[bytes | None]:
    topic = await topics.describe_one(cluster, name)
    return [c.record.value async for c in Reader(cluster, topic, {0: 0}, {0: stop}).records()]


@given(st.binary(max_size=40))
def test_keys_are_hashed_as_kafkas_clients_do(key: bytes) -> None:
    assert murmur2(key) & 0x7FFFFFFF == oracle(key) & 0x7FFFFFFF
    assert 0 <= partition_for(key, 7) < 7


def test_a_batch_is_repeated_with_the_same_sequence_until_a_leader_takes_it() -> None:
    """P4: the fake refuses gaps and repetitions."""

    async def work(cluster: Client) -> list[int]:
        producer = Producer(cluster, await topics.describe_one(cluster, "t"))
        await producer.start()
        return [(await producer.send(0, [NewRecord(None, b"x")] * 3, 0)).offset for _ in range(3)]

    with FakeCluster() as fake:
        partition = fake.topic("t").partitions[0]
        partition.refusals = [ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas]
        assert on(fake, work) == [0, 3, 6]
        assert len(fake.asked(apis.PRODUCE)) == 5


@pytest.mark.parametrize("late", ["unknown_topic_or_partition", "offset_not_available", "leader_not_available"])
def test_leaders_are_asked_again_until_they_know_what_they_lead(late: str) -> None:
    """A broker may hear of a partition, or of its high watermark, later than who told us that it leads."""

    async def work(cluster: Client) -> tuple[int, int, list[bytes | None]]:
        producer = Producer(cluster, await topics.describe_one(cluster, "t"))
        written = await producer.send(0, [NewRecord(None, b"x")], 0)
        partition.refusals = [ErrorCode[late]] * 2
        end = (await offsets.list_offsets_with_retry(cluster, {("t", 0): offsets.LATEST}))["t", 0]
        partition.refusals = [ErrorCode[late]] * 2
        return written.offset, end.offset, await read_all(cluster, "t", 1)

    with FakeCluster() as fake:
        partition = fake.topic("t").partitions[0]
        partition.refusals = [ErrorCode[late]] * 2
        assert on(fake, work) == (0, 1, [b"x"])


def test_a_topic_that_is_gone_is_not_waited_for() -> None:
    async def work(cluster: Client) -> None:
        known = await topics.describe(cluster, ["t"])
        fake.topics["t"].partitions[0].refusals = [ErrorCode.unknown_topic_or_partition] * 100
        asking = asyncio.create_task(offsets.list_offsets_with_retry(cluster, {("t", 0): offsets.LATEST}, known=known))
        while not fake.asked(apis.LIST_OFFSETS):
            await asyncio.sleep(0.001)
        del fake.topics["t"]
        await asking

    with FakeCluster() as fake:
        fake.topic("t")
        with pytest.raises(UnknownTopicError):
            on(fake, work, timeout=3600.0)


def test_a_producer_follows_the_leader() -> None:
    async def work(cluster: Client) -> int:
        producer = Producer(cluster, await topics.describe_one(cluster, "t"))
        await producer.start()
        fake.topics["t"].partitions[0].leader = 2
        return (await producer.send(0, [NewRecord(None, b"x")], 0)).offset

    with FakeCluster() as fake:
        fake.topic("t")
        assert on(fake, work) == 0
        assert [broker for broker, _ in fake.asked(apis.PRODUCE)] == [1, 2]


def test_a_refusal_for_good_is_raised() -> None:
    async def work(cluster: Client) -> None:
        producer = Producer(cluster, await topics.describe_one(cluster, "t"), acks=1)
        await producer.send(0, [NewRecord(None, b"x")], 0)

    with FakeCluster() as fake:
        fake.topic("t").partitions[0].refusals = [ErrorCode.message_too_large]
        with pytest.raises(RefusedError, match="MESSAGE_TOO_LARGE"):
            on(fake, work)


def test_reading_goes_on_after_the_leader_moved() -> None:
    def move(fake: FakeCluster) -> None:
        fake.topics["t"].partitions[0].leader = 3

    with FakeCluster() as fake:
        fake.topic("t")
        fake.write("t", 0, "a", "b")
        fake.write("t", 0, "c", compression="zstd")
        fake.before["Fetch"] = move
        assert on(fake, lambda cluster: read_all(cluster, "t", 3)) == [b"a", b"b", b"c"]
        assert [broker for broker, _ in fake.asked(apis.FETCH)] == [1, 3, 3]


def test_reading_begins_and_ends_inside_a_batch() -> None:
    async def work(cluster: Client) -> list[bytes | None]:
        topic = await topics.describe_one(cluster, "t")
        return [c.record.value async for c in Reader(cluster, topic, {0: 1}, {0: 3}).records()]

    with FakeCluster() as fake:
        fake.topic("t")
        fake.write("t", 0, "a", "b", "c", "d")
        assert on(fake, work) == [b"b", b"c"]


def test_a_partition_that_cannot_be_read_is_given_up_after_the_timeout() -> None:
    with FakeCluster() as fake:
        partition = fake.topic("t").partitions[0]
        fake.write("t", 0, "a")
        partition.refusals = [ErrorCode.kafka_storage_error] * 1000
        with pytest.raises(ClientError, match=r"could not be read for 0\.3 s"):
            on(fake, lambda cluster: read_all(cluster, "t", 1), timeout=0.3)


def test_an_offset_outside_the_log_is_told() -> None:
    with FakeCluster() as fake:
        fake.topic("t").partitions[0].start = 5
        with pytest.raises(RefusedError, match=r"OFFSET_OUT_OF_RANGE \(offset 0 is not in the log\)"):
            on(fake, lambda cluster: read_all(cluster, "t", 9))


def test_a_damaged_batch_is_not_handed_out() -> None:
    data = batch.build([NewRecord(None, b"precious")], timestamp_ms=0)
    data[-3] ^= 1
    with pytest.raises(ClientError, match="the batch at offset 0 is corrupt"):
        list(visible_records(bytes(data), []))


def test_control_batches_and_aborted_transactions_are_not_shown() -> None:
    def made(offset: int, value: bytes, key: bytes | None = None, **fields: bool) -> bytes:
        return bytes(
            batch.build(
                [NewRecord(key, value)], timestamp_ms=0, base_offset=offset, producer_id=7, producer_epoch=0,
                base_sequence=0, transactional=True, **fields,
            )
        )  # fmt: skip

    data = made(0, b"lost") + made(1, b"", b"\x00\x00\x00\x00", control=True) + made(2, b"kept")
    shown = [record.value for _, records in visible_records(data, [(7, 0)]) for record in records]
    assert shown == [b"kept"]
    assert [record.value for _, records in visible_records(data, []) for record in records] == [b"lost", b"kept"]
