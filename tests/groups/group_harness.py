"""A coordinator over a log in memory, driven by one request at a time.

The log commits at once; `hold()` makes appends wait until `release()`. `reloaded` starts another coordinator from the
committed records, as a new leader of the partition would.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from insync.groups.config import GroupConfig
from insync.groups.coordinator import Coordinator
from insync.groups.shard import OnCommitted, OnDone
from insync.sansio import UNKNOWN_CLIENT, Client, Note, Outbox, Reply
from insync.wire import batch
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
from insync.wire.old_requests import OldOffsetCommitRequest
from insync.wire.types import ms

DELAY = 3_000
SESSION = 10_000
REBALANCE = 60_000
WALL = 1_700_000_000_000


class MemoryLog:
    def __init__(self) -> None:
        self.batches: list[bytes] = []
        self.waiting: list[tuple[bytearray, OnDone, OnCommitted]] | None = None
        self.late: list[tuple[bytearray, OnCommitted]] = []
        self.error = ErrorCode.none

    def append(
        self, partition: int, epoch: int, data: bytearray, on_done: OnDone, on_committed: OnCommitted, now: int
    ) -> None:
        if self.error is not ErrorCode.none:
            on_done(self.error, -1, now)
        elif self.waiting is not None:
            self.waiting.append((data, on_done, on_committed))
        else:
            self.commit_late(now)  # those come first in the log
            self.batches.append(bytes(data))
            on_committed(now)
            on_done(ErrorCode.none, len(self.batches) - 1, now)

    def hold(self) -> None:
        self.waiting = []

    def release(self, now: int, error: ErrorCode = ErrorCode.none, *, stored: bool = False) -> None:
        """Decide the waiting appends. One that is reported as failed may nevertheless be `stored`."""
        if error is ErrorCode.none:
            self.commit_late(now)
        waiting, self.waiting = self.waiting or [], None
        for data, on_done, on_committed in waiting:
            if stored or error is ErrorCode.none:
                self.batches.append(bytes(data))
            if error is ErrorCode.none:
                on_committed(now)
            on_done(error, len(self.batches) - 1, now)

    def time_out(self, now: int) -> None:
        """Answer the waiting appends with a timeout. They are in the log, and committed by `commit_late`."""
        waiting, self.waiting = self.waiting or [], None
        for data, on_done, on_committed in waiting:
            self.late.append((data, on_committed))
            on_done(ErrorCode.request_timed_out, -1, now)

    def commit_late(self, now: int) -> None:
        late, self.late = self.late, []
        for data, on_committed in late:
            self.batches.append(bytes(data))
            on_committed(now)

    def records(self) -> list[batch.Record]:
        return [record for data in self.batches for record in batch.records(data)]


class GroupHarness:
    def __init__(self, log: MemoryLog | None = None, now: int = 0, **config: Any) -> None:
        self.now = now
        self.out = Outbox()
        self.log = log or MemoryLog()
        self.tokens = 0
        self.answers: dict[int, Any] = {}
        self.notes: list[Note] = []
        self.topics = {"t": 8, "u": 8}
        self.config = GroupConfig(offsets_topic_num_partitions=1, **config)
        self.coordinator = Coordinator(
            config=self.config,
            log=self.log,
            out=self.out,
            rng=random.Random(len(self.log.batches)),
            wall_offset_ms=WALL,
            has_partition=lambda topic, index: index < self.topics.get(topic, 0),
            now=now,
        )
        self.coordinator.begin_load(0, epoch=0)
        for record in self.log.records():
            self.coordinator.replay(0, record)
        self.coordinator.finish_load(0, now)

    def reloaded(self, **config: Any) -> GroupHarness:
        """Another coordinator, loaded from the log."""
        return GroupHarness(self.log, self.now, **config)

    # --- time and answers ---

    def advance(self, by: int) -> None:
        end = self.now + by
        while (at := self.coordinator.next_deadline()) is not None and at <= end:
            self.now = max(self.now, at)
            self.coordinator.tick(self.now)
            self.drain()
        self.now = end

    def drain(self) -> None:
        for effect in self.out.drain():
            if isinstance(effect, Reply):
                assert effect.token not in self.answers, "a second answer to one request"
                self.answers[effect.token] = effect.response
            elif isinstance(effect, Note):
                self.notes.append(effect)

    def ask(self, call: Callable[[int], None]) -> int:
        self.tokens += 1
        call(self.tokens)
        self.drain()
        return self.tokens

    def release(self, error: ErrorCode = ErrorCode.none, *, stored: bool = False) -> None:
        self.log.release(self.now, error, stored=stored)
        self.drain()

    @property
    def groups(self) -> Any:
        return self.coordinator.shards[0].groups

    # --- requests ---

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        instance: str | None = None,
        protocols: tuple[tuple[str, bytes], ...] = (("range", b"r"),),
        kind: str = "consumer",
        session: int = SESSION,
        rebalance: int = REBALANCE,
        client: Client = UNKNOWN_CLIENT,
    ) -> int:
        request = join_group.JoinGroupRequest(
            group_id=group,
            session_timeout=ms(session),
            rebalance_timeout=ms(rebalance),
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=kind,
            protocols=tuple(join_group.JoinGroupRequestProtocol(name=n, metadata=m) for n, m in protocols),
        )
        return self.ask(lambda token: self.coordinator.join(request, token, client, self.now))

    def enter(self, **fields: Any) -> tuple[str, int]:
        """Both steps of a dynamic member's join; returns its member id, and the token of the join that waits."""
        first = self.answers[self.join(**fields)]
        assert first.error_code is ErrorCode.member_id_required
        return first.member_id, self.join(first.member_id, **fields)

    def sync(self, member_id: str, generation: int, assigned: dict[str, bytes] | None = None, **fields: Any) -> int:
        assignments = [
            sync_group.SyncGroupRequestAssignment(member_id=m, assignment=a) for m, a in (assigned or {}).items()
        ]
        request = sync_group.SyncGroupRequest(
            group_id=fields.pop("group", "g"),
            generation_id=generation,
            member_id=member_id,
            group_instance_id=fields.pop("instance", None),
            assignments=tuple(assignments),
            **fields,
        )
        return self.ask(lambda token: self.coordinator.sync(request, token, self.now))

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None, group: str = "g") -> str:
        request = heartbeat.HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        token = self.ask(lambda token: self.coordinator.heartbeat(request, token, self.now))
        return str(self.answers[token].error_code.name)

    def leave(self, *members: tuple[str, str | None], group: str = "g") -> Any:
        request = leave_group.LeaveGroupRequest(
            group_id=group,
            members=tuple(leave_group.MemberIdentity(member_id=m, group_instance_id=i) for m, i in members),
        )
        return self.answers[self.ask(lambda token: self.coordinator.leave(request, token, self.now))]

    def commit(
        self,
        offset: int,
        *,
        member_id: str = "",
        generation: int = -1,
        group: str = "g",
        topic: str = "t",
        partition: int = 0,
        metadata: str | None = "",
        instance: str | None = None,
        client: Client = UNKNOWN_CLIENT,
        retention: int | None = None,
    ) -> int:
        request_partition = offset_commit.OffsetCommitRequestPartition(
            partition_index=partition,
            committed_offset=offset,
            committed_leader_epoch=3,
            committed_metadata=metadata,
        )
        request_type, extra_fields = offset_commit.OffsetCommitRequest, {}
        if retention is not None:
            request_type, extra_fields = OldOffsetCommitRequest, {"retention_ms": retention}
        request = request_type(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=(offset_commit.OffsetCommitRequestTopic(name=topic, partitions=(request_partition,)),),
            **extra_fields,
        )
        return self.ask(lambda token: self.coordinator.commit(request, token, client, self.now))

    def commit_error(self, token: int) -> str:
        return str(self.answers[token].topics[0].partitions[0].error_code.name)

    def committed(self, offset: int, **fields: Any) -> str:
        return self.commit_error(self.commit(offset, **fields))

    def fetched(self, group: str = "g", topic: str = "t", partition: int = 0) -> int:
        topics = (offset_fetch.OffsetFetchRequestTopics(name=topic, partition_indexes=(partition,)),)
        answer = self.fetch_group(group, topics)
        assert answer.error_code is ErrorCode.none
        return int(answer.topics[0].partitions[0].committed_offset)

    def fetch_group(self, group: str, topics: Any) -> Any:
        request = offset_fetch.OffsetFetchRequest(
            groups=(offset_fetch.OffsetFetchRequestGroup(group_id=group, topics=topics),)
        )
        return self.answers[self.ask(lambda token: self.coordinator.fetch(request, token))].groups[0]

    def delete_offset(self, group: str = "g", topic: str = "t", partition: int = 0) -> Any:
        request_partition = offset_delete.OffsetDeleteRequestPartition(partition_index=partition)
        request = offset_delete.OffsetDeleteRequest(
            group_id=group,
            topics=(offset_delete.OffsetDeleteRequestTopic(name=topic, partitions=(request_partition,)),),
        )
        return self.answers[self.ask(lambda token: self.coordinator.delete_offsets(request, token, self.now))]

    def delete(self, *groups: str) -> dict[str, str]:
        request = delete_groups.DeleteGroupsRequest(groups_names=groups)
        answer = self.answers[self.ask(lambda token: self.coordinator.delete(request, token, self.now))]
        return {result.group_id: result.error_code.name for result in answer.results}

    def list_groups(self, states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> Any:
        request = list_groups.ListGroupsRequest(states_filter=states, types_filter=types)
        return self.answers[self.ask(lambda token: self.coordinator.list(request, token))]

    def describe(self, group: str = "g", *, operations: bool = False, client: Client = UNKNOWN_CLIENT) -> Any:
        request = describe_groups.DescribeGroupsRequest(groups=(group,), include_authorized_operations=operations)
        return self.answers[self.ask(lambda token: self.coordinator.describe(request, token, client))].groups[0]

    # --- whole groups ---

    def stable(self, size: int = 2, **fields: Any) -> tuple[list[str], int]:
        """Make a group of `size` members with assignments; returns member ids, leader first, and the generation."""
        entered = [self.enter(**fields) for _ in range(size)]
        self.advance(2 * DELAY + 1)
        joined = [self.answers[token] for _, token in entered]
        leader, generation = joined[0].leader, joined[0].generation_id
        ids = [leader, *(member for member, _ in entered if member != leader)]
        for member in [*ids[1:], ids[0]]:
            assignments = {assigned: assigned.encode() for assigned in ids} if member == leader else {}
            self.sync(member, generation, assignments)
        assert self.groups["g"].state == "Stable"
        return ids, generation


def subscription(*topics: str) -> bytes:
    names = b"".join(len(t).to_bytes(2, "big") + t.encode() for t in topics)
    return (1).to_bytes(2, "big") + len(topics).to_bytes(4, "big") + names + (-1).to_bytes(4, "big", signed=True)


SUBSCRIBED_TO_T = (("range", subscription("t")),)
