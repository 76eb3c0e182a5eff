"""A few partitions of a topic with many: only these are described, and they are read without asking where they are."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from insync.client import apis, offsets, topics
from insync.client.client import Client
from insync.client.errors import NoBrokerError, UnknownTopicError
from insync.client.model import Broker, Partition, Topic
from insync.client.settings import BACKOFF_JITTER, ClientSettings
from insync.client.sync_client import SyncClient
from insync.columnar.headers import next_offset
from tests.fake_cluster import ALL_VERSIONS, FakeCluster

PARTITIONS = 9


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    """t-0, t-3 and t-6 are led by broker 1, and so on; each partition has one record."""
    with FakeCluster() as made:
        made.add_topic("t", *([i % 3 + 1] for i in range(PARTITIONS)))
        for i in range(PARTITIONS):
            made.write("t", i, f"v{i}")
        yield made


def described(fake: FakeCluster, indexes: list[int]) -> list[tuple[int, int]]:
    """(index, leader) of the partitions that the client describes."""
    with SyncClient(fake.bootstrap) as client:
        topic = client.call(lambda cluster: topics.describe_partitions(cluster, "t", indexes))
    assert topic.id == fake.topics["t"].id
    return [(partition.index, partition.leader) for partition in topic.partitions]


@pytest.mark.parametrize("indexes", [[4], [0, 1, 2, 3, 4], [8, 2, 3, 2], [7, 8, 9, 12], []])
def test_only_the_named_partitions_are_described(fake: FakeCluster, indexes: list[int]) -> None:
    expected = [(i, i % 3 + 1) for i in sorted(set(indexes)) if i < PARTITIONS]
    assert described(fake, indexes) == expected


def test_one_request_describes_one_partition_of_many(fake: FakeCluster) -> None:
    described(fake, [7])
    assert len(fake.requests_of(apis.DESCRIBE_TOPIC_PARTITIONS)) == 1


def test_old_brokers_describe_the_whole_topic(fake: FakeCluster) -> None:
    fake.versions = {key: range_ for key, range_ in ALL_VERSIONS.items() if key != apis.DESCRIBE_TOPIC_PARTITIONS.key}
    assert described(fake, [1, 5]) == [(1, 2), (5, 3)]


def test_scattered_partitions_are_described_with_their_topic(
    fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "MAX_RUNS", 2)
    assert described(fake, [0, 2, 4]) == [(0, 1), (2, 3), (4, 2)]


def test_a_missing_topic_is_an_error(fake: FakeCluster) -> None:
    with SyncClient(fake.bootstrap) as client, pytest.raises(UnknownTopicError):
        client.call(lambda cluster: topics.describe_partitions(cluster, "absent", [0]))


def test_offsets_of_a_moved_partition_are_asked_for_again_and_no_others(fake: FakeCluster) -> None:
    wanted = dict.fromkeys([("t", i) for i in range(PARTITIONS)], offsets.LATEST)

    async def list_with_old_leaders(client: Client) -> dict[tuple[str, int], int]:
        known = await topics.describe(client, ["t"])
        fake.topics["t"].partitions[4].leader = 3
        fake.requests.clear()
        listed = await offsets.list_offsets_with_retry(client, wanted, known=known)
        return {key: offset.offset for key, offset in listed.items()}

    with SyncClient(fake.bootstrap) as client:
        assert client.call(list_with_old_leaders) == dict.fromkeys(wanted, 1)
    assert sorted(broker for broker, _ in fake.requests_of(apis.LIST_OFFSETS)) == [1, 2, 3, 3]
    assert len(fake.requests_of(apis.DESCRIBE_TOPIC_PARTITIONS)) == 1


# --- what another client knows ---


def planned_topic(fake: FakeCluster, index: int, leader: int, epoch: int = 0) -> tuple[Topic, list[Broker]]:
    partition = Partition(index=index, leader=leader, leader_epoch=epoch, replicas=(), isr=())
    topic = Topic(name="t", id=fake.topics["t"].id, partitions=(partition,))
    return topic, [Broker(id=leader, host="127.0.0.1", port=fake.ports[leader])]


def read_one(client: SyncClient, topic: Topic, index: int) -> int:
    """The number of answers with the partition's record."""
    return len(
        list(
            client.fetch_batches(
                topic, {index: 0}, {index: 1}, next_offset_of=next_offset, isolation=0, partition_bytes=1_000
            )
        )
    )


def test_a_planned_leader_is_asked_for_records_and_no_broker_for_metadata(fake: FakeCluster) -> None:
    with SyncClient("127.0.0.1:1", lazy=True) as client:  # no bootstrap broker is needed
        topic = client.learn_topic(*planned_topic(fake, 7, leader=2))
        assert read_one(client, topic, 7) == 1
    assert [(broker, name) for broker, name, _ in fake.requests] == [(2, "ApiVersions"), (2, "Fetch")]


@pytest.mark.parametrize("has_moved", [True, False])
def test_an_outdated_plan_is_replaced_by_what_the_cluster_says(fake: FakeCluster, has_moved: bool) -> None:
    """F3: the old leader answers NOT_LEADER_OR_FOLLOWER; one that leads in a newer epoch, FENCED_LEADER_EPOCH."""
    partition = fake.topics["t"].partitions[7]
    partition.leader, partition.epoch = (3 if has_moved else 2), 5
    with SyncClient(fake.bootstrap, lazy=True) as client:
        topic = client.learn_topic(*planned_topic(fake, 7, leader=2))
        assert read_one(client, topic, 7) == 1
    assert [broker for broker, _ in fake.requests_of(apis.FETCH)] == [2, partition.leader]
    assert len(fake.requests_of(apis.DESCRIBE_TOPIC_PARTITIONS)) == 1


def test_a_leader_whose_broker_is_gone_is_looked_up(fake: FakeCluster) -> None:
    topic, brokers = planned_topic(fake, 7, leader=2)
    fake.stop(2)
    fake.fenced.append(2)
    fake.topics["t"].partitions[7].leader = 1
    with SyncClient(fake.bootstrap, lazy=True) as client:
        assert read_one(client, client.learn_topic(topic, brokers), 7) == 1


def test_a_recreated_topic_is_unknown(fake: FakeCluster) -> None:
    topic, brokers = planned_topic(fake, 7, leader=2)
    fake.topics["t"].id = UUID(int=77)
    with SyncClient(fake.bootstrap, lazy=True) as client, pytest.raises(UnknownTopicError):
        read_one(client, client.learn_topic(topic, brokers), 7)


def test_a_newer_leader_that_the_client_knows_takes_precedence(fake: FakeCluster) -> None:
    with SyncClient(fake.bootstrap, lazy=True) as client:
        client.learn_topic(*planned_topic(fake, 7, leader=3, epoch=5))
        assert client.learn_topic(*planned_topic(fake, 7, leader=2, epoch=4)).partitions[0].leader == 3


def test_a_lazy_client_retries_until_its_timeout() -> None:
    with SyncClient("127.0.0.1:1", timeout_s=0.2, lazy=True) as client, pytest.raises(NoBrokerError):
        client.call(topics.describe)


# --- pauses ---


def test_pauses_double_up_to_their_maximum_and_differ() -> None:
    settings = ClientSettings(retry_backoff_s=0.1, retry_backoff_max_s=0.5)
    for failures, expected_s in ((1, 0.1), (2, 0.2), (3, 0.4), (4, 0.5), (1_000, 0.5)):
        pauses = [settings.backoff_s(failures) for _ in range(50)]
        assert all(abs(pause_s - expected_s) <= BACKOFF_JITTER * expected_s + 1e-9 for pause_s in pauses)
        assert len(set(pauses)) > 1


def test_a_partition_is_looked_up_by_its_index() -> None:
    partitions = tuple(Partition(index=i, leader=i, leader_epoch=0, replicas=(), isr=()) for i in range(5))
    whole, some = Topic(name="t", partitions=partitions), Topic(name="t", partitions=partitions[3:])
    assert [whole.partition(i) for i in (0, 4, 5, -1)] == [partitions[0], partitions[4], None, None]
    assert [some.partition(i) for i in (0, 1, 3, 4)] == [None, None, partitions[3], partitions[4]]
