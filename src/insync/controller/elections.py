"""Elections on request, and leadership going back to preferred replicas (E1, E6, E7)."""

from __future__ import annotations

from collections import deque
from typing import Any

from insync.controller.context import Context
from insync.controller.decision import Decision, Slices
from insync.controller.partition_change import Election
from insync.metadata.partition import NO_LEADER, Partition, PartitionKey
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import elect_leaders
from insync.wire.types import NO_DURATION

_TYPES = {0: Election.PREFERRED, 1: Election.UNCLEAN}

MAX_REBALANCED = 1_000
"""No more partitions than this change their leader in one rebalance."""
MAX_SCANNED = 2_000
"""No more partitions without a leader than this are looked at in one step."""


def elect(ctx: Context, request: Any, now: int) -> Slices:
    election = _TYPES.get(request.election_type)
    if election is None:
        yield _decision(ErrorCode.invalid_request, [], {})
        return
    made: list[records.MetadataRecord] = []
    results: dict[str, list[Any]] = {}
    for number, (topic, index) in enumerate(_asked_for(ctx, request, election), 1):
        error = _one(ctx, ctx.image.find(topic, index), election, made)
        if request.topic_partitions is not None or error is not ErrorCode.election_not_needed:
            results.setdefault(topic, []).append(
                elect_leaders.PartitionResult(partition_id=index, error_code=error, error_message=None)
            )
        if number % ctx.slice_records == 0:
            yield Decision(records=tuple(made))
            ctx.cause = "an election is asked for"
            made = []
    yield _decision(ErrorCode.none, made, results)


def _asked_for(ctx: Context, request: Any, election: Election) -> list[tuple[str, int]]:
    if request.topic_partitions is None:
        partitions = ctx.image.leaderless() if election is Election.UNCLEAN else ctx.image.all_partitions()
        return [(p.topic, p.index) for p in partitions if not _is_settled(p, election)]
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


def rebalance(ctx: Context) -> Slices:
    """Leadership goes back to the first replica of each assignment where that one is a candidate again."""
    keys = [partition.key for partition in ctx.image.all_partitions() if _is_led_by_another(partition)]
    made: list[records.MetadataRecord] = []
    for key in keys[:MAX_REBALANCED]:
        partition = ctx.image.partition(key)
        if partition is None or not _is_led_by_another(partition):
            continue  # changed since an earlier slice
        ctx.cause = "preferred leaders lead again"
        record = ctx.build(ctx.builder(partition, election=Election.PREFERRED))
        if record is not None:
            made.append(record)
        if len(made) >= ctx.slice_records:
            yield Decision(records=tuple(made))
            made = []
    if made:
        yield Decision(records=tuple(made))


def _is_led_by_another(partition: Partition) -> bool:
    """Another replica leads than the preferred one, which is in the ISR."""
    preferred = partition.replicas[0]
    return partition.leader not in (NO_LEADER, preferred) and preferred in partition.isr


def elect_leaderless(ctx: Context, keys: deque[PartitionKey]) -> Decision | None:
    """E1, E6: a candidate appeared, or `unclean.leader.election.enable` was turned on, while there was no leader.

    One slice at most; `keys` are the partitions that are left to look at.
    """
    made: list[records.MetadataRecord] = []
    for _ in range(min(len(keys), MAX_SCANNED)):
        partition = ctx.image.partition(keys.popleft())
        if partition is None or partition.leader != NO_LEADER:
            continue
        if not ctx.unclean_election(partition.topic) and not _has_candidate(ctx, partition):
            continue
        record = ctx.build(ctx.builder(partition))
        if record is not None:
            made.append(record)
        if len(made) >= ctx.slice_records:
            break
    return Decision(records=tuple(made)) if made else None


def _has_candidate(ctx: Context, partition: Partition) -> bool:
    """E2"""
    return any(ctx.may_lead(replica) for replica in partition.isr or partition.elr)


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
