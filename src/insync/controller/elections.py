"""Elections on request, and leadership going back to preferred replicas (E1, E6, E7)."""

from __future__ import annotations

from typing import Any

from insync.controller.context import Context
from insync.controller.decision import Decision
from insync.controller.partition_change import Election
from insync.metadata.partition import NO_LEADER, Partition
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import elect_leaders
from insync.wire.types import NO_DURATION

_TYPES = {0: Election.PREFERRED, 1: Election.UNCLEAN}

MAX_REBALANCED = 1_000
"""No more partitions than this change their leader in one batch of a rebalance."""


def elect(ctx: Context, request: Any, now: int) -> Decision:
    election = _TYPES.get(request.election_type)
    if election is None:
        return _decision(ErrorCode.invalid_request, [], {})
    made: list[records.MetadataRecord] = []
    results: dict[str, list[Any]] = {}
    for topic, index in _asked_for(ctx, request):
        partition = ctx.image.find(topic, index)
        error = _one(ctx, partition, election, made)
        if request.topic_partitions is None and error is ErrorCode.election_not_needed:
            continue
        results.setdefault(topic, []).append(
            elect_leaders.PartitionResult(partition_id=index, error_code=error, error_message=None)
        )
    return _decision(ErrorCode.none, made, results)


def _asked_for(ctx: Context, request: Any) -> list[tuple[str, int]]:
    if request.topic_partitions is None:
        return [(partition.topic, partition.index) for partition in ctx.image.all_partitions()]
    named = [(entry.topic, index) for entry in request.topic_partitions for index in entry.partitions]
    return list(dict.fromkeys(named))


def _one(
    ctx: Context, partition: Partition | None, election: Election, made: list[records.MetadataRecord]
) -> ErrorCode:
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if _is_settled(partition, election):
        return ErrorCode.election_not_needed
    builder = ctx.builder(partition, election=election)
    record = ctx.build(builder)
    if record is None:
        preferred = election is Election.PREFERRED
        return ErrorCode.preferred_leader_not_available if preferred else ErrorCode.eligible_leaders_not_available
    made.append(record)
    return ErrorCode.none


def _is_settled(partition: Partition, election: Election) -> bool:
    if election is Election.PREFERRED:
        return partition.leader == partition.replicas[0]
    return partition.leader != NO_LEADER


def rebalance(ctx: Context) -> Decision | None:
    """Leadership goes back to the first replica of each assignment where that one is a candidate again."""
    made: list[records.MetadataRecord] = []
    for partition in ctx.image.all_partitions():
        if len(made) >= MAX_REBALANCED:
            break
        if partition.leader in (NO_LEADER, partition.replicas[0]) or partition.replicas[0] not in partition.isr:
            continue
        record = ctx.build(ctx.builder(partition, election=Election.PREFERRED))
        if record is not None:
            made.append(record)
    return Decision(records=tuple(made)) if made else None


def elect_uncleanly_where_allowed(ctx: Context) -> Decision | None:
    """E6: `unclean.leader.election.enable` was turned on, or a replica came back, while there was no leader."""
    made: list[records.MetadataRecord] = []
    for partition in ctx.image.leaderless():
        if ctx.unclean_election(partition.topic):
            record = ctx.build(ctx.builder(partition, election=Election.UNCLEAN))
            if record is not None:
                made.append(record)
    return Decision(records=tuple(made)) if made else None


def _decision(error: ErrorCode, made: list[records.MetadataRecord], results: dict[str, list[Any]]) -> Decision:
    response = elect_leaders.ElectLeadersResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        replica_election_results=tuple(
            elect_leaders.ReplicaElectionResult(topic=topic, partition_result=tuple(entries))
            for topic, entries in results.items()
        ),
    )
    return Decision(records=tuple(made), response=response)
