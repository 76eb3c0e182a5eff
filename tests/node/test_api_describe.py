"""APIs that describe a node and its cluster: versions, brokers, partitions, directories, producers, features."""

from __future__ import annotations

from typing import Any

from insync.node.config import BROKER, CONTROLLER
from insync.quorum.config import QuorumConfig
from insync.wire import batch, codec
from insync.wire.apis import SERVED
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    api_versions,
    describe_cluster,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    produce,
    update_features,
)
from insync.wire.types import ms
from tests.node.node_harness import Net, config, three_brokers


def about_cluster(kind: int = 1, *, operations: bool = False) -> Any:
    return describe_cluster.DescribeClusterRequest(
        include_cluster_authorized_operations=operations, endpoint_type=kind, include_fenced_brokers=False
    )


def described(net: Net, *names: str, limit: int = 2_000, cursor: tuple[str, int] | None = None) -> Any:
    at = cursor and describe_topic_partitions.RequestCursor(topic_name=cursor[0], partition_index=cursor[1])
    request = describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=tuple(describe_topic_partitions.TopicRequest(name=name) for name in names),
        response_partition_limit=limit,
        cursor=at,
    )
    return net.answered(1, request)


def test_api_versions_lists_what_is_served_in_order_and_the_features_in_force() -> None:
    net = Net().up()
    request = api_versions.ApiVersionsRequest(client_software_name="test", client_software_version="1")
    answer = net.answered(1, request)
    keys = [line.api_key for line in answer.api_keys]
    assert keys == sorted(keys)
    assert {18: (0, 4), 3: (0, 13), 75: (0, 0), 33: (0, 2)}.items() <= SERVED.items()
    assert {line.api_key: (line.min_version, line.max_version) for line in answer.api_keys} == SERVED
    assert {f.name: f.max_version_level for f in answer.finalized_features} == net.nodes[1].image.features
    assert {f.name: (f.min_version, f.max_version) for f in answer.supported_features} == {
        name: (level, level) for name, level in net.nodes[1].image.features.items()
    }
    assert codec.encode_response(answer, 1)


def test_calls_between_nodes_are_not_advertised() -> None:
    """W2: never advertise what is not for clients: votes, heartbeats, envelopes, telemetry."""
    assert not [key for key in (52, 53, 54, 56, 58, 59, 62, 63, 67, 71, 72, 93) if key in SERVED]


def test_describe_cluster_names_live_brokers_and_one_of_them_as_controller() -> None:
    """W7."""
    net = three_brokers().up()
    net.crash(3)
    net.advance(20_000)
    answer = net.answered(2, about_cluster())
    assert [broker.broker_id for broker in answer.brokers] == [1, 2]
    assert (answer.controller_id, answer.cluster_id) == (2, "node-tests")
    assert answer.cluster_authorized_operations == -(2**31)
    asking = about_cluster(operations=True)
    assert net.answered(2, asking).cluster_authorized_operations == 0b1_1111_1010_0000


def endpoints(net: Net, node_id: int, kind: int) -> Any:
    request = about_cluster(kind)
    return net.answered(node_id, request)


def test_a_controller_describes_the_controllers_on_request() -> None:
    """Kafka's tools with --bootstrap-controller (KIP-919)."""
    quorum = QuorumConfig(addresses={1: ("one", 9093)})
    net = Net(config(1, roles=(CONTROLLER,), quorum=quorum), config(2, roles=(BROKER,), quorum=quorum)).up()
    answer = endpoints(net, 1, 2)
    assert (answer.error_code.name, answer.endpoint_type, answer.controller_id) == ("none", 2, 1)
    assert [(line.broker_id, line.host, line.port) for line in answer.brokers] == [(1, "one", 9093)]


def test_endpoint_types_that_a_node_does_not_have_are_refused() -> None:
    net = Net(config(1, roles=(CONTROLLER,)), config(2, roles=(BROKER,))).up()
    for kind, error in ((2, "mismatched_endpoint_type"), (9, "unsupported_endpoint_type")):
        answer = endpoints(net, 2, kind)
        assert (answer.error_code.name, answer.brokers) == (error, ())


def test_a_controller_without_a_broker_points_at_a_broker() -> None:
    net = Net(config(1, roles=(CONTROLLER,)), config(2, roles=(BROKER,))).up()
    answer = net.answered(1, about_cluster())
    assert answer.controller_id == 2


def test_partitions_are_described_with_their_elr_and_never_with_null() -> None:
    """E3; W10."""
    net = three_brokers().up()
    net.create("t", (1, 2, 3), min_insync_replicas="2")
    line = described(net, "t").topics[0].partitions[0]
    assert (line.eligible_leader_replicas, line.last_known_elr) == ((), ())
    net.crash(2)
    net.crash(3)
    net.advance(60_000)
    line = described(net, "t").topics[0].partitions[0]
    assert line.isr_nodes == (1,)
    assert len(line.eligible_leader_replicas) == 1
    assert line.offline_replicas == (2, 3)


def test_partitions_are_described_with_the_authorized_operations_of_their_topic() -> None:
    net = Net().up()
    net.create("t")
    assert described(net, "t").topics[0].topic_authorized_operations == 0b1101_1111_1000


def test_pages_go_on_where_the_last_one_ended() -> None:
    net = Net().up()
    for name, count in (("b", 3), ("a", 2), ("c", 1)):
        net.create(name, (1,), partitions=count)
    seen: list[tuple[str, int]] = []
    cursor: tuple[str, int] | None = None
    pages = 0
    while pages == 0 or cursor is not None:
        answer = described(net, limit=2, cursor=cursor)
        seen += [(topic.name, p.partition_index) for topic in answer.topics for p in topic.partitions]
        after = answer.next_cursor
        cursor = None if after is None else (after.topic_name, after.partition_index)
        pages += 1
    assert seen == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("c", 0)]
    assert pages == 3


def test_a_page_holds_at_least_one_partition_and_a_cursor_past_the_end_none() -> None:
    net = Net().up()
    net.create("a", (1,), partitions=2)
    assert len(described(net, limit=0).topics[0].partitions) == 1
    answer = described(net, cursor=("z", 0))
    assert (answer.topics, answer.next_cursor) == ((), None)


def test_missing_topics_and_impossible_names_have_different_errors() -> None:
    """W11."""
    net = Net().up()
    errors = {topic.name: topic.error_code.name for topic in described(net, "absent", "bad name").topics}
    assert errors == {"absent": "unknown_topic_or_partition", "bad name": "invalid_topic_exception"}


def test_log_dirs_have_the_size_of_each_requested_replica() -> None:
    net = Net(config(1, log_dir="/var/lib/insync")).up()
    net.create("t", (1,), partitions=2)
    net.create("u", (1,))
    net.produce(1, "t")
    everything = net.answered(1, describe_log_dirs.DescribeLogDirsRequest(topics=None)).results[0]
    assert everything.log_dir == "/var/lib/insync"
    assert [topic.name for topic in everything.topics] == ["t", "u"]
    sizes = {line.partition_index: line.partition_size for line in everything.topics[0].partitions}
    assert sizes[0] > 60
    assert sizes[1] == 0
    one = describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=(1,))
    some = net.answered(1, describe_log_dirs.DescribeLogDirsRequest(topics=(one,))).results[0]
    assert [(topic.name, [p.partition_index for p in topic.partitions]) for topic in some.topics] == [("t", [1])]


def test_producers_of_a_partition_are_described_by_each_of_its_replicas() -> None:
    """P4."""
    net = three_brokers().up()
    partition = net.create("t", (2, 1))
    data = bytes(
        batch.build(
            [batch.NewRecord(None, b"v")] * 3, timestamp_ms=777, producer_id=40, producer_epoch=2, base_sequence=0
        )
    )
    line = produce.PartitionProduceData(index=0, records=data)
    topic = produce.TopicProduceData(topic_id=partition.topic_id, partition_data=(line,))
    net.answered(2, produce.ProduceRequest(acks=1, timeout=ms(1_000), topic_data=(topic,)))
    asked = describe_producers.TopicRequest(name="t", partition_indexes=(0, 9))
    request = describe_producers.DescribeProducersRequest(topics=(asked,))
    known, unknown = net.answered(2, request).topics[0].partitions
    (producer,) = known.active_producers
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (40, 2, 2)
    assert producer.last_timestamp == 777
    assert unknown.error_code is ErrorCode.unknown_topic_or_partition
    net.advance(1_000)
    assert net.answered(1, request).topics[0].partitions[0].active_producers == known.active_producers
    assert net.answered(3, request).topics[0].partitions[0].error_code is ErrorCode.not_leader_or_follower


def test_features_stay_at_their_level_and_asking_for_it_succeeds() -> None:
    net = Net().up()
    level = net.nodes[1].image.features["metadata.version"]
    for asked, error in ((level, "none"), (level + 1, "invalid_update_version")):
        update = update_features.FeatureUpdateKey(feature="metadata.version", max_version_level=asked)
        answer = net.answered(1, update_features.UpdateFeaturesRequest(feature_updates=(update,)))
        assert answer.error_code.name == error
    assert net.nodes[1].image.features["metadata.version"] == level


def test_only_the_metadata_log_has_a_quorum() -> None:
    net = Net().up()
    line = describe_quorum.RequestPartition(partition_index=0)
    topic = describe_quorum.RequestTopic(topic_name="t", partitions=(line,))
    answer = net.answered(1, describe_quorum.DescribeQuorumRequest(topics=(topic,)))
    assert answer.topics[0].partitions[0].error_code is ErrorCode.unknown_topic_or_partition


def test_a_page_does_not_begin_before_a_topic() -> None:
    net = Net().up()
    net.create("t")
    (topic,) = described(net, "t", cursor=("t", -1)).topics
    assert (topic.error_code, topic.partitions) == (ErrorCode.invalid_request, ())


def test_a_refused_feature_is_named() -> None:
    """Kafka's tools print the message for every feature of the request."""
    net = Net().up()
    asked = (("metadata.version", 25), ("group.version", 1), ("eligible.leader.replicas.version", 7))
    updates = tuple(update_features.FeatureUpdateKey(feature=name, max_version_level=n) for name, n in asked)
    message = net.answered(1, update_features.UpdateFeaturesRequest(feature_updates=updates)).error_message
    assert "Invalid update version 1 for feature group.version." in message
    only = net.answered(1, update_features.UpdateFeaturesRequest(feature_updates=updates[2:])).error_message
    assert only.endswith(
        "Invalid update version 7 for feature eligible.leader.replicas.version. This cluster only supports version 1."
    )
