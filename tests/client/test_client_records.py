"""Producing and reading exactly once and in order while leaders change; corruption is detected."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as oracle

from insync.client import apis, offsets, topics
from insync.client.client import Client
from insync.client.consumer import Reader, visible_records
from insync.client.errors import ClientError, ErrorCode, RefusedError, UnknownTopicError
from insync.client.producer import Producer, murmur2, partition_for
from insync.wire import batch
from insync.wire.batch import NewRecord
from tests.fake_cluster import FakeCluster
from tests.fake_state import FakeState

T = TypeVar("T")


def run_on(fake: FakeCluster, work: Callable[[Client], Awaitable[T]], timeout_s: float = 2.0) -> T:
    async def session() -> T:
        async with Client.connect(fake.bootstrap, timeout_s=timeout_s) as client:
            return await work(client)

    return asyncio.run(session())


async def read_all(client: Client, name: str, stop: int) -> list[bytes | None]:
    topic = await topics.describe_one(client, name)
    return [c.record.value async for c in Reader(client, topic, {0: 0}, {0: stop}).records()]


@given(st.binary(max_size=40))
def test_keys_are_hashed_as_kafkas_clients_do(key: bytes) -> None:
    assert murmur2(key) & 0x7FFFFFFF == oracle(key) & 0x7FFFFFFF
    assert 0 <= partition_for(key, 7) < 7


def test_a_batch_is_retried_with_the_same_sequence_until_a_leader_accepts_it() -> None:
    """P4: the fake rejects gaps and duplicates."""

    async def work(client: Client) -> list[int]:
        producer = Producer(client, await topics.describe_one(client, "t"))
        await producer.start()
        return [(await producer.send(0, [NewRecord(None, b"x")] * 3, 0)).offset for _ in range(3)]

    with FakeCluster() as fake:
        partition = fake.add_topic("t").partitions[0]
        partition.next_errors = [ErrorCode.not_leader_or_follower, ErrorCode.not_enough_replicas]
        assert run_on(fake, work) == [0, 3, 6]
        assert len(fake.requests_of(apis.PRODUCE)) == 5


@pytest.mark.parametrize("error_name", ["unknown_topic_or_partition", "offset_not_available", "leader_not_available"])
def test_a_leader_with_outdated_metadata_is_retried(error_name: str) -> None:
    """A leader may learn of its partition, or its high watermark, later than the broker that names it as leader."""

    async def work(client: Client) -> tuple[int, int, list[bytes | None]]:
        producer = Producer(client, await topics.describe_one(client, "t"))
        written = await producer.send(0, [NewRecord(None, b"x")], 0)
        partition.next_errors = [ErrorCode[error_name]] * 2
        end = (await offsets.list_offsets_with_retry(client, {("t", 0): offsets.LATEST}))["t", 0]
        partition.next_errors = [ErrorCode[error_name]] * 2
        return written.offset, end.offset, await read_all(client, "t", 1)

    with FakeCluster() as fake:
        partition = fake.add_topic("t").partitions[0]
        partition.next_errors = [ErrorCode[error_name]] * 2
        assert run_on(fake, work) == (0, 1, [b"x"])


def test_a_deleted_topic_is_not_retried() -> None:
    async def work(client: Client) -> None:
        known = await topics.describe(client, ["t"])
        fake.topics["t"].partitions[0].next_errors = [ErrorCode.unknown_topic_or_partition] * 100
        listing = asyncio.create_task(offsets.list_offsets_with_retry(client, {("t", 0): offsets.LATEST}, known=known))
        while not fake.requests_of(apis.LIST_OFFSETS):
            await asyncio.sleep(0.001)
        del fake.topics["t"]
        await listing

    with FakeCluster() as fake:
        fake.add_topic("t")
        with pytest.raises(UnknownTopicError):
            run_on(fake, work, timeout_s=3600.0)


def test_a_producer_follows_the_leader() -> None:
    async def work(client: Client) -> int:
        producer = Producer(client, await topics.describe_one(client, "t"))
        await producer.start()
        fake.topics["t"].partitions[0].leader = 2
        return (await producer.send(0, [NewRecord(None, b"x")], 0)).offset

    with FakeCluster() as fake:
        fake.add_topic("t")
        assert run_on(fake, work) == 0
        assert [broker for broker, _ in fake.requests_of(apis.PRODUCE)] == [1, 2]


def test_an_error_that_is_not_retriable_is_raised() -> None:
    async def work(client: Client) -> None:
        producer = Producer(client, await topics.describe_one(client, "t"), acks=1)
        await producer.send(0, [NewRecord(None, b"x")], 0)

    with FakeCluster() as fake:
        fake.add_topic("t").partitions[0].next_errors = [ErrorCode.message_too_large]
        with pytest.raises(RefusedError, match="MESSAGE_TOO_LARGE"):
            run_on(fake, work)


def test_reading_continues_after_a_leader_change() -> None:
    def move_leader(state: FakeState) -> None:
        state.topics["t"].partitions[0].leader = 3

    with FakeCluster() as fake:
        fake.add_topic("t")
        fake.write("t", 0, "a", "b")
        fake.write("t", 0, "c", compression="zstd")
        fake.before_answer["Fetch"] = move_leader
        assert run_on(fake, lambda client: read_all(client, "t", 3)) == [b"a", b"b", b"c"]
        assert [broker for broker, _ in fake.requests_of(apis.FETCH)] == [1, 3, 3]


def test_reading_starts_and_ends_inside_a_batch() -> None:
    async def work(client: Client) -> list[bytes | None]:
        topic = await topics.describe_one(client, "t")
        return [c.record.value async for c in Reader(client, topic, {0: 1}, {0: 3}).records()]

    with FakeCluster() as fake:
        fake.add_topic("t")
        fake.write("t", 0, "a", "b", "c", "d")
        assert run_on(fake, work) == [b"b", b"c"]


def test_reading_an_unreadable_partition_fails_after_the_timeout() -> None:
    with FakeCluster() as fake:
        partition = fake.add_topic("t").partitions[0]
        fake.write("t", 0, "a")
        partition.next_errors = [ErrorCode.kafka_storage_error] * 1000
        with pytest.raises(ClientError, match=r"could not be read for 0\.3 s"):
            run_on(fake, lambda client: read_all(client, "t", 1), timeout_s=0.3)


def test_an_offset_out_of_range_is_reported() -> None:
    with FakeCluster() as fake:
        fake.add_topic("t").partitions[0].start = 5
        with pytest.raises(RefusedError, match=r"OFFSET_OUT_OF_RANGE \(offset 0 is not in the log\)"):
            run_on(fake, lambda client: read_all(client, "t", 9))


def test_a_corrupt_batch_is_rejected() -> None:
    data = batch.build([NewRecord(None, b"precious")], timestamp_ms=0)
    data[-3] ^= 1
    with pytest.raises(ClientError, match=r"orders-3: the batch at offset 0 is corrupt\. .*Or read on from offset 1$"):
        list(visible_records(bytes(data), [], "orders-3"))


def test_control_batches_and_aborted_transactions_are_hidden() -> None:
    def build(offset: int, value: bytes, key: bytes | None = None, control: bool = False) -> bytes:
        return bytes(
            batch.build(
                [NewRecord(key, value)], timestamp_ms=0, base_offset=offset, producer_id=7, producer_epoch=0,
                base_sequence=0, transactional=True, control=control,
            )
        )  # fmt: skip

    data = build(0, b"lost") + build(1, b"", b"\x00\x00\x00\x00", control=True) + build(2, b"kept")
    visible = [record.value for _, records in visible_records(data, [(7, 0)], "t-0") for record in records]
    assert visible == [b"kept"]
    assert [record.value for _, records in visible_records(data, [], "t-0") for record in records] == [b"lost", b"kept"]
