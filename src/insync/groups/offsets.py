"""Committed offsets: stored, told, deleted and expired.

A commit counts once it is committed to the log. Commits reach the cache in the order of the log, so the cache holds
what a new coordinator would load (G2), also where the client was answered before its commit was replicated.

Notes: offsets_expired(group, count).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from insync.groups import records
from insync.groups import room as rooms
from insync.groups.group import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, Group, Place
from insync.groups.records import CommittedOffset, OffsetKey
from insync.sansio import Client, Message
from insync.wire.batch import NewRecord
from insync.wire.errors import ErrorCode
from insync.wire.messages import offset_commit, offset_fetch
from insync.wire.types import NO_DURATION

if TYPE_CHECKING:
    from insync.groups.shard import OnStored, Shard

LATEST = 2**63 - 1
GROUP_ID_NOT_FOUND_FROM = 9
"""The first OffsetCommit that knows the error; older clients are told of a wrong generation."""


# --- commit ----------------------------------------------------------------------------------------------------------


def commit(
    shard: Shard, request: Message, places: dict[Place, ErrorCode], token: int, client: Client, now: int
) -> None:
    """`places` are the partitions asked for, with an error where one is known already."""
    group = shard.groups.get(request.group_id)
    if group is None and request.generation_id_or_member_epoch < 0:
        if not shard.room.has_for_newcomer(rooms.GROUP):
            full = ErrorCode.coordinator_not_available
            shard.out.reply(token, committed(request, dict.fromkeys(places, full)))
            return
        group = shard.create(request.group_id)  # no members: offsets that somebody keeps here
    error = _commit_error(group, request, client)
    if group is None or error is not ErrorCode.none:
        shard.out.reply(token, committed(request, dict.fromkeys(places, error)))
        return
    if request.member_id in group.members and group.state in (STABLE, PREPARING):
        group.members[request.member_id].heard(now)
    made = _judge(shard, request, places, now)
    if not made:
        shard.out.reply(token, committed(request, places))
        shard.forget_if_void(group)
        return
    _store(shard, group, made, lambda error, _now: _answer(shard, request, places, made, error, token), now)


def _answer(
    shard: Shard,
    request: Message,
    places: dict[Place, ErrorCode],
    made: dict[Place, CommittedOffset],
    error: ErrorCode,
    token: int,
) -> None:
    shard.out.reply(token, committed(request, places | dict.fromkeys(made, error)))


def _commit_error(group: Group | None, request: Message, client: Client) -> ErrorCode:
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


def _judge(shard: Shard, request: Message, places: dict[Place, ErrorCode], now: int) -> dict[Place, CommittedOffset]:
    made: dict[Place, CommittedOffset] = {}
    wall = shard.wall(now)
    for topic in request.topics:
        for line in topic.partitions:
            place = (topic.name, line.partition_index)
            metadata = line.committed_metadata or ""
            if places[place] is not ErrorCode.none:
                continue
            if len(metadata) > shard.config.offset_metadata_max_bytes or not records.fits(metadata):
                places[place] = ErrorCode.offset_metadata_too_large
                continue
            made[place] = CommittedOffset(
                offset=line.committed_offset,
                leader_epoch=line.committed_leader_epoch,
                metadata=metadata,
                commit_timestamp=wall,
                expire_timestamp=_expiry(request, wall),
            )
    return made


def _expiry(request: Message, wall: int) -> int:
    """Old clients may say how long they want an offset kept; others leave it to the broker."""
    retention: int = getattr(request, "retention_ms", -1)  # see wire.old_requests
    return min(wall + retention, LATEST) if retention >= 0 else -1


def _store(shard: Shard, group: Group, made: dict[Place, CommittedOffset], then: OnStored, now: int) -> None:
    for place in made:
        group.pending_commits[place] = group.pending_commits.get(place, 0) + 1

    def apply() -> None:
        for place, offset in made.items():
            _end_pending(group, place)
            group.offsets[place] = offset

    def discard() -> None:
        for place in made:
            _end_pending(group, place)

    def on_stored(error: ErrorCode, now: int) -> None:
        then(error, now)
        shard.forget_if_void(group)

    lines = [
        NewRecord(records.offset_key(OffsetKey(group.id, *place)), records.offset_value(offset))
        for place, offset in made.items()
    ]
    shard.store(lines, on_stored, now, apply=apply, discard=discard)


def _end_pending(group: Group, place: Place) -> None:
    group.pending_commits[place] -= 1
    if not group.pending_commits[place]:
        del group.pending_commits[place]


def committed(request: Message, places: dict[Place, ErrorCode]) -> Message:
    topics = tuple(
        offset_commit.OffsetCommitResponseTopic(
            name=topic.name,
            partitions=tuple(
                offset_commit.OffsetCommitResponsePartition(
                    partition_index=line.partition_index, error_code=places[topic.name, line.partition_index]
                )
                for line in topic.partitions
            ),
        )
        for topic in request.topics
    )
    return offset_commit.OffsetCommitResponse(throttle_time=NO_DURATION, topics=topics)


# --- fetch -----------------------------------------------------------------------------------------------------------


def fetch(shard: Shard, asked: Message) -> Message:
    """W21: whoever never committed, or is not known at all, starts at -1, without an error."""
    group = shard.groups.get(asked.group_id)
    offsets = group.offsets if group is not None and group.state != DEAD else {}
    wanted = _all_places(offsets) if asked.topics is None else {t.name: t.partition_indexes for t in asked.topics}
    topics = tuple(
        offset_fetch.OffsetFetchResponseTopics(
            name=topic, partitions=tuple(_line(index, offsets.get((topic, index))) for index in indexes)
        )
        for topic, indexes in wanted.items()
    )
    return offset_fetch.OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics, error_code=ErrorCode.none)


def _all_places(offsets: Iterable[Place]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for topic, index in offsets:
        places.setdefault(topic, []).append(index)
    return places


def _line(index: int, found: CommittedOffset | None) -> Message:
    return offset_fetch.OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=found.offset if found else -1,
        committed_leader_epoch=found.leader_epoch if found else -1,
        metadata=found.metadata if found else "",
        error_code=ErrorCode.none,
    )


# --- delete and expire -----------------------------------------------------------------------------------------------


def delete(shard: Shard, group: Group, places: Iterable[Place], then: OnStored, now: int) -> None:
    """Tombstones for those of `places` that have an offset, or are about to have one."""
    gone = [place for place in places if place in group.offsets or place in group.pending_commits]

    def apply() -> None:
        for place in gone:
            group.offsets.pop(place, None)

    if gone:
        shard.store(tombstones(group, gone), then, now, apply=apply)
    else:
        then(ErrorCode.none, now)


def tombstones(group: Group, places: Iterable[Place]) -> list[NewRecord]:
    return [NewRecord(records.offset_key(OffsetKey(group.id, *place)), None) for place in places]


def expire(shard: Shard, group: Group, now: int) -> None:
    """Offsets go when nobody has used them for the retention time: since they were committed, where there is no group
    or none of its members reads the topic; else not before the group has been empty for that long."""
    wall = shard.wall(now)
    old = [place for place, offset in group.offsets.items() if expired(shard, group, place, offset, wall)]
    if old:
        shard.out.note("offsets_expired", group=group.id, count=len(old))
        delete(shard, group, old, lambda _error, _now: None, now)


def expired(shard: Shard, group: Group, place: Place, offset: CommittedOffset, wall: int) -> bool:
    if place in group.pending_commits or group.subscribes(place[0]):
        return False
    if offset.expire_timestamp >= 0:
        return wall >= offset.expire_timestamp
    if group.protocol_type is None:
        since = offset.commit_timestamp
    elif group.state == EMPTY:
        since = max(group.state_since, offset.commit_timestamp) if group.state_since >= 0 else offset.commit_timestamp
    elif group.state == STABLE and group.subscribed is not None:
        since = offset.commit_timestamp
    else:
        return False
    return wall - since >= shard.config.offsets_retention_ms
