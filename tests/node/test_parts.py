"""Large requests in parts: what the parts hold, and that the joined answer is that of the whole request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from insync.node.handlers import PARTS
from insync.node.parts import Parts
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    delete_groups,
    delete_records,
    describe_configs,
    describe_groups,
    describe_producers,
    describe_transactions,
    describe_user_scram_credentials,
    find_coordinator,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
)
from insync.wire.types import ms
from tests.node.node_harness import Net

ENTRIES = 10_000
PARTITIONS = 30
TOPIC_CONFIGS, BROKER_CONFIGS = 2, 4


def records(*, size: int = 20) -> bytes:
    return bytes(batch.build([batch.NewRecord(None, b"x" * size)], timestamp_ms=0))


def names(count: int, prefix: str = "g") -> tuple[str, ...]:
    return tuple(f"{prefix}-{number}" for number in range(count))


def _produce(net: Net, count: int) -> Any:
    data = tuple(produce.PartitionProduceData(index=index, records=records()) for index in range(count))
    topic_id = net.nodes[1].image.topic_ids["t"]
    topic = produce.TopicProduceData(topic_id=topic_id, partition_data=data)
    return produce.ProduceRequest(acks=-1, timeout=ms(1_000), topic_data=(topic,))


def _list_offsets(net: Net, count: int) -> Any:
    asked = tuple(list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(count))
    topics = (list_offsets.ListOffsetsTopic(name="t", partitions=asked),)
    return list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, timeout=ms(0))


def _epochs(net: Net, count: int) -> Any:
    asked = tuple(
        offset_for_leader_epoch.OffsetForLeaderPartition(partition=index, leader_epoch=0) for index in range(count)
    )
    topics = (offset_for_leader_epoch.OffsetForLeaderTopic(topic="t", partitions=asked),)
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=topics)


def _delete_records(net: Net, count: int) -> Any:
    asked = tuple(delete_records.DeleteRecordsPartition(partition_index=index, offset=0) for index in range(count))
    topics = (delete_records.DeleteRecordsTopic(name="t", partitions=asked),)
    return delete_records.DeleteRecordsRequest(topics=topics, timeout=ms(1_000))


def _configs(net: Net, count: int) -> Any:
    resources = tuple(
        describe_configs.DescribeConfigsResource(
            resource_type=TOPIC_CONFIGS, resource_name=name, configuration_keys=None
        )
        for name in ("t", *names(count - 1))
    )
    return describe_configs.DescribeConfigsRequest(resources=resources, include_synonyms=True)


def _metadata(net: Net, count: int) -> Any:
    topics = tuple(metadata.MetadataRequestTopic(topic_id=None, name=name) for name in ("t", *names(count - 1)))
    return metadata.MetadataRequest(
        topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def _commit(net: Net, count: int) -> Any:
    lines = tuple(
        offset_commit.OffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
        for index in range(count)
    )
    topics = (offset_commit.OffsetCommitRequestTopic(name="t", partitions=lines),)
    return offset_commit.OffsetCommitRequest(group_id="g", member_id="", topics=topics)


def _offset_fetch(net: Net, count: int) -> Any:
    half = count // 2
    one = (offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=tuple(range(half))),)
    groups = (
        offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=one),
        offset_fetch.OffsetFetchRequestGroup(group_id="h", topics=None),
        *(offset_fetch.OffsetFetchRequestGroup(group_id=name, topics=one) for name in names(2)),
    )
    return offset_fetch.OffsetFetchRequest(groups=groups)


def _offset_delete(net: Net, count: int) -> Any:
    lines = tuple(offset_delete.OffsetDeleteRequestPartition(partition_index=index) for index in range(count))
    topics = (offset_delete.OffsetDeleteRequestTopic(name="t", partitions=lines),)
    return offset_delete.OffsetDeleteRequest(group_id="g", topics=topics)


def _producers(net: Net, count: int) -> Any:
    topics = (describe_producers.TopicRequest(name="t", partition_indexes=tuple(range(count))),)
    return describe_producers.DescribeProducersRequest(topics=topics)


REQUESTS: dict[str, Callable[[Net, int], Any]] = {
    "Produce": _produce,
    "ListOffsets": _list_offsets,
    "Metadata": _metadata,
    "OffsetCommit": _commit,
    "OffsetFetch": _offset_fetch,
    "FindCoordinator": lambda net, count: find_coordinator.FindCoordinatorRequest(
        key_type=0, coordinator_keys=names(count)
    ),
    "DescribeGroups": lambda net, count: describe_groups.DescribeGroupsRequest(
        groups=("g", *names(count - 1)), include_authorized_operations=False
    ),
    "DeleteRecords": _delete_records,
    "OffsetForLeaderEpoch": _epochs,
    "DescribeConfigs": _configs,
    "DeleteGroups": lambda net, count: delete_groups.DeleteGroupsRequest(groups_names=names(count)),
    "OffsetDelete": _offset_delete,
    "DescribeProducers": _producers,
    "DescribeTransactions": lambda net, count: describe_transactions.DescribeTransactionsRequest(
        transactional_ids=names(count)
    ),
    "DescribeUserScramCredentials": lambda net, count: (
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            users=tuple(describe_user_scram_credentials.UserName(name=name) for name in names(count))
        )
    ),
}


@pytest.fixture(scope="module")
def net() -> Net:
    net = Net().up()
    net.create("t", partitions=PARTITIONS)
    net.ask(1, find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)))
    net.advance(1_000)
    net.ask(1, _commit(net, PARTITIONS))
    return net


def test_every_api_that_can_be_divided_is_tried_here(net: Net) -> None:
    assert {request(net, 2).__api_key__ for request in REQUESTS.values()} == set(PARTS)


@pytest.mark.parametrize("api", REQUESTS)
def test_no_part_holds_more_than_its_limit(net: Net, api: str) -> None:
    request = REQUESTS[api](net, ENTRIES)
    parts = PARTS[request.__api_key__]
    divided = parts.divide(request)
    assert len(divided) >= ENTRIES // parts.limit
    assert max(len(parts.divide(part)) for part in divided) == 1
    assert sum(count(part, parts.asked) for part in divided) == count(request, parts.asked)


def count(entity: Any, path: tuple[str, ...]) -> int:
    if not path or getattr(entity, path[0]) is None:
        return 1
    return sum(count(item, path[1:]) for item in getattr(entity, path[0]))


@pytest.mark.parametrize("api", REQUESTS)
def test_the_joined_answer_is_that_of_the_whole_request(net: Net, api: str) -> None:
    request = REQUESTS[api](net, PARTITIONS + 5)
    whole = PARTS[request.__api_key__]
    parts = Parts(
        asked=whole.asked,
        answered=whole.answered,
        keys=whole.keys,
        limit=4,
        whole=whole.whole,
        without_repeats=whole.without_repeats,
        finish=whole.finish,
    )
    divided = parts.divide(request)
    assert len(divided) > 5
    joined = parts.join([ask(net, part) for part in divided])
    expected = ask(net, request)
    assert without_offsets(joined) == without_offsets(expected)


def ask(net: Net, request: Any) -> Any:
    token = net.ask(1, request)
    net.advance(100)
    return net.answers[token]


def without_offsets(answer: Any) -> Any:
    """Produced again, the same records get other offsets."""
    if not isinstance(answer, produce.ProduceResponse):
        return answer
    return [[(line.index, line.error_code) for line in topic.partition_responses] for topic in answer.responses]


def test_small_requests_are_not_divided(net: Net) -> None:
    for make in REQUESTS.values():
        request = make(net, 2)
        divided = PARTS[request.__api_key__].divide(request)
        assert len(divided) == 1
        assert divided[0] == request


def test_a_partition_that_several_parts_ask_for_is_refused_as_it_is_in_one(net: Net) -> None:
    asked = [*range(20), 3, *range(20, 30), 3, 7]
    lines = tuple(list_offsets.ListOffsetsPartition(partition_index=index, timestamp=-1) for index in asked)
    topics = (list_offsets.ListOffsetsTopic(name="t", partitions=lines),)
    request = list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, timeout=ms(0))
    whole = PARTS[2]
    parts = Parts(asked=whole.asked, answered=whole.answered, keys=whole.keys, limit=4, finish=whole.finish)
    joined = parts.join([ask(net, part) for part in parts.divide(request)])
    refused = [line.partition_index for line in joined.topics[0].partitions if line.error_code != ErrorCode.none]
    assert refused == [3, 7]
    assert joined == ask(net, request)


def test_what_is_asked_more_than_once_is_answered_once() -> None:
    """A small request must not bring a large answer many times."""
    broker = describe_configs.DescribeConfigsResource(
        resource_type=BROKER_CONFIGS, resource_name="1", configuration_keys=None
    )
    configs = describe_configs.DescribeConfigsRequest(resources=(broker,) * 50_000)
    assert PARTS[32].divide(configs) == (describe_configs.DescribeConfigsRequest(resources=(broker,)),)
    everything = offset_fetch.OffsetFetchRequestGroup(group_id="g", topics=None)
    fetched = PARTS[9].divide(offset_fetch.OffsetFetchRequest(groups=(everything,) * 1_000))
    assert fetched == (offset_fetch.OffsetFetchRequest(groups=(everything,)),)
    topics = tuple(describe_producers.TopicRequest(name="t", partition_indexes=(0,) * n) for n in range(1, 100))
    once = (describe_producers.TopicRequest(name="t", partition_indexes=(0,)),)
    described = PARTS[61].divide(describe_producers.DescribeProducersRequest(topics=topics))
    assert described == (describe_producers.DescribeProducersRequest(topics=once),)


def test_large_and_compressed_batches_weigh_more(net: Net) -> None:
    """P5: what is copied, checked and uncompressed takes time; a part has the same amount of it, not of batches."""
    topic_id = net.nodes[1].image.topic_ids["t"]

    def parts_of(data: bytes) -> int:
        lines = tuple(produce.PartitionProduceData(index=index, records=data) for index in range(24))
        topic = produce.TopicProduceData(topic_id=topic_id, partition_data=lines)
        request = produce.ProduceRequest(acks=1, timeout=ms(1_000), topic_data=(topic,))
        return len(PARTS[0].divide(request))

    gzip = 1
    assert parts_of(records()) == 1
    assert parts_of(records(size=900_000)) == 24
    bomb = bytearray(records(size=20_000))
    bomb[22] |= gzip
    assert parts_of(bytes(bomb)) == 12


def test_the_first_part_that_fails_as_a_whole_stands_for_all() -> None:
    parts = PARTS[47]
    good = offset_delete.OffsetDeleteResponse(error_code=ErrorCode.none, throttle_time=ms(0), topics=())
    bad = offset_delete.OffsetDeleteResponse(error_code=ErrorCode.group_id_not_found, throttle_time=ms(0), topics=())
    assert parts.join([good, bad, good]) is bad
