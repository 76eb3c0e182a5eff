"""The group coordinator of one broker: a shard for every partition of `__consumer_offsets` that it leads.

A shard belongs to one leader epoch of its partition (G1).

A group belongs to the partition that its name hashes to. Requests for a group whose partition is led elsewhere are
refused with NOT_COORDINATOR, those for a partition that is still being loaded with COORDINATOR_LOAD_IN_PROGRESS.

Notes: groups_loaded(partition, epoch, groups), groups_unloaded(partition, epoch); see the other modules for theirs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random

from insync.groups import administration, answers, joining, membership, offsets, rebalancing, records
from insync.groups.config import GroupConfig
from insync.groups.group import TopicPartition
from insync.groups.memory_budget import MemoryBudget
from insync.groups.shard import OffsetsLog, Shard
from insync.groups.timers import Timers
from insync.sansio import Client, Outbox
from insync.wire.batch import Record
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from insync.wire.types import NO_DURATION, millis


def partition_for(group_id: str, partitions: int) -> int:
    """Kafka's choice: Java's hash of the name, its sign bit dropped."""
    value = 0
    data = group_id.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(data), 2):
        value = (31 * value + int.from_bytes(data[at : at + 2], "big")) & 0xFFFFFFFF
    return (value & 0x7FFFFFFF) % partitions


class Coordinator:
    def __init__(
        self,
        *,
        config: GroupConfig,
        log: OffsetsLog,
        out: Outbox,
        rng: Random,
        wall_offset_ms: int,
        has_partition: Callable[[str, int], bool],
        now: int,
    ) -> None:
        self.config = config
        self.partitions = config.offsets_topic_num_partitions
        """How many partitions the topic has; the node sets it when it sees the topic."""
        self.shards: dict[int, Shard] = {}
        self._log = log
        self._out = out
        self._rng = rng
        self._wall_offset_ms = wall_offset_ms
        self._has_partition = has_partition
        self._timers = Timers()
        self._memory = MemoryBudget(config.groups_max_bytes)
        self._expiry_timer = self._timers.create(self._remove_expired)
        self._expiry_timer.set(now + config.offsets_retention_check_interval_ms)

    # --- the partitions that this broker leads -----------------------------------------------------------------------

    def begin_load(self, index: int, epoch: int) -> Shard:
        """G1: nothing that an earlier epoch had in memory is used in this one."""
        self.unload(index)
        shard = self.shards[index] = Shard(
            index=index,
            epoch=epoch,
            config=self.config,
            log=self._log,
            out=self._out,
            rng=self._rng,
            timers=self._timers,
            timeouts=rebalancing,
            memory=self._memory,
            wall_offset_ms=self._wall_offset_ms,
        )
        return shard

    def replay(self, index: int, record: Record) -> None:
        self.shards[index].replay(record)

    def finish_load(self, index: int, now: int) -> None:
        shard = self.shards[index]
        shard.finish_loading(now)
        self._out.note("groups_loaded", partition=index, epoch=shard.epoch, groups=len(shard.groups))

    def unload(self, index: int) -> None:
        shard = self.shards.pop(index, None)
        if shard is not None:
            shard.close()
            self._out.note("groups_unloaded", partition=index, epoch=shard.epoch)

    def topics_deleted(self, topics: dict[str, None], now: int) -> None:
        for shard in self.shards.values():
            if shard.is_loaded:
                administration.delete_topic_offsets(shard, topics, now)

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        self._timers.run(now)

    def next_deadline(self) -> int | None:
        """None without shards, because nothing happens then."""
        return self._timers.next_deadline() if self.shards else None

    def _remove_expired(self, now: int) -> None:
        self._expiry_timer.set(now + self.config.offsets_retention_check_interval_ms)
        for shard in list(self.shards.values()):
            if shard.is_loaded:
                administration.remove_expired(shard, now)

    # --- members -----------------------------------------------------------------------------------------------------

    def join(self, request: join_group.JoinGroupRequest, token: int, client: Client, now: int) -> None:
        shard = self._find_shard(request.group_id, needs_name=True)
        error = ErrorCode.none if isinstance(shard, Shard) else shard
        timeout = millis(request.session_timeout)
        if error is ErrorCode.none and not self._is_session_timeout_valid(timeout):
            error = ErrorCode.invalid_session_timeout
        if error is not ErrorCode.none or not isinstance(shard, Shard):
            self._out.reply(token, answers.join_error(request.member_id, error))
        else:
            joining.join(shard, request, token, client, now)

    def abandon_join(self, request: join_group.JoinGroupRequest, token: int, now: int) -> None:
        shard = self._find_shard(request.group_id, needs_name=True)
        if isinstance(shard, Shard):
            joining.abandon(shard, request.group_id, token, now)

    def _is_session_timeout_valid(self, timeout: int) -> bool:
        return self.config.group_min_session_timeout_ms <= timeout <= self.config.group_max_session_timeout_ms

    def sync(self, request: sync_group.SyncGroupRequest, token: int, now: int) -> None:
        shard = self._find_shard(request.group_id, needs_name=True)
        if isinstance(shard, Shard):
            membership.sync(shard, request, token, now)
            return
        # A client whose coordinator is loading joins again: it cannot know whether its generation is still current.
        loading = shard is ErrorCode.coordinator_load_in_progress
        self._out.reply(token, answers.sync_error(ErrorCode.rebalance_in_progress if loading else shard))

    def heartbeat(self, request: heartbeat.HeartbeatRequest, token: int, now: int) -> None:
        shard = self._find_shard(request.group_id, needs_name=True)
        if isinstance(shard, Shard):
            error = membership.heartbeat(shard, request, now)
        else:  # while the groups are loaded, members need not do anything
            error = ErrorCode.none if shard is ErrorCode.coordinator_load_in_progress else shard
        self._out.reply(token, heartbeat.HeartbeatResponse(throttle_time=NO_DURATION, error_code=error))

    def leave(self, request: leave_group.LeaveGroupRequest, token: int, now: int) -> None:
        shard = self._find_shard(request.group_id, needs_name=True)
        if isinstance(shard, Shard):
            self._out.reply(token, membership.leave(shard, request, now))
        else:
            self._out.reply(token, membership.leave_response(shard, ()))

    # --- offsets -----------------------------------------------------------------------------------------------------

    def commit(self, request: offset_commit.OffsetCommitRequest, token: int, client: Client, now: int) -> None:
        shard = self._find_shard(request.group_id)
        partitions = self._check_partitions(request)
        if isinstance(shard, Shard):
            offsets.commit(shard, request, partitions, token, client, now)
        else:
            self._out.reply(token, offsets.commit_response(request, dict.fromkeys(partitions, shard)))

    def _check_partitions(
        self, request: offset_commit.OffsetCommitRequest | offset_delete.OffsetDeleteRequest
    ) -> dict[TopicPartition, ErrorCode]:
        """The partitions in a request, with an error for those that do not exist."""
        missing = ErrorCode.unknown_topic_or_partition
        return {
            (topic.name, partition.partition_index): ErrorCode.none
            if self._has_partition(topic.name, partition.partition_index)
            else missing
            for topic in request.topics
            for partition in topic.partitions
        }

    def fetch(self, request: offset_fetch.OffsetFetchRequest, token: int) -> None:
        groups = tuple(self._fetch_one(group) for group in request.groups)
        self._out.reply(token, offset_fetch.OffsetFetchResponse(throttle_time=NO_DURATION, groups=groups))

    def _fetch_one(self, request: offset_fetch.OffsetFetchRequestGroup) -> offset_fetch.OffsetFetchResponseGroup:
        shard = self._find_shard(request.group_id)
        if isinstance(shard, Shard):
            return offsets.fetch(shard, request)
        return offset_fetch.OffsetFetchResponseGroup(group_id=request.group_id, topics=(), error_code=shard)

    def delete_offsets(self, request: offset_delete.OffsetDeleteRequest, token: int, now: int) -> None:
        shard = self._find_shard(request.group_id, needs_name=True)
        partitions = self._check_partitions(request)

        def done(error: ErrorCode, _now: int) -> None:
            self._out.reply(token, _offset_delete_response(request, partitions, error))

        if isinstance(shard, Shard):
            administration.delete_offsets(shard, request.group_id, partitions, done, now)
        else:
            done(shard, now)

    # --- administration ----------------------------------------------------------------------------------------------

    def list(self, request: list_groups.ListGroupsRequest, token: int) -> None:
        """All groups or none: a list without the groups that are being loaded would mislead."""
        loading = any(not shard.is_loaded for shard in self.shards.values())
        matches = administration.make_filter(request)
        groups = (
            ()
            if loading
            else tuple(
                administration.list_group(group)
                for shard in self.shards.values()
                for group in shard.groups.values()
                if matches(group)
            )
        )
        error = ErrorCode.coordinator_load_in_progress if loading else ErrorCode.none
        self._out.reply(
            token, list_groups.ListGroupsResponse(throttle_time=NO_DURATION, error_code=error, groups=groups)
        )

    def describe(self, request: describe_groups.DescribeGroupsRequest, token: int, client: Client) -> None:
        groups = tuple(
            administration.with_operations(self._describe_one(group_id, client), request.include_authorized_operations)
            for group_id in request.groups
        )
        self._out.reply(token, describe_groups.DescribeGroupsResponse(throttle_time=NO_DURATION, groups=groups))

    def _describe_one(self, group_id: str, client: Client) -> describe_groups.DescribedGroup:
        shard = self._find_shard(group_id)
        if not isinstance(shard, Shard):
            return administration.describe_group(None, group_id, shard)
        group = shard.groups.get(group_id)
        if group is None:
            return administration.describe_missing_group(group_id, client)
        return administration.describe_group(group, group_id)

    def delete(self, request: delete_groups.DeleteGroupsRequest, token: int, now: int) -> None:
        """Answered when the last group has its outcome."""
        names = tuple(dict.fromkeys(request.groups_names))
        outcomes: dict[str, ErrorCode] = {}

        def decided(group_id: str, error: ErrorCode, _now: int) -> None:
            outcomes[group_id] = error
            if len(outcomes) == len(names):
                self._out.reply(token, _delete_groups_response(names, outcomes))

        if not names:
            self._out.reply(token, _delete_groups_response(names, outcomes))
        for group_id in names:  # also one without a name: a consumer without a group may have committed to it
            shard = self._find_shard(group_id)
            if isinstance(shard, Shard):
                administration.delete(shard, group_id, partial(decided, group_id), now)
            else:
                decided(group_id, shard, now)

    def _find_shard(self, group_id: str, *, needs_name: bool = False) -> Shard | ErrorCode:
        if (needs_name and not group_id) or not records.fits(group_id):
            return ErrorCode.invalid_group_id
        shard = self.shards.get(partition_for(group_id, self.partitions))
        if shard is None:
            return ErrorCode.not_coordinator
        return shard if shard.is_loaded else ErrorCode.coordinator_load_in_progress


def _delete_groups_response(
    names: tuple[str, ...], outcomes: dict[str, ErrorCode]
) -> delete_groups.DeleteGroupsResponse:
    results = tuple(delete_groups.DeletableGroupResult(group_id=name, error_code=outcomes[name]) for name in names)
    return delete_groups.DeleteGroupsResponse(throttle_time=NO_DURATION, results=results)


def _offset_delete_response(
    request: offset_delete.OffsetDeleteRequest, partitions: dict[TopicPartition, ErrorCode], error: ErrorCode
) -> offset_delete.OffsetDeleteResponse:
    topics = (
        ()
        if error is not ErrorCode.none
        else offsets.list_errors(
            request.topics,
            partitions,
            offset_delete.OffsetDeleteResponseTopic,
            offset_delete.OffsetDeleteResponsePartition,
        )
    )
    return offset_delete.OffsetDeleteResponse(error_code=error, throttle_time=NO_DURATION, topics=topics)
