"""What the brokers of a FakeCluster answer about consumer groups; the last live broker coordinates all of them."""

from __future__ import annotations

from typing import Any

from insync.wire.errors import ErrorCode
from tests.fake_answers import NONE, answers


@answers("FindCoordinator")
def find_coordinator(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    node = cluster.live[-1]
    found = {"node_id": node, "host": "127.0.0.1", "port": cluster.ports[node]}
    if version < 4:
        return found
    one = {**found, "key": request.coordinator_keys[0], "error_code": NONE, "error_message": None}
    return {"coordinators": [one]}


@answers("ListGroups")
def list_groups(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    if broker != cluster.live[-1]:
        return {"groups": []}
    groups = [
        {"group_id": name, "protocol_type": "consumer", "group_state": group.state, "group_type": group.kind}
        for name, group in cluster.groups.items()
    ]
    return {"groups": groups}


@answers("DescribeGroups")
def describe_groups(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    (name,) = request.groups
    group = cluster.groups.get(name)
    if group is not None and group.kind != "classic":
        group = None
    found = {
        "error_code": NONE if broker == cluster.live[-1] else ErrorCode.not_coordinator, "error_message": None,
        "group_id": name, "group_state": group.state if group else "Dead", "protocol_type": "consumer",
        "protocol_data": "range", "members": group.members if group else [],
    }  # fmt: skip
    return {"groups": [found]}


@answers("ConsumerGroupDescribe")
def consumer_group_describe(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    (name,) = request.group_ids
    group = cluster.groups[name]
    found = {
        "error_code": NONE if broker == cluster.live[-1] else ErrorCode.not_coordinator, "error_message": None,
        "group_id": name, "group_state": group.state, "group_epoch": 1, "assignment_epoch": 1,
        "assignor_name": "uniform", "members": group.members,
    }  # fmt: skip
    return {"groups": [found]}


@answers("OffsetFetch")
def offset_fetch(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    name = request.groups[0].group_id if version >= 8 else request.group_id
    offsets = cluster.groups[name].offsets if name in cluster.groups else {}
    topics = [
        {"name": t, "partitions": [{"partition_index": p, "committed_offset": o, "metadata": "", "error_code": NONE}]}
        for (t, p), o in offsets.items()
    ]
    return {"topics": topics, "groups": [{"group_id": name, "topics": topics}]}


@answers("OffsetCommit")
def offset_commit(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    group = cluster.groups.setdefault(request.group_id, cluster.new_group())
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
def delete_groups(cluster: Any, broker: int, version: int, request: Any) -> dict[str, Any]:
    (name,) = request.groups_names
    group = cluster.groups.get(name)
    code = ErrorCode.group_id_not_found if group is None else ErrorCode.non_empty_group if group.members else NONE
    if code is NONE:
        del cluster.groups[name]
    return {"results": [{"group_id": name, "error_code": code}]}
