"""Three real nodes with groups: requests of members, and the coordinator of a group."""

from __future__ import annotations

from typing import Any

from insync.controller.config import ControllerConfig
from insync.groups.config import GroupConfig
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    find_coordinator,
    heartbeat,
    join_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from insync.wire.types import ms
from tests.node.node_harness import Net, three_brokers

GROUPS = GroupConfig(offsets_topic_num_partitions=2, group_initial_rebalance_delay_ms=100)


def cluster(groups: GroupConfig = GROUPS) -> Net:
    controller = ControllerConfig(cluster_id="node-tests", rebalance_interval_ms=0)
    net = three_brokers(groups=groups, controller=controller).up()
    net.create("t", (1,), min_insync_replicas="1")
    return net


def find(net: Net, group: str = "g", at: int = 1, key_type: int = 0) -> Any:
    request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=(group,))
    return net.answered(at, request).coordinators[0]


def ready(net: Net, group: str = "g") -> int:
    """Wait for the topic, and return the group's coordinator."""
    find(net, group)
    net.advance(3_000)
    coordinator = find(net, group)
    assert coordinator.error_code is ErrorCode.none
    return int(coordinator.node_id)


def commit_request(offset: int, group: str = "g", **fields: Any) -> Any:
    partition = offset_commit.OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return offset_commit.OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=fields.get("generation", -1),
        member_id=fields.get("member", ""),
        topics=(offset_commit.OffsetCommitRequestTopic(name="t", partitions=(partition,)),),
    )


def commit(net: Net, node: int, offset: int, **fields: Any) -> str:
    token = net.ask(node, commit_request(offset, **fields))
    net.advance(1_000)
    return str(net.answers[token].topics[0].partitions[0].error_code.name)


def fetch(net: Net, node: int, group: str = "g") -> tuple[str, list[int]]:
    request = offset_fetch.OffsetFetchRequest(
        groups=(offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=None),)
    )
    answer = net.answered(node, request).groups[0]
    return answer.error_code.name, [p.committed_offset for t in answer.topics for p in t.partitions]


def join_request(group: str, member: str = "") -> join_group.JoinGroupRequest:
    return join_group.JoinGroupRequest(
        group_id=group,
        session_timeout=ms(10_000),
        rebalance_timeout=ms(60_000),
        member_id=member,
        protocol_type="consumer",
        protocols=(join_group.JoinGroupRequestProtocol(name="range", metadata=b""),),
    )


def join(net: Net, node: int, group: str, member: str = "") -> Any:
    token = net.ask(node, join_request(group, member))
    net.advance(1_000)
    return net.answers[token]


def sync(net: Net, node: int, group: str, member: str, generation: int, assignment: bytes = b"") -> Any:
    given = (sync_group.SyncGroupRequestAssignment(member_id=member, assignment=assignment),)
    request = sync_group.SyncGroupRequest(group_id=group, generation_id=generation, member_id=member, assignments=given)
    token = net.ask(node, request)
    net.advance(1_000)
    return net.answers[token]


def heartbeat_error(net: Net, node: int, group: str, member: str, generation: int) -> str:
    request = heartbeat.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member)
    return str(net.answered(node, request).error_code.name)


def group_on_killable_node(net: Net) -> tuple[str, int]:
    """A group whose coordinator is not on the controller's node, so that it may be killed; and that coordinator."""
    ready(net)
    coordinators = {f"g{n}": find(net, f"g{n}").node_id for n in range(20)}
    return next((group, node) for group, node in coordinators.items() if node != 1)


def next_coordinator(net: Net, group: str, dead: int) -> int:
    """The group's coordinator once `dead` is fenced."""
    net.crash(dead)
    net.advance(12_000)
    coordinator = find(net, group)
    assert coordinator.error_code is ErrorCode.none
    assert coordinator.node_id != dead
    return int(coordinator.node_id)
