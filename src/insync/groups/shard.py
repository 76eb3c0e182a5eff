"""The groups of one partition of `__consumer_offsets`, in one leader epoch of this broker (G1).

A shard is replayed from the log first (`replay`, then `finish_loading`), and closed when its epoch ends: members that
wait for a generation or an assignment are then answered NOT_COORDINATOR. Decisions of a shard reach the log through
`store`; the outcome is reported even after the shard is closed, so callers check `is_closed`.

Notes: group_record_unreadable(partition, offset, why).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Protocol
from uuid import UUID

from insync.groups import answers, records
from insync.groups.config import GroupConfig
from insync.groups.group import EMPTY, STABLE, Group
from insync.groups.member import Member
from insync.groups.memory_budget import MemoryBudget
from insync.groups.records import GroupKey, OffsetKey, StoredGroup, StoredMember
from insync.groups.timers import Timers
from insync.sansio import Outbox
from insync.wire import batch
from insync.wire.batch import NewRecord, Record
from insync.wire.errors import ErrorCode, MalformedFrameError

OnDone = Callable[[ErrorCode, int, int], None]
"""(error, base offset, now): the result of an append."""
OnCommitted = Callable[[int], None]
"""(now): the records of an append are committed."""
OnStored = Callable[[ErrorCode, int], None]
"""(outcome, now): the result of a write, as the client sees it."""


def _no_op() -> None:
    """For records that change nothing in memory."""


class OffsetsLog(Protocol):
    """Appends with acks=all to one partition of `__consumer_offsets`, in one leader epoch (G1).

    `on_done` is called once. `on_committed` is called when the records are committed, in the order of the log: before
    `on_done`, or later if that reported a timeout or too few replicas (G2).
    """

    def append(
        self, partition: int, epoch: int, data: bytearray, on_done: OnDone, on_committed: OnCommitted, now: int
    ) -> None: ...


class TimeoutHandlers(Protocol):
    """What happens at the timeouts of groups and members: `rebalancing` implements it."""

    def on_join_timeout(self, shard: Shard, group: Group, now: int) -> None: ...

    def on_sync_timeout(self, shard: Shard, group: Group, now: int) -> None: ...

    def on_session_timeout(self, shard: Shard, group: Group, member: Member, now: int) -> None: ...


@dataclass(slots=True, eq=False, kw_only=True)
class Shard:
    index: int
    epoch: int
    config: GroupConfig
    log: OffsetsLog
    out: Outbox
    rng: Random
    timers: Timers
    timeouts: TimeoutHandlers
    memory: MemoryBudget
    wall_offset_ms: int
    groups: dict[str, Group] = field(default_factory=dict)
    is_loaded: bool = False
    is_closed: bool = False

    def create_group(self, group_id: str) -> Group:
        group = self.groups[group_id] = Group(
            group_id,
            self.timers,
            self.memory,
            on_join_timeout=lambda group, now: self.timeouts.on_join_timeout(self, group, now),
            on_sync_timeout=lambda group, now: self.timeouts.on_sync_timeout(self, group, now),
        )
        return group

    def forget_if_unused(self, group: Group) -> None:
        """A request that creates a group and is then refused leaves nothing behind."""
        if group.is_unused and self.groups.get(group.id) is group:
            group.close()
            del self.groups[group.id]

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(int=self.rng.getrandbits(128), version=4)}"

    def wall_clock_ms(self, now: int) -> int:
        return now + self.wall_offset_ms

    # --- writing -----------------------------------------------------------------------------------------------------

    def store(
        self,
        new_records: Sequence[NewRecord],
        on_stored: OnStored,
        now: int,
        *,
        apply: Callable[[], None] = _no_op,
        discard: Callable[[], None] = _no_op,
    ) -> None:
        """G2: `apply` is called when the records are committed, `discard` when they will not be, and `on_stored` once,
        with the result for the client. After a timeout the client may have its answer long before `apply`."""

        def on_committed(_now: int) -> None:
            if not self.is_closed:
                apply()

        def on_done(error: ErrorCode, _offset: int, now: int) -> None:
            if error is not ErrorCode.none and not may_still_commit(error):
                discard()
            on_stored(to_coordinator_error(error), now)

        data = batch.build(new_records, timestamp_ms=self.wall_clock_ms(now))
        self.log.append(self.index, self.epoch, data, on_done, on_committed, now)

    def store_group(self, stored: StoredGroup, group_id: str, on_stored: OnStored, now: int) -> None:
        self.store([NewRecord(records.group_key(group_id), records.group_value(stored))], on_stored, now)

    # --- loading -----------------------------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """Apply one committed record. An unreadable one is skipped: no coordinator has written it."""
        try:
            self._replay(record)
        except MalformedFrameError as error:
            self.out.note("group_record_unreadable", partition=self.index, offset=record.offset, why=str(error))

    def _replay(self, record: Record) -> None:
        key = records.read_key(record.key or b"")
        if isinstance(key, OffsetKey):
            self._replay_offset(key, record.value)
        elif isinstance(key, GroupKey):
            self._replay_group(key.group, record.value)

    def _replay_offset(self, key: OffsetKey, value: bytes | None) -> None:
        partition = (key.topic, key.partition)
        if value is not None:
            committed = records.read_offset(value)
            (self.groups.get(key.group) or self.create_group(key.group)).offsets[partition] = committed
        elif key.group in self.groups:
            self.groups[key.group].offsets.pop(partition, None)

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        """A later record of a group replaces an earlier one; its offsets have records of their own."""
        stored = None if value is None else records.read_group(value)
        before = self.groups.pop(group_id, None)
        if before is not None:
            before.close()
        if stored is None and (before is None or not before.offsets):
            return
        group = self.create_group(group_id)
        group.offsets = before.offsets if before else {}
        if stored is not None:
            self._restore(group, stored)

    def _restore(self, group: Group, stored: StoredGroup) -> None:
        group.protocol_type = stored.protocol_type or None
        group.generation = stored.generation
        group.protocol = stored.protocol
        for stored_member in stored.members:
            member = self._restore_member(group, stored_member, stored.protocol)
            group.add(member)
            group.set_assignment(member, stored_member.assignment)
        group.leader = stored.leader
        group.set_state(STABLE if stored.members else EMPTY, stored.state_timestamp)
        group.update_subscription()

    def _restore_member(self, group: Group, stored: StoredMember, protocol: str | None) -> Member:
        return self.create_member(
            group,
            stored.member_id,
            stored.instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout_ms=stored.session_timeout_ms,
            rebalance_timeout_ms=stored.rebalance_timeout_ms,
            protocols=((protocol or "", stored.subscription),),
        )

    def create_member(
        self,
        group: Group,
        member_id: str,
        instance_id: str | None,
        *,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: tuple[tuple[str, bytes], ...],
    ) -> Member:
        member = Member(
            id=member_id,
            instance_id=instance_id,
            client_id=client_id,
            client_host=client_host,
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocols=protocols,
            session_timer=self.timers.create(lambda now: self.timeouts.on_session_timeout(self, group, member, now)),
        )
        return member

    def finish_loading(self, now: int) -> None:
        """Members of the previous coordinator have a whole session timeout to find this one."""
        for group in [group for group in self.groups.values() if group.protocol_type is None and not group.offsets]:
            group.close()
            del self.groups[group.id]
        self.is_loaded = True
        for group in self.groups.values():
            for member in group.members.values():
                member.extend_session(now)

    def close(self) -> None:
        self.is_closed = True
        for group in self.groups.values():
            group.close()
            for member in group.members.values():
                answers.refuse_join(self.out, member, member.id, ErrorCode.not_coordinator)
                answers.answer_sync(self.out, group, member, ErrorCode.not_coordinator)


def may_still_commit(error: ErrorCode) -> bool:
    """P2, P3: the records are in the log, although the client got an error."""
    return error in (ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append)


def to_coordinator_error(error: ErrorCode) -> ErrorCode:
    """Translate a failed write for clients of groups, so that they know whether to look for another coordinator."""
    if error in (ErrorCode.not_leader_or_follower, ErrorCode.kafka_storage_error, ErrorCode.fenced_leader_epoch):
        return ErrorCode.not_coordinator
    if error in _UNAVAILABLE:
        return ErrorCode.coordinator_not_available
    return ErrorCode.none if error is ErrorCode.none else _OTHERS.get(error, ErrorCode.unknown_server_error)


_UNAVAILABLE = (
    ErrorCode.unknown_topic_or_partition,
    ErrorCode.unknown_topic_id,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.request_timed_out,
)
_OTHERS = {ErrorCode.message_too_large: ErrorCode.invalid_commit_offset_size}
