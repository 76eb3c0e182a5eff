"""Committed offsets: commit, fetch, delete and expire.

A commit counts once it is committed to the log. Commits reach the cache in the order of the log, so the cache holds
what a new coordinator would load (G2), even if the client was answered before its commit was replicated.

Notes: offsets_expired(group, count).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from insync.groups import memory_budget, records
from insync.groups.group import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, Group, TopicPartition
from insync.groups.records import CommittedOffset, OffsetKey
from insync.groups.shard import OnStored, Shard
from insync.sansio import Client
from insync.wire.batch import NewRecord
from insync.wire.errors import ErrorCode
from insync.wire.messages import offset_commit, offset_fetch
from insync.wire.types import NO_DURATION

T = TypeVar("T")

LATEST = 2**63 - 1
GROUP_ID_NOT_FOUND_FROM = 9
"""The first OffsetCommit version with this error; older clients get ILLEGAL_GENERATION."""


# --- commit ----------------------------------------------------------------------------------------------------------


def commit(
    shard: Shard,
    request: offset_commit.OffsetCommitRequest,
    partitions: dict[TopicPartition, ErrorCode],
    token: int,
    client: Client,
    now: int,
) -> None:
    """`partitions` are those in the request, with an error where one is already known."""
    group = shard.groups.get(request.group_id)
    if group is None and request.generation_id_or_member_epoch < 0:
        if not shard.memory.has_space_for_new_member(memory_budget.GROUP_BYTES):
            full = ErrorCode.coordinator_not_available
            shard.out.reply(token, commit_response(request, dict.fromkeys(partitions, full)))
            return
        group = shard.create_group(request.group_id)  # without members: a consumer that assigns itself partitions
    error = _commit_error(group, request, client)
    if group is None or error is not ErrorCode.none:
        shard.out.reply(token, commit_response(request, dict.fromkeys(partitions, error)))
        return
    if request.member_id in group.members and group.state in (STABLE, PREPARING):
        group.members[request.member_id].extend_session(now)
    new_offsets = _read_offsets(shard, request, partitions, now)
    if not new_offsets:
        shard.out.reply(token, commit_response(request, partitions))
        shard.forget_if_unused(group)
        return

    def answer(error: ErrorCode, _now: int) -> None:
        shard.out.reply(token, commit_response(request, partitions | dict.fromkeys(new_offsets, error)))

    _store(shard, group, new_offsets, answer, now)


def _commit_error(group: Group | None, request: offset_commit.OffsetCommitRequest, client: Client) -> ErrorCode:
    """Safeguard, G3: members commit for their own generation only, and no other client while there are members."""
    if group is None:
        known = client.version < 0 or client.version >= GROUP_ID_NOT_FOUND_FROM
        return ErrorCode.group_id_not_found if known else ErrorCode.illegal_generation
    generation = request.generation_id_or_member_epoch
    if group.state == DEAD:
        return ErrorCode.coordinator_not_available
    if generation < 0 and group.state == EMPTY:
        return ErrorCode.none
    if generation < 0 and not request.member_id and request.group_instance_id is None:
        return ErrorCode.unknown_member_id
    error = group.member_error(request.member_id, request.group_instance_id)
    if error is ErrorCode.none:
        error = group.generation_error(generation)
    if error is ErrorCode.none and group.state == COMPLETING:
        error = ErrorCode.rebalance_in_progress
    return error


def _read_offsets(
    shard: Shard, request: offset_commit.OffsetCommitRequest, partitions: dict[TopicPartition, ErrorCode], now: int
) -> dict[TopicPartition, CommittedOffset]:
    """The offsets that can be stored; `partitions` gets the error of those that cannot."""
    new_offsets: dict[TopicPartition, CommittedOffset] = {}
    wall_ms = shard.wall_clock_ms(now)
    for topic in request.topics:
        for request_partition in topic.partitions:
            partition = (topic.name, request_partition.partition_index)
            metadata = request_partition.committed_metadata or ""
            if partitions[partition] is not ErrorCode.none:
                continue
            if len(metadata) > shard.config.offset_metadata_max_bytes or not records.fits(metadata):
                partitions[partition] = ErrorCode.offset_metadata_too_large
                continue
            new_offsets[partition] = CommittedOffset(
                offset=request_partition.committed_offset,
                leader_epoch=request_partition.committed_leader_epoch,
                metadata=metadata,
                commit_timestamp=wall_ms,
                expire_timestamp=_expiry(request, wall_ms),
            )
    return new_offsets


def _expiry(request: offset_commit.OffsetCommitRequest, wall_ms: int) -> int:
    """Old clients may choose how long an offset is kept; others leave it to the broker."""
    retention_ms: int = getattr(request, "retention_ms", -1)  # see wire.old_requests
    return min(wall_ms + retention_ms, LATEST) if retention_ms >= 0 else -1


def _store(
    shard: Shard, group: Group, new_offsets: dict[TopicPartition, CommittedOffset], then: OnStored, now: int
) -> None:
    for partition in new_offsets:
        group.pending_commits[partition] = group.pending_commits.get(partition, 0) + 1

    def apply() -> None:
        for partition, offset in new_offsets.items():
            _end_pending(group, partition)
            group.offsets[partition] = offset

    def discard() -> None:
        for partition in new_offsets:
            _end_pending(group, partition)

    def on_stored(error: ErrorCode, now: int) -> None:
        then(error, now)
        shard.forget_if_unused(group)

    new_records = [
        NewRecord(records.offset_key(OffsetKey(group.id, *partition)), records.offset_value(offset))
        for partition, offset in new_offsets.items()
    ]
    shard.store(new_records, on_stored, now, apply=apply, discard=discard)


def _end_pending(group: Group, partition: TopicPartition) -> None:
    group.pending_commits[partition] -= 1
    if not group.pending_commits[partition]:
        del group.pending_commits[partition]


def commit_response(
    request: offset_commit.OffsetCommitRequest, partitions: dict[TopicPartition, ErrorCode]
) -> offset_commit.OffsetCommitResponse:
    topics = list_errors(
        request.topics, partitions, offset_commit.OffsetCommitResponseTopic, offset_commit.OffsetCommitResponsePartition
    )
    return offset_commit.OffsetCommitResponse(throttle_time=NO_DURATION, topics=topics)


def list_errors(
    topics: Iterable[Any],
    errors: dict[TopicPartition, ErrorCode],
    topic_type: Callable[..., T],
    partition_type: Callable[..., object],
) -> tuple[T, ...]:
    """The topics of a response that has an error for each partition of the request."""
    return tuple(
        topic_type(
            name=topic.name,
            partitions=tuple(
                partition_type(
                    partition_index=partition.partition_index, error_code=errors[topic.name, partition.partition_index]
                )
                for partition in topic.partitions
            ),
        )
        for topic in topics
    )


# --- fetch -----------------------------------------------------------------------------------------------------------


def fetch(shard: Shard, request: offset_fetch.OffsetFetchRequestGroup) -> offset_fetch.OffsetFetchResponseGroup:
    """W21: a partition without a committed offset, or of an unknown group, has offset -1 and no error."""
    group = shard.groups.get(request.group_id)
    offsets = group.offsets if group is not None and group.state != DEAD else {}
    indexes_by_topic = (
        _group_by_topic(offsets)
        if request.topics is None
        else {topic.name: topic.partition_indexes for topic in request.topics}
    )
    topics = tuple(
        offset_fetch.OffsetFetchResponseTopics(
            name=topic, partitions=tuple(_response_partition(index, offsets.get((topic, index))) for index in indexes)
        )
        for topic, indexes in indexes_by_topic.items()
    )
    return offset_fetch.OffsetFetchResponseGroup(group_id=request.group_id, topics=topics, error_code=ErrorCode.none)


def _group_by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    indexes: dict[str, list[int]] = {}
    for topic, index in partitions:
        indexes.setdefault(topic, []).append(index)
    return indexes


def _response_partition(index: int, committed: CommittedOffset | None) -> offset_fetch.OffsetFetchResponsePartitions:
    return offset_fetch.OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=committed.offset if committed else -1,
        committed_leader_epoch=committed.leader_epoch if committed else -1,
        metadata=committed.metadata if committed else "",
        error_code=ErrorCode.none,
    )


# --- delete and expire -----------------------------------------------------------------------------------------------


def delete(shard: Shard, group: Group, partitions: Iterable[TopicPartition], then: OnStored, now: int) -> None:
    """Write tombstones for those of `partitions` that have an offset, or are about to have one."""
    deleted = [
        partition for partition in partitions if partition in group.offsets or partition in group.pending_commits
    ]

    def apply() -> None:
        for partition in deleted:
            group.offsets.pop(partition, None)

    if deleted:
        shard.store(tombstones(group, deleted), then, now, apply=apply)
    else:
        then(ErrorCode.none, now)


def tombstones(group: Group, partitions: Iterable[TopicPartition]) -> list[NewRecord]:
    return [NewRecord(records.offset_key(OffsetKey(group.id, *partition)), None) for partition in partitions]


def expire(shard: Shard, group: Group, now: int) -> None:
    """Delete offsets that were unused for the retention time. It counts from the commit if there is no group or no
    member subscribes to the topic, else from when the group became empty."""
    wall_ms = shard.wall_clock_ms(now)
    expired = [
        partition for partition, offset in group.offsets.items() if is_expired(shard, group, partition, offset, wall_ms)
    ]
    if expired:
        shard.out.note("offsets_expired", group=group.id, count=len(expired))
        delete(shard, group, expired, lambda _error, _now: None, now)


def is_expired(shard: Shard, group: Group, partition: TopicPartition, offset: CommittedOffset, wall_ms: int) -> bool:
    if partition in group.pending_commits or group.subscribes(partition[0]):
        return False
    if offset.expire_timestamp >= 0:
        return wall_ms >= offset.expire_timestamp
    if group.protocol_type is None or (group.state == STABLE and group.subscribed_topics is not None):
        since_ms = offset.commit_timestamp
    elif group.state == EMPTY:
        since_ms = max(group.state_since_ms, offset.commit_timestamp)
    else:
        return False
    return wall_ms - since_ms >= shard.config.offsets_retention_ms
