"""No value in a request stops a node, blocks it, or leaves something behind that it refuses to read.

Every API that a client can reach, with every number, text and list of it at its extremes (`extreme_requests`); those of
the quorum are tried in tests/quorum. After them the node still works, and so does one that starts from its disk.
"""

from __future__ import annotations

import pytest

from fuzz.one_node import OneNode
from fuzz.targets import common
from fuzz.targets.nodes import start_prepared_node
from insync.sim.engine.disk import SimDisk
from insync.wire import batch, codec
from insync.wire.apis import APIS
from insync.wire.errors import ErrorCode, MalformedFrameError
from insync.wire.messages import create_topics, produce
from insync.wire.types import ms
from tests.node.extreme_requests import Base, frames

QUORUM = ("vote", "begin_quorum_epoch", "end_quorum_epoch", "fetch_snapshot")
REQUEST_TYPES = {
    api.class_prefix: codec.request_type(api.key, api.served[1] if api.served else api.pinned)
    for api in APIS.values()
    if api.name not in QUORUM
}
"""In the highest version that is served; those that only nodes send, in their own."""


def base_of(node: OneNode) -> Base:
    """Ids and epochs that the node knows, so that a request comes as far as it can."""
    topic = node.node.image.find("t", 0)
    assert topic is not None
    return {
        "topic_id": topic.topic_id.bytes,
        "broker_id": 1,
        "broker_epoch": node.node.broker_epoch,
        "leader_epoch": topic.leader_epoch,
        "current_leader_epoch": topic.leader_epoch,
        "partition_epoch": topic.partition_epoch,
        "leader_id": 1,
        "replica_id": -1,
        "replicas": 1,
        "new_isr": 1,
        "broker_ids": 1,
        "acks": -1,
        "count": 3,
        "num_partitions": 1,
        "replication_factor": 1,
        "assignments": 0,
        "resource_type": 2,
        "cluster_id": b"fuzz",
        "group_id": b"g",
        "group": b"g",
        "groups": b"g",
        "groups_names": b"g",
        "member_id": b"m",
        "key": b"g",
        "coordinator_keys": b"g",
        "protocol_type": b"consumer",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        "timeout": 1_000,
        "max_bytes": 1 << 20,
        "partition_max_bytes": 1 << 20,
        "session_epoch": -1,
        "bytes": common.SUBSCRIPTION,
        "records": b"",
    }


@pytest.mark.parametrize("name", REQUEST_TYPES)
def test_no_extreme_value_stops_a_node_or_leaves_it_unable_to_start(name: str) -> None:
    """P5, B8: expected failures are answered; nothing that is persisted is refused when it is read back."""
    node = start_prepared_node()
    for what, frame in frames(REQUEST_TYPES[name], base_of(node)):
        try:
            node.receive(frame)
        except MalformedFrameError:
            continue
        node.advance(1)
        assert node.stop is None, f"{what}: {node.stop}"
    node.advance(120_000)
    assert node.stop is None
    again = OneNode(crashed(node.disk))
    again.advance(40_000)
    assert again.stop is None
    assert_node_works(again)


def crashed(disk: SimDisk) -> SimDisk:
    disk.crash()
    return disk


def assert_node_works(node: OneNode) -> None:
    """It creates a topic and stores a record in it."""
    topic = create_topics.CreatableTopic(
        name="still-there", num_partitions=1, replication_factor=1, assignments=(), configs=()
    )
    request = create_topics.CreateTopicsRequest(topics=(topic,), timeout=ms(1_000), validate_only=False)
    node.receive(codec.encode_request(request, 1, "c"))
    node.advance(2_000)
    partition = node.node.image.find("still-there", 0)
    assert partition is not None
    line = produce.PartitionProduceData(index=0, records=batch.build([batch.NewRecord(b"k", b"v")], timestamp_ms=1))
    data = produce.TopicProduceData(topic_id=partition.topic_id, partition_data=(line,))
    node.answers.clear()
    node.receive(codec.encode_request(produce.ProduceRequest(acks=1, timeout=ms(1_000), topic_data=(data,)), 1, "c"))
    (answer,) = node.answers
    response = codec.decode_response(answer[4:], produce.ProduceRequest)[1]
    assert response.responses[0].partition_responses[0].error_code is ErrorCode.none
