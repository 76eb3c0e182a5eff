"""The group coordinator of one broker: a shard for every partition of `__consumer_offsets` that it leads.

A shard belongs to one leader epoch of its partition (G1).

A group belongs to the partition that its name hashes to. Requests for a group whose partition is led elsewhere are
refused with NOT_COORDINATOR, those for a partition that is still being loaded with COORDINATOR_LOAD_IN_PROGRESS.

Notes: groups_loaded(partition, epoch, groups), groups_unloaded(partition, epoch); see the other modules for theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from insync.groups import administration, answers, joining, membership, offsets, records
from insync.groups.config import GroupConfig
from insync.groups.group import Place
from insync.groups.room import Room
from insync.groups.shard import OffsetsLog, Shard
from insync.groups.timers import Timers
from insync.sansio import Client, Message, Outbox
from insync.wire.batch import Record
from insync.wire.errors import ErrorCode
from insync.wire.messages import (
    delete_groups,
    describe_groups,
    heartbeat,
    list_groups,
    offset_delete,
    offset_fetch,
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
        wall_offset: int,
        has_partition: Callable[[str, int], bool],
        now: int,
    ) -> None:
        self.config = config
        self.partitions = config.offsets_topic_num_partitions
        """How many the topic has; the node sets it when it sees the topic."""
        self.shards: dict[int, Shard] = {}
        self._log = log
        self._out = out
        self._rng = rng
        self._wall_offset = wall_offset
        self._has_partition = has_partition
        self._timers = Timers()
        self._room = Room(config.groups_max_bytes)
        self._tidy = self._timers.alarm(self._tidy_up)
        self._tidy.set(now + config.offsets_retention_check_interval_ms)

    # --- which partitions are ours -----------------------------------------------------------------------------------

    def begin_load(self, index: int, epoch: int) -> Shard:
        """G1: nothing that an earlier epoch had in memory is used in this one."""
        self.unload(index)
        shard = self.shards[index] = Shard(
            index,
            epoch,
            config=self.config,
            log=self._log,
            out=self._out,
            rng=self._rng,
            timers=self._timers,
            room=self._room,
            wall_offset=self._wall_offset,
        )
        return shard

    def replay(self, index: int, record: Record) -> None:
        self.shards[index].replay(record)

    def finish_load(self, index: int, now: int) -> None:
        shard = self.shards[index]
        shard.loaded(now)
        self._out.note("groups_loaded", partition=index, epoch=shard.epoch, groups=len(shard.groups))

    def unload(self, index: int) -> None:
        shard = self.shards.pop(index, None)
        if shard is not None:
            shard.close()
            self._out.note("groups_unloaded", partition=index, epoch=shard.epoch)

    def topics_deleted(self, topics: dict[str, None], now: int) -> None:
        for shard in self.shards.values():
            if shard.ready:
                administration.topics_deleted(shard, topics, now)

    # --- time --------------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        self._timers.run(now)

    def next_deadline(self) -> int | None:
        """Nothing happens on a broker without shards."""
        return self._timers.next_deadline() if self.shards else None

    def _tidy_up(self, now: int) -> None:
        self._tidy.set(now + self.config.offsets_retention_check_interval_ms)
        for shard in list(self.shards.values()):
            if shard.ready:
                administration.tidy(shard, now)

    # --- members -----------------------------------------------------------------------------------------------------

    def join(self, request: Message, token: int, client: Client, now: int) -> None:
        shard = self._shard(request.group_id, needs_name=True)
        error = ErrorCode.none if isinstance(shard, Shard) else shard
        timeout = millis(request.session_timeout)
        if error is ErrorCode.none and not self._legal_session(timeout):
            error = ErrorCode.invalid_session_timeout
        if error is not ErrorCode.none or not isinstance(shard, Shard):
            self._out.reply(token, answers.join_refused(request.member_id, error))
        else:
            joining.join(shard, request, token, client, now)

    def abandon_join(self, request: Message, token: int, now: int) -> None:
        shard = self._shard(request.group_id, needs_name=True)
        if isinstance(shard, Shard):
            joining.abandon(shard, request.group_id, token, now)

    def _legal_session(self, timeout: int) -> bool:
        return self.config.group_min_session_timeout_ms <= timeout <= self.config.group_max_session_timeout_ms

    def sync(self, request: Message, token: int, now: int) -> None:
        shard = self._shard(request.group_id, needs_name=True)
        if isinstance(shard, Shard):
            membership.sync(shard, request, token, now)
            return
        # A client whose coordinator is loading joins again: it cannot know whether its generation stands.
        loading = shard is ErrorCode.coordinator_load_in_progress
        self._out.reply(token, answers.sync_refused(ErrorCode.rebalance_in_progress if loading else shard))

    def heartbeat(self, request: Message, token: int, now: int) -> None:
        shard = self._shard(request.group_id, needs_name=True)
        if isinstance(shard, Shard):
            error = membership.heartbeat(shard, request, now)
        else:  # while the groups are loaded nobody is to be worried
            error = ErrorCode.none if shard is ErrorCode.coordinator_load_in_progress else shard
        self._out.reply(token, heartbeat.HeartbeatResponse(throttle_time=NO_DURATION, error_code=error))

    def leave(self, request: Message, token: int, now: int) -> None:
        shard = self._shard(request.group_id, needs_name=True)
        if isinstance(shard, Shard):
            self._out.reply(token, membership.leave(shard, request, now))
        else:
            self._out.reply(token, membership.left(shard, ()))

    # --- offsets -----------------------------------------------------------------------------------------------------

    def commit(self, request: Message, token: int, client: Client, now: int) -> None:
        shard = self._shard(request.group_id)
        places = self._places((t.name, line.partition_index) for t in request.topics for line in t.partitions)
        if isinstance(shard, Shard):
            offsets.commit(shard, request, places, token, client, now)
        else:
            self._out.reply(token, offsets.committed(request, dict.fromkeys(places, shard)))

    def _places(self, asked: Iterable[Place]) -> dict[Place, ErrorCode]:
        missing = ErrorCode.unknown_topic_or_partition
        return {place: ErrorCode.none if self._has_partition(*place) else missing for place in asked}

    def fetch(self, request: Message, token: int) -> None:
        groups = tuple(self._fetch_one(asked) for asked in request.groups)
        self._out.reply(token, offset_fetch.OffsetFetchResponse(throttle_time=NO_DURATION, groups=groups))

    def _fetch_one(self, asked: Message) -> Message:
        shard = self._shard(asked.group_id)
        if isinstance(shard, Shard):
            return offsets.fetch(shard, asked)
        return offset_fetch.OffsetFetchResponseGroup(group_id=asked.group_id, topics=(), error_code=shard)

    def delete_offsets(self, request: Message, token: int, now: int) -> None:
        shard = self._shard(request.group_id, needs_name=True)
        places = self._places((t.name, line.partition_index) for t in request.topics for line in t.partitions)

        def done(error: ErrorCode, _now: int) -> None:
            self._out.reply(token, _offsets_deleted(request, places, error))

        if isinstance(shard, Shard):
            administration.delete_offsets(shard, request.group_id, places, done, now)
        else:
            done(shard, now)

    # --- administration ----------------------------------------------------------------------------------------------

    def list(self, request: Message, token: int) -> None:
        """All or nothing: a list that leaves out groups because they are being loaded would mislead."""
        loading = any(not shard.ready for shard in self.shards.values())
        matches = administration.matcher(request)
        groups = (
            ()
            if loading
            else tuple(
                administration.listed(group)
                for shard in self.shards.values()
                for group in shard.groups.values()
                if matches(group)
            )
        )
        error = ErrorCode.coordinator_load_in_progress if loading else ErrorCode.none
        self._out.reply(
            token, list_groups.ListGroupsResponse(throttle_time=NO_DURATION, error_code=error, groups=groups)
        )

    def describe(self, request: Message, token: int, client: Client) -> None:
        groups = tuple(
            administration.with_operations(self._describe_one(group_id, client), request.include_authorized_operations)
            for group_id in request.groups
        )
        self._out.reply(token, describe_groups.DescribeGroupsResponse(throttle_time=NO_DURATION, groups=groups))

    def _describe_one(self, group_id: str, client: Client) -> Message:
        shard = self._shard(group_id)
        if not isinstance(shard, Shard):
            return administration.described(None, group_id, shard)
        group = shard.groups.get(group_id)
        return administration.missing(group_id, client) if group is None else administration.described(group, group_id)

    def delete(self, request: Message, token: int, now: int) -> None:
        """One answer when the last group is decided."""
        names = tuple(dict.fromkeys(request.groups_names))
        outcomes: dict[str, ErrorCode] = {}

        def decided(group_id: str, error: ErrorCode, _now: int) -> None:
            outcomes[group_id] = error
            if len(outcomes) == len(names):
                self._out.reply(token, _groups_deleted(names, outcomes))

        if not names:
            self._out.reply(token, _groups_deleted(names, outcomes))
        for group_id in names:  # even one without a name: whoever reads outside of groups may have committed to it
            shard = self._shard(group_id)
            if isinstance(shard, Shard):
                administration.delete(shard, group_id, partial(decided, group_id), now)
            else:
                decided(group_id, shard, now)

    def _shard(self, group_id: str, *, needs_name: bool = False) -> Shard | ErrorCode:
        if (needs_name and not group_id) or not records.fits(group_id):
            return ErrorCode.invalid_group_id
        shard = self.shards.get(partition_for(group_id, self.partitions))
        if shard is None:
            return ErrorCode.not_coordinator
        return shard if shard.ready else ErrorCode.coordinator_load_in_progress


def _groups_deleted(names: tuple[str, ...], outcomes: dict[str, ErrorCode]) -> Message:
    results = tuple(delete_groups.DeletableGroupResult(group_id=name, error_code=outcomes[name]) for name in names)
    return delete_groups.DeleteGroupsResponse(throttle_time=NO_DURATION, results=results)


def _offsets_deleted(request: Message, places: dict[Place, ErrorCode], error: ErrorCode) -> Message:
    topics = (
        ()
        if error is not ErrorCode.none
        else tuple(
            offset_delete.OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    offset_delete.OffsetDeleteResponsePartition(
                        partition_index=line.partition_index, error_code=places[topic.name, line.partition_index]
                    )
                    for line in topic.partitions
                ),
            )
            for topic in request.topics
        )
    )
    return offset_delete.OffsetDeleteResponse(error_code=error, throttle_time=NO_DURATION, topics=topics)
