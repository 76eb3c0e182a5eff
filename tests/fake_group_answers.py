"""The answers of a FakeCluster's brokers about consumer groups; the last live broker coordinates all groups."""

from __future__ import annotations

from insync.sansio import Message
from insync.wire.errors import ErrorCode
from tests.fake_answers import NONE, Fields, answers
from tests.fake_state import FakeGroup, FakeState


@answers("FindCoordinator")
def find_coordinator(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    node = state.live[-1]
    address = {"node_id": node, "host": "127.0.0.1", "port": state.ports[node]}
    if version < 4:
        return address
    coordinator = {**address, "key": request.coordinator_keys[0], "error_code": NONE, "error_message": None}
    return {"coordinators": [coordinator]}


@answers("ListGroups")
def list_groups(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    if broker != state.live[-1]:
        return {"groups": []}
    groups = [
        {"group_id": name, "protocol_type": "consumer", "group_state": group.state, "group_type": group.group_type}
        for name, group in state.groups.items()
    ]
    return {"groups": groups}


@answers("DescribeGroups")
def describe_groups(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    (name,) = request.groups
    group = state.groups.get(name)
    if group is not None and group.group_type != "classic":
        group = None
    described = {
        "error_code": NONE if broker == state.live[-1] else ErrorCode.not_coordinator, "error_message": None,
        "group_id": name, "group_state": group.state if group else "Dead", "protocol_type": "consumer",
        "protocol_data": "range", "members": group.members if group else [],
    }  # fmt: skip
    return {"groups": [described]}


@answers("ConsumerGroupDescribe")
def consumer_group_describe(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    (name,) = request.group_ids
    group = state.groups[name]
    described = {
        "error_code": NONE if broker == state.live[-1] else ErrorCode.not_coordinator, "error_message": None,
        "group_id": name, "group_state": group.state, "group_epoch": 1, "assignment_epoch": 1,
        "assignor_name": "uniform", "members": group.members,
    }  # fmt: skip
    return {"groups": [described]}


@answers("OffsetFetch")
def offset_fetch(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    name = request.groups[0].group_id if version >= 8 else request.group_id
    offsets = state.groups[name].offsets if name in state.groups else {}
    topics = [
        {"name": t, "partitions": [{"partition_index": p, "committed_offset": o, "metadata": "", "error_code": NONE}]}
        for (t, p), o in offsets.items()
    ]
    return {"topics": topics, "groups": [{"group_id": name, "topics": topics}]}


@answers("OffsetCommit")
def offset_commit(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    group = state.groups.setdefault(request.group_id, FakeGroup())
    code = ErrorCode.unknown_member_id if group.members else NONE
    topics = []
    for topic in request.topics:
        for p in topic.partitions:
            if code is NONE:
                group.offsets[topic.name, p.partition_index] = p.committed_offset
        lines = [{"partition_index": p.partition_index, "error_code": code} for p in topic.partitions]
        topics.append({"name": topic.name, "partitions": lines})
    return {"topics": topics}


@answers("DeleteGroups")
def delete_groups(state: FakeState, broker: int, version: int, request: Message) -> Fields:
    (name,) = request.groups_names
    group = state.groups.get(name)
    code = ErrorCode.group_id_not_found if group is None else ErrorCode.non_empty_group if group.members else NONE
    if code is NONE:
        del state.groups[name]
    return {"results": [{"group_id": name, "error_code": code}]}
