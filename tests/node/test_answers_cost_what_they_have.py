"""What a request costs grows with what it asks for and with what there is, not with their product."""

from __future__ import annotations

from typing import Any

from insync.groups import administration
from insync.groups.group import Group
from insync.groups.memory_budget import MemoryBudget
from insync.groups.timers import Timers
from insync.node.apis import create_topics as create_topics_api
from insync.node.apis import describe_topic_partitions as describe_topic_partitions_api
from insync.node.apis import transactions as transactions_api
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    create_topics,
    describe_log_dirs,
    describe_topic_partitions,
    list_groups,
    list_transactions,
)
from insync.wire.types import NO_DURATION
from tests.node.node_harness import Net


class Counted(str):
    """A name that counts how often names are compared or changed."""

    calls = 0

    def __eq__(self, other: object) -> bool:
        Counted.calls += 1
        return str.__eq__(self, other)

    def __hash__(self) -> int:
        return str.__hash__(self)

    def lower(self) -> str:
        Counted.calls += 1
        return str.lower(self)


def test_log_directories_are_described_without_comparing_every_replica_with_every_topic() -> None:
    net = Net().up()
    net.create("t", partitions=20)
    asked = tuple(
        describe_log_dirs.DescribableLogDirTopic(topic=Counted(f"x-{number}"), partitions=(0,)) for number in range(500)
    )
    one = describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=(3, 3, 19))
    again = describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=(4,))
    Counted.calls = 0
    request = describe_log_dirs.DescribeLogDirsRequest(topics=(one, *asked, again))
    (topic,) = net.answered(1, request).results[0].topics
    assert [line.partition_index for line in topic.partitions] == [3, 4, 19]
    assert Counted.calls < 500


def ignore(group: Group, now: int) -> None:
    """No timer of the group fires in these tests."""


def test_filters_of_groups_are_read_once_for_all_groups() -> None:
    filters = tuple(Counted(f"state-{number}") for number in range(100))
    matches = administration.make_filter(
        list_groups.ListGroupsRequest(states_filter=filters, types_filter=("CLASSIC",))
    )
    Counted.calls = 0
    empty = Group("g", Timers(), MemoryBudget(1 << 20), on_join_timeout=ignore, on_sync_timeout=ignore)
    assert empty.state == "Empty"
    assert not any(matches(empty) for _ in range(100))
    assert Counted.calls == 0
    wanted = list_groups.ListGroupsRequest(states_filter=("empty",), types_filter=())
    assert administration.make_filter(wanted)(empty)
    other = list_groups.ListGroupsRequest(states_filter=(), types_filter=("consumer",))
    assert not administration.make_filter(other)(empty)


def test_a_pattern_that_takes_long_to_compile_is_refused() -> None:
    net = Net().up()
    limit = transactions_api.MAX_PATTERN
    for pattern, expected in (("a" * limit, ErrorCode.none), ("a" * (limit + 1), ErrorCode.invalid_regular_expression)):
        request = list_transactions.ListTransactionsRequest(
            state_filters=(), producer_id_filters=(), transactional_id_pattern=pattern
        )
        assert net.answers[net.ask(1, request)].error_code is expected


def test_a_page_of_topics_is_full_though_none_of_them_exists() -> None:
    net = Net().up()
    most = describe_topic_partitions_api.MAX_PARTITIONS
    topics = tuple(describe_topic_partitions.TopicRequest(name=f"x-{number:05}") for number in range(most + 5))
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(topics=topics, response_partition_limit=most)
    first = net.answers[net.ask(1, request)]
    assert len(first.topics) == most
    assert first.next_cursor.topic_name == f"x-{most:05}"


def created(*configs: tuple[Any, ...] | None) -> Any:
    topics = tuple(
        create_topics.CreatableTopicResult(
            name=f"t-{number}", topic_id=None, error_code=ErrorCode.none, error_message=None, configs=lines
        )
        for number, lines in enumerate(configs)
    )
    return create_topics.CreateTopicsResponse(throttle_time=NO_DURATION, topics=topics)


def configs(value: str = "v") -> tuple[Any, ...]:
    line = create_topics.CreatableTopicConfigs(
        name="key", value=value, read_only=False, config_source=5, is_sensitive=False
    )
    return (line,)


def test_equal_configs_in_forwarded_answers_are_one_tuple() -> None:
    """They are encoded once, however many topics have them."""
    last = created(configs())
    answer = created(configs(), configs(), configs("w"), configs("w"), None)
    assert create_topics_api.PARTS.share is not None
    shared = create_topics_api.PARTS.share(answer, last)
    assert shared == answer
    lines = [topic.configs for topic in shared.topics]
    assert lines[0] is lines[1] is last.topics[0].configs
    assert lines[2] is lines[3]
    assert lines[4] is None
