"""Elections on request, and leadership going back to preferred replicas (E1, E6, E7)."""

from __future__ import annotations

from collections import deque

from insync.controller.decision import Decision, Slices
from insync.controller.partition_change import Election
from insync.controller.state import ControllerState
from insync.metadata.partition import NO_LEADER, Partition, PartitionKey
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import elect_leaders
from insync.wire.types import NO_DURATION

_TYPES = {0: Election.PREFERRED, 1: Election.UNCLEAN}

MAX_REBALANCED = 1_000
"""No more partitions than this change their leader in one rebalance."""
MAX_SCANNED = 2_000
"""No more partitions without a leader than this are visited in one step."""


def elect(state: ControllerState, request: elect_leaders.ElectLeadersRequest, now: int) -> Slices:
    election = _TYPES.get(request.election_type)
    if election is None:
        yield _make_decision(ErrorCode.invalid_request, [], {})
        return
    made: list[records.MetadataRecord] = []
    results: dict[str, list[elect_leaders.PartitionResult]] = {}
    for number, (topic, index) in enumerate(_requested_partitions(state, request, election), 1):
        error = _elect_partition(state, state.image.find(topic, index), election, made)
        if request.topic_partitions is not None or error is not ErrorCode.election_not_needed:
            results.setdefault(topic, []).append(
                elect_leaders.PartitionResult(partition_id=index, error_code=error, error_message=None)
            )
        if number % state.config.max_slice_records == 0:
            yield Decision(records=tuple(made))
            made = []
    yield _make_decision(ErrorCode.none, made, results)


def _requested_partitions(
    state: ControllerState, request: elect_leaders.ElectLeadersRequest, election: Election
) -> list[tuple[str, int]]:
    if request.topic_partitions is None:
        partitions = state.image.leaderless() if election is Election.UNCLEAN else state.image.all_partitions()
        return [(p.topic, p.index) for p in partitions if not _has_wanted_leader(p, election)]
    named = [(entry.topic, index) for entry in request.topic_partitions for index in entry.partitions]
    return list(dict.fromkeys(named))


def _elect_partition(
    state: ControllerState, partition: Partition | None, election: Election, made: list[records.MetadataRecord]
) -> ErrorCode:
    if partition is None:
        return ErrorCode.unknown_topic_or_partition
    if _has_wanted_leader(partition, election):
        return ErrorCode.election_not_needed
    record = state.build(state.change(partition, election=election), "an election is asked for")
    if record is None:
        is_preferred = election is Election.PREFERRED
        return ErrorCode.preferred_leader_not_available if is_preferred else ErrorCode.eligible_leaders_not_available
    made.append(record)
    return ErrorCode.none


def _has_wanted_leader(partition: Partition, election: Election) -> bool:
    if election is Election.PREFERRED:
        return partition.leader == partition.replicas[0]
    return partition.leader != NO_LEADER


def rebalance(state: ControllerState) -> Slices:
    """Give leadership back to the first replica of each assignment where that is a candidate again."""
    keys = [partition.key for partition in state.image.all_partitions() if _can_be_rebalanced(partition)]
    made: list[records.MetadataRecord] = []
    for key in keys[:MAX_REBALANCED]:
        partition = state.image.partition(key)
        if partition is None or not _can_be_rebalanced(partition):
            continue  # changed since an earlier slice
        builder = state.change(partition, election=Election.PREFERRED)
        record = state.build(builder, "preferred leaders lead again")
        if record is not None:
            made.append(record)
        if len(made) >= state.config.max_slice_records:
            yield Decision(records=tuple(made))
            made = []
    if made:
        yield Decision(records=tuple(made))


def _can_be_rebalanced(partition: Partition) -> bool:
    """The preferred replica is in the ISR, but another one leads."""
    preferred = partition.replicas[0]
    return partition.leader not in (NO_LEADER, preferred) and preferred in partition.isr


def elect_leaderless(state: ControllerState, keys: deque[PartitionKey]) -> Decision | None:
    """E1, E6: a candidate appeared, or `unclean.leader.election.enable` was turned on, while there was no leader.

    One slice at most; `keys` are the partitions that have not been visited.
    """
    made: list[records.MetadataRecord] = []
    for _ in range(min(len(keys), MAX_SCANNED)):
        partition = state.image.partition(keys.popleft())
        if partition is None or partition.leader != NO_LEADER:
            continue
        if not state.allows_unclean_election(partition.topic) and not _has_candidate(state, partition):
            continue
        record = state.build(state.change(partition), "there is no other leader")
        if record is not None:
            made.append(record)
        if len(made) >= state.config.max_slice_records:
            break
    return Decision(records=tuple(made)) if made else None


def _has_candidate(state: ControllerState, partition: Partition) -> bool:
    """E2"""
    return any(state.can_lead(replica) for replica in partition.isr or partition.elr)


def _make_decision(
    error: ErrorCode, made: list[records.MetadataRecord], results: dict[str, list[elect_leaders.PartitionResult]]
) -> Decision:
    response = elect_leaders.ElectLeadersResponse(
        throttle_time=NO_DURATION,
        error_code=error,
        replica_election_results=tuple(
            elect_leaders.ReplicaElectionResult(topic=topic, partition_result=tuple(partitions))
            for topic, partitions in results.items()
        ),
    )
    return Decision(records=tuple(made), response=response)
