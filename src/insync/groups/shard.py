"""The groups of one partition of `__consumer_offsets`, in one leader epoch of this broker (G1).

A shard is replayed from the log first (`replay`, then `loaded`), and closed when its epoch ends: members that wait for
a generation or an assignment are then answered NOT_COORDINATOR. What a shard has decided reaches the log through
`store`; the outcome is reported even after the shard is closed, so callers look at `closed`.

Notes: group_record_unreadable(partition, offset, why).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol
from uuid import UUID

from insync.groups import answers, rebalancing, records
from insync.groups.config import GroupConfig
from insync.groups.group import EMPTY, STABLE, Group
from insync.groups.member import Member
from insync.groups.records import GroupKey, OffsetKey, StoredGroup, StoredMember
from insync.groups.room import Room
from insync.groups.timers import Timers
from insync.sansio import Outbox
from insync.wire import batch
from insync.wire.batch import NewRecord, Record
from insync.wire.errors import ErrorCode, MalformedFrame

OnStored = Callable[[ErrorCode, int], None]
"""(outcome, now): what a client may be told about a write."""


def _nothing() -> None:
    """For records that change nothing in memory."""


class OffsetsLog(Protocol):
    """Where records go: acks=all into one partition of `__consumer_offsets`, in one leader epoch (G1).

    `on_done(error, base_offset, now)` is called once. `on_committed(now)` is called when the records are committed, in
    the order of the log: before `on_done`, or later if that reported a timeout or too few replicas (G2).
    """

    def append(
        self,
        partition: int,
        epoch: int,
        data: bytearray,
        on_done: Callable[[ErrorCode, int, int], None],
        on_committed: Callable[[int], None],
        now: int,
    ) -> None: ...


class Shard:
    __slots__ = (
        "closed",
        "config",
        "epoch",
        "groups",
        "index",
        "log",
        "out",
        "ready",
        "rng",
        "room",
        "timers",
        "wall_offset",
    )

    def __init__(
        self,
        index: int,
        epoch: int,
        *,
        config: GroupConfig,
        log: OffsetsLog,
        out: Outbox,
        rng: Random,
        timers: Timers,
        room: Room,
        wall_offset: int,
    ) -> None:
        self.index = index
        self.epoch = epoch
        self.config = config
        self.log = log
        self.out = out
        self.rng = rng
        self.timers = timers
        self.room = room
        self.wall_offset = wall_offset
        self.groups: dict[str, Group] = {}
        self.ready = False
        self.closed = False

    def create(self, group_id: str) -> Group:
        group = self.groups[group_id] = Group(
            group_id,
            self.timers,
            self.room,
            on_join=lambda group, now: rebalancing.join_alarm_rang(self, group, now),
            on_sync=lambda group, now: rebalancing.sync_alarm_rang(self, group, now),
        )
        return group

    def forget_if_void(self, group: Group) -> None:
        """Whoever asks for a group and goes no further leaves nothing behind."""
        if group.is_void and self.groups.get(group.id) is group:
            group.silence()
            del self.groups[group.id]

    def new_member_id(self, prefix: str) -> str:
        return f"{prefix}-{UUID(int=self.rng.getrandbits(128), version=4)}"

    def wall(self, now: int) -> int:
        return now + self.wall_offset

    # --- writing -----------------------------------------------------------------------------------------------------

    def store(
        self,
        made: Sequence[NewRecord],
        on_stored: OnStored,
        now: int,
        *,
        apply: Callable[[], None] = _nothing,
        discard: Callable[[], None] = _nothing,
    ) -> None:
        """G2: `apply` is called when the records are committed, `discard` when they will not be, and `on_stored` once,
        with what the client is answered. After a timeout the client may have its answer long before `apply`."""

        def on_committed(_now: int) -> None:
            if not self.closed:
                apply()

        def on_done(error: ErrorCode, _offset: int, now: int) -> None:
            if error is not ErrorCode.none and not may_still_commit(error):
                discard()
            on_stored(told(error), now)

        data = batch.build(made, timestamp_ms=self.wall(now))
        self.log.append(self.index, self.epoch, data, on_done, on_committed, now)

    def store_group(self, stored: StoredGroup, group_id: str, on_stored: OnStored, now: int) -> None:
        self.store([NewRecord(records.group_key(group_id), records.group_value(stored))], on_stored, now)

    # --- loading -----------------------------------------------------------------------------------------------------

    def replay(self, record: Record) -> None:
        """One committed record; what cannot be read is left out, as it was not written by a coordinator."""
        try:
            self._replay(record)
        except MalformedFrame as why:
            self.out.note("group_record_unreadable", partition=self.index, offset=record.offset, why=str(why))

    def _replay(self, record: Record) -> None:
        key = records.read_key(record.key or b"")
        if isinstance(key, OffsetKey):
            self._replay_offset(key, record.value)
        elif isinstance(key, GroupKey):
            self._replay_group(key.group, record.value)

    def _replay_offset(self, key: OffsetKey, value: bytes | None) -> None:
        place = (key.topic, key.partition)
        if value is not None:
            committed = records.read_offset(value)
            (self.groups.get(key.group) or self.create(key.group)).offsets[place] = committed
        elif key.group in self.groups:
            self.groups[key.group].offsets.pop(place, None)

    def _replay_group(self, group_id: str, value: bytes | None) -> None:
        """A later record of a group replaces an earlier one; its offsets have records of their own."""
        stored = None if value is None else records.read_group(value)
        before = self.groups.pop(group_id, None)
        if before is not None:
            before.silence()
        if stored is None and (before is None or not before.offsets):
            return
        group = self.create(group_id)
        group.offsets = before.offsets if before else {}
        if stored is not None:
            self._restore(group, stored)

    def _restore(self, group: Group, stored: StoredGroup) -> None:
        group.protocol_type = stored.protocol_type or None
        group.generation = stored.generation
        group.protocol = stored.protocol
        for each in stored.members:
            member = self._member(group, each, stored.protocol)
            group.add(member)
            group.set_assignment(member, each.assignment)
        group.leader = stored.leader
        group.become(STABLE if stored.members else EMPTY, stored.state_timestamp)
        group.resubscribe()

    def _member(self, group: Group, stored: StoredMember, protocol: str | None) -> Member:
        return self.member(
            group,
            stored.member_id,
            stored.instance_id,
            client_id=stored.client_id,
            client_host=stored.client_host,
            session_timeout=stored.session_timeout,
            rebalance_timeout=stored.rebalance_timeout,
            protocols=((protocol or "", stored.subscription),),
        )

    def member(
        self,
        group: Group,
        member_id: str,
        instance_id: str | None,
        *,
        client_id: str,
        client_host: str,
        session_timeout: int,
        rebalance_timeout: int,
        protocols: tuple[tuple[str, bytes], ...],
    ) -> Member:
        member = Member(
            member_id,
            instance_id,
            client_id=client_id,
            client_host=client_host,
            session_timeout=session_timeout,
            rebalance_timeout=rebalance_timeout,
            protocols=protocols,
            session=self.timers.alarm(lambda now: rebalancing.session_expired(self, group, member, now)),
        )
        return member

    def loaded(self, now: int) -> None:
        """The members of the last coordinator have a whole session to find this one."""
        for group in [g for g in self.groups.values() if g.protocol_type is None and not g.offsets]:
            group.silence()
            del self.groups[group.id]
        self.ready = True
        for group in self.groups.values():
            for member in group.members.values():
                member.heard(now)

    def close(self) -> None:
        self.closed = True
        for group in self.groups.values():
            group.silence()
            for member in group.members.values():
                answers.refuse_join(self.out, member, member.id, ErrorCode.not_coordinator)
                answers.answer_sync(self.out, group, member, ErrorCode.not_coordinator)


def may_still_commit(error: ErrorCode) -> bool:
    """P2, P3: the records are in the log, whatever the client was answered."""
    return error in (ErrorCode.request_timed_out, ErrorCode.not_enough_replicas_after_append)


def told(error: ErrorCode) -> ErrorCode:
    """What clients of groups hear of a failed write: in their words, and so that they know whom to ask again."""
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
