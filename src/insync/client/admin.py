"""Reassignments, elections and the metadata quorum."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from insync.client import apis
from insync.client.client import Client
from insync.client.connection import Connection
from insync.client.errors import ClientError, ErrorCode, raise_for_error
from insync.client.model import QuorumReplica, QuorumState, Reassignment, TopicPartition
from insync.wire.types import METADATA_TOPIC, ms

PREFERRED, UNCLEAN = 0, 1

Results = dict[TopicPartition, tuple[ErrorCode, str]]
"""The error code and the broker's message of each partition."""


async def reassign(client: Client, targets: Mapping[TopicPartition, Sequence[int] | None]) -> Results:
    """R1, R5: start to move partitions to their targets; None cancels. Each partition succeeds or fails by itself."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for (topic, index), replicas in targets.items():
        topics.setdefault(topic, []).append({"partition_index": index, "replicas": replicas})
    values = {
        "timeout": ms(int(client.timeout_s * 1000)),
        "allow_replication_factor_change": True,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
    answer = await _ask_controller(client, apis.ALTER_REASSIGNMENTS, values, "changing reassignments")
    return {
        (topic.name, p.partition_index): (p.error_code, p.error_message or "")
        for topic in answer.responses
        for p in topic.partitions
    }


async def list_reassignments(client: Client) -> list[Reassignment]:
    """R6: all reassignments in progress."""
    values = {"timeout": ms(int(client.timeout_s * 1000)), "topics": None}
    answer = await _ask_controller(client, apis.LIST_REASSIGNMENTS, values, "listing reassignments")
    reassignments = [
        Reassignment(
            topic=topic.name,
            partition=p.partition_index,
            replicas=tuple(p.replicas),
            adding=tuple(p.adding_replicas),
            removing=tuple(p.removing_replicas),
        )
        for topic in answer.topics
        for p in topic.partitions
    ]
    return sorted(reassignments, key=lambda r: (r.topic, r.partition))


async def elect_leaders(client: Client, kind: int, partitions: Sequence[TopicPartition] | None) -> Results:
    """E1: elect leaders of these partitions, or of all with None."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions or ():
        topics.setdefault(topic, []).append(index)
    entries = [{"topic": topic, "partitions": indexes} for topic, indexes in topics.items()]
    values = {
        "election_type": kind,
        "topic_partitions": None if partitions is None else entries,
        "timeout": ms(int(client.timeout_s * 1000)),
    }
    answer = await _ask_controller(client, apis.ELECT_LEADERS, values, "electing leaders")
    return {
        (result.topic, p.partition_id): (p.error_code, p.error_message or "")
        for result in answer.replica_election_results
        for p in result.partition_result
    }


async def _ask_controller(client: Client, api: apis.Api, values: Mapping[str, Any], doing: str) -> Any:
    """The answer, once it has no error."""

    async def attempt() -> Any:
        answer = await client.call_controller(api, values)
        raise_for_error(answer.error_code, doing, getattr(answer, "error_message", None))
        return answer

    return await client.retry(attempt)


async def describe_quorum(client: Client) -> QuorumState:
    """The metadata quorum as its leader sees it. A broker forwards the request, or answers that it does not lead."""

    async def attempt() -> Any:
        partition = await _describe_quorum_at(await client.any_connection())
        for broker in sorted(client.brokers):
            if partition.error_code is not ErrorCode.not_leader_or_follower:
                break
            partition = await _describe_quorum_at(await client.broker_connection(broker))
        raise_for_error(partition.error_code, "describing the quorum", getattr(partition, "error_message", None))
        return partition

    entry = await client.retry(attempt)
    return QuorumState(
        leader=entry.leader_id,
        epoch=entry.leader_epoch,
        high_watermark=entry.high_watermark,
        voters=tuple(_replica(state) for state in entry.current_voters),
        observers=tuple(_replica(state) for state in entry.observers),
    )


async def _describe_quorum_at(connection: Connection) -> Any:
    values = {"topics": [{"topic_name": METADATA_TOPIC, "partitions": [{"partition_index": 0}]}]}
    answer = await connection.call(apis.DESCRIBE_QUORUM, values)
    raise_for_error(answer.error_code, "describing the quorum", getattr(answer, "error_message", None))
    partitions = [p for topic in answer.topics for p in topic.partitions]
    if not partitions:
        raise ClientError(f"describing the quorum: the answer of {connection.address} is empty")
    return partitions[0]


def _replica(state: Any) -> QuorumReplica:
    return QuorumReplica(
        id=state.replica_id,
        log_end_offset=state.log_end_offset,
        last_fetch_ms=getattr(state, "last_fetch_timestamp", -1),
        last_caught_up_ms=getattr(state, "last_caught_up_timestamp", -1),
    )
