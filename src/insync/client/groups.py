"""Consumer groups: their members and committed offsets, and changing the offsets of a group without members."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from insync.client import apis
from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, RefusedError, UnknownTopicError, raise_for_error
from insync.client.model import Group, Member, TopicPartition
from insync.wire.types import ms

T = TypeVar("T")

GROUP = 0
NO_GENERATION = -1
CONSUMER_PROTOCOL = "consumer"

_I16, _I32 = struct.Struct(">h"), struct.Struct(">i")


async def find_coordinator(client: Client, group: str) -> int:
    values = {"key": group, "key_type": GROUP, "coordinator_keys": [group]}
    answer = await client.call_any(apis.FIND_COORDINATOR, values)
    entry = getattr(answer, "coordinators", (answer,))[0]
    raise_for_error(
        entry.error_code, f"finding the coordinator of group '{group}'", getattr(entry, "error_message", None)
    )
    node: int = entry.node_id
    return node


async def list_groups(client: Client) -> list[Group]:
    """The groups of all brokers: each broker knows those it coordinates."""
    values: dict[str, Any] = {"states_filter": (), "types_filter": ()}

    async def list_at(broker: int) -> list[Group]:
        answer = await client.call_broker(broker, apis.LIST_GROUPS, values)
        raise_for_error(answer.error_code, f"listing the groups of broker {broker}")
        return [_listed(entry, broker) for entry in answer.groups]

    async def attempt() -> list[Group]:
        pages = await asyncio.gather(*(list_at(broker) for broker in sorted(client.brokers)))
        return [group for page in pages for group in page]

    return sorted(await client.retry(attempt), key=lambda group: group.id)


async def describe(client: Client, group: str) -> Group:
    """An unknown group is a `RefusedError` with GROUP_ID_NOT_FOUND."""

    async def ask(node: int) -> Group:
        values = {"groups": [group], "include_authorized_operations": False}
        answer = await client.call_broker(node, apis.DESCRIBE_GROUPS, values)
        (entry,) = answer.groups
        raise_for_error(entry.error_code, f"describing group '{group}'", getattr(entry, "error_message", None))
        return _described(entry, node)

    described = await _at_coordinator(client, group, ask)
    if described.state != "Dead":
        return described
    # DescribeGroups answers Dead for groups of the consumer protocol (KIP-848), and for unknown ones.
    known = {entry.id: entry for entry in await list_groups(client)}
    if group not in known:
        raise RefusedError(ErrorCode.group_id_not_found, f"describing group '{group}'")
    return (
        await _describe_consumer_group(client, group)
        if known[group].kind.lower() == CONSUMER_PROTOCOL
        else known[group]
    )


async def _describe_consumer_group(client: Client, group: str) -> Group:
    """Describe a group of the consumer protocol, whose coordinator assigns partitions itself (KIP-848)."""

    async def ask(node: int) -> Group:
        values = {"group_ids": [group], "include_authorized_operations": False}
        answer = await client.call_broker(node, apis.CONSUMER_GROUP_DESCRIBE, values)
        (entry,) = answer.groups
        raise_for_error(entry.error_code, f"describing group '{group}'", entry.error_message)
        members = tuple(_consumer_group_member(member) for member in entry.members)
        return Group(
            id=group,
            state=entry.group_state,
            protocol_type="consumer",
            coordinator=node,
            kind=CONSUMER_PROTOCOL,
            protocol=entry.assignor_name,
            members=members,
        )

    return await _at_coordinator(client, group, ask)


async def list_committed_offsets(client: Client, group: str) -> dict[TopicPartition, int]:
    """All committed offsets of a group."""

    async def ask(node: int) -> dict[TopicPartition, int]:
        single = {"group_id": group, "topics": None, "require_stable": False}
        values = {**single, "groups": [{**single, "member_id": None, "member_epoch": -1}]}
        answer = await client.call_broker(node, apis.OFFSET_FETCH, values)
        entry = getattr(answer, "groups", (answer,))[0]
        raise_for_error(getattr(entry, "error_code", ErrorCode.none), f"reading the offsets of group '{group}'")
        return {
            (topic.name, p.partition_index): p.committed_offset
            for topic in entry.topics
            for p in topic.partitions
            if p.committed_offset >= 0
        }

    return await _at_coordinator(client, group, ask)


async def commit_offsets(client: Client, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Set the committed offsets of a group without members; `RefusedError` if it has members."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), offset in offsets.items():
        entry = {
            "partition_index": index,
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        topics.setdefault(topic, []).append(entry)
    values = {
        "group_id": group, "generation_id_or_member_epoch": NO_GENERATION, "member_id": "", "group_instance_id": None,
        "retention_time": ms(-1), "topics": [{"name": name, "partitions": p} for name, p in topics.items()],
    }  # fmt: skip

    async def ask(node: int) -> None:
        answer = await client.call_broker(node, apis.OFFSET_COMMIT, values)
        for topic in answer.topics:
            for p in topic.partitions:
                if p.error_code is ErrorCode.unknown_topic_or_partition:
                    raise UnknownTopicError(topic.name)
                raise_for_error(
                    p.error_code, f"setting the offset of group '{group}' on {topic.name}-{p.partition_index}"
                )

    await _at_coordinator(client, group, ask)


async def delete(client: Client, group: str) -> None:
    async def ask(node: int) -> None:
        answer = await client.call_broker(node, apis.DELETE_GROUPS, {"groups_names": [group]})
        for result in answer.results:
            raise_for_error(result.error_code, f"deleting group '{group}'")

    await _at_coordinator(client, group, ask)


async def _at_coordinator(client: Client, group: str, ask: Callable[[int], Awaitable[T]]) -> T:
    async def attempt() -> T:
        return await ask(await find_coordinator(client, group))

    return await client.retry(attempt)


def _listed(entry: Any, broker: int) -> Group:
    return Group(
        id=entry.group_id,
        state=getattr(entry, "group_state", ""),
        protocol_type=entry.protocol_type,
        coordinator=broker,
        kind=getattr(entry, "group_type", "classic"),
    )


def _described(entry: Any, node: int) -> Group:
    return Group(
        id=entry.group_id,
        state=entry.group_state,
        protocol_type=entry.protocol_type,
        coordinator=node,
        protocol=entry.protocol_data,
        members=tuple(_member(member, entry.protocol_type) for member in entry.members),
    )


def _member(member: Any, protocol_type: str) -> Member:
    assigned = parse_assignment(bytes(member.member_assignment)) if protocol_type == "consumer" else ()
    return Member(
        id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance=getattr(member, "group_instance_id", None),
        assigned=tuple(assigned),
    )


def _consumer_group_member(member: Any) -> Member:
    assigned = [(topic.topic_name, index) for topic in member.assignment.topic_partitions for index in topic.partitions]
    return Member(
        id=member.member_id,
        client_id=member.client_id,
        host=member.client_host,
        instance=member.instance_id,
        assigned=tuple(assigned),
    )


def parse_assignment(data: bytes) -> Sequence[TopicPartition]:
    """Parse a member's assignment: its version, then topics with their partitions."""
    if len(data) < 6:
        return ()
    assigned: list[TopicPartition] = []
    try:
        (topics,), pos = _I32.unpack_from(data, 2), 6
        for _ in range(topics):
            (length,) = _I16.unpack_from(data, pos)
            name = data[pos + 2 : pos + 2 + length].decode()
            pos += 2 + length
            (count,) = _I32.unpack_from(data, pos)
            assigned += [(name, _I32.unpack_from(data, pos + 4 + 4 * i)[0]) for i in range(count)]
            pos += 4 + 4 * count
    except (struct.error, UnicodeDecodeError) as error:
        raise ClientError(f"the assignment of a group member is malformed: {error}") from None
    return tuple(assigned)


def compute_lag(committed_offset: int | None, end: int) -> int | None:
    """Records that the group has not read yet; None if it has not committed."""
    return None if committed_offset is None or end < 0 else max(0, end - committed_offset)
