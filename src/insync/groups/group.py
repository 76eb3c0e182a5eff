"""One group: its members, its generation, and the offsets it has committed.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...

A generation is a fixed set of members under one protocol. It begins when everybody joined or the rebalance timeout
passed (CompletingRebalance), and is in force when its leader's assignment is committed to the log (Stable). Any change
of the members begins the next one. Dead is a group that is being deleted.

This class holds and checks state; who is answered what, and when, is decided in `rebalancing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from insync.groups import room as rooms
from insync.groups import subscription
from insync.groups.member import Member, Protocols
from insync.groups.records import CommittedOffset, StoredGroup
from insync.groups.room import Room
from insync.groups.timers import Alarm, Timers
from insync.wire.errors import ErrorCode

EMPTY = "Empty"
PREPARING = "PreparingRebalance"
COMPLETING = "CompletingRebalance"
STABLE = "Stable"
DEAD = "Dead"

NO_GENERATION = -1

Place = tuple[str, int]
"""(topic, partition)."""


class Group:
    __slots__ = (
        "generation",
        "id",
        "initial",
        "initial_wait",
        "join_alarm",
        "leader",
        "members",
        "new_member_added",
        "offsets",
        "pending",
        "pending_commits",
        "pending_sync",
        "protocol",
        "protocol_type",
        "room",
        "state",
        "state_since",
        "static",
        "storing",
        "subscribed",
        "sync_alarm",
        "weight",
    )

    def __init__(
        self,
        group_id: str,
        timers: Timers,
        room: Room,
        *,
        on_join: Callable[[Group, int], None],
        on_sync: Callable[[Group, int], None],
    ) -> None:
        self.id = group_id
        self.room = room
        self.weight = 0
        self._take(rooms.GROUP + len(group_id))
        self.state = EMPTY
        self.state_since = -1  # wall-clock, as offsets expire by it
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}  # instance id -> member id
        self.pending: dict[str, Alarm] = {}  # were given a member id and have yet to join with it
        self.pending_sync: dict[str, None] = {}  # have yet to ask for their assignment of this generation
        self.subscribed: tuple[str, ...] | None = None  # None: unknown
        self.initial = False  # this rebalance started from Empty
        self.initial_wait = (0, 0)  # (this delay, what may be added to it)
        self.new_member_added = False
        self.storing = NO_GENERATION  # the generation whose assignment is on its way to the log
        self.join_alarm = timers.alarm(lambda now: on_join(self, now))
        self.sync_alarm = timers.alarm(lambda now: on_sync(self, now))
        self.offsets: dict[Place, CommittedOffset] = {}
        self.pending_commits: dict[Place, int] = {}  # appended, not yet committed

    # --- members -----------------------------------------------------------------------------------------------------

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member; an instance that was replaced by another process of its name is fenced."""
        if instance_id is not None:
            owner = self.static.get(instance_id)
            if owner is None:
                return ErrorCode.unknown_member_id
            if owner != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    def generation_error(self, generation: int) -> ErrorCode:
        """Safeguard: whoever speaks for another generation is not heard."""
        return ErrorCode.none if generation == self.generation else ErrorCode.illegal_generation

    def add(self, member: Member) -> None:
        if not self.members:
            self.leader = None
        self.members[member.id] = member
        self._take(member.weight)
        if self.leader is None:
            self.leader = member.id
        if member.instance_id is not None:
            self.static[member.instance_id] = member.id
        self.forget_pending(member.id)

    def remove(self, member: Member) -> None:
        member.session.cancel()
        del self.members[member.id]
        self._take(-member.weight)
        self.pending_sync.pop(member.id, None)
        if member.instance_id is not None:
            self.static.pop(member.instance_id, None)
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member came back under its instance id: same place and assignment, another member id."""
        old_id, before = member.id, member.weight
        member.id = new_id
        self._take(member.weight - before)
        self.members = {each.id: each for each in self.members.values()}
        self.pending_sync = {new_id if each == old_id else each: None for each in self.pending_sync}
        if member.instance_id is not None:
            self.static[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id

    def await_join(self, member_id: str, alarm: Alarm) -> None:
        self.pending[member_id] = alarm
        self._take(rooms.MEMBER_ID + len(member_id))

    def forget_pending(self, member_id: str) -> bool:
        alarm = self.pending.pop(member_id, None)
        if alarm is not None:
            alarm.cancel()
            self._take(-rooms.MEMBER_ID - len(member_id))
        return alarm is not None

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        before, member.protocols = member.weight, protocols
        self._take(member.weight - before)

    def set_assignment(self, member: Member, assignment: bytes) -> None:
        before, member.assignment = member.weight, assignment
        self._take(member.weight - before)

    @property
    def is_void(self) -> bool:
        """Nothing of it was ever stored, nobody is in it or on the way: it may be forgotten without a word."""
        return (
            self.state == EMPTY
            and not self.generation
            and not (self.members or self.pending or self.offsets or self.pending_commits)
        )

    def _take(self, size: int) -> None:
        self.weight += size
        self.room.used += size

    @property
    def all_joined(self) -> bool:
        return not self.pending and all(member.join_token is not None for member in self.members.values())

    @property
    def rebalance_timeout(self) -> int:
        return max((member.rebalance_timeout for member in self.members.values()), default=0)

    def has_room(self, member_id: str, limit: int) -> bool:
        if self.state in (EMPTY, DEAD):
            return True
        member = self.members.get(member_id)
        if self.state == PREPARING:
            waiting = sum(each.join_token is not None for each in self.members.values())
            return (member is not None and member.join_token is not None) or waiting < limit
        return member is not None or len(self.members) < limit

    # --- protocols ---------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """All members of a group have a protocol in common."""
        if not protocol_type or not protocols:
            return False
        if self.state == EMPTY or not self.members:
            return True
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(name in common for name, _ in protocols)

    def _common_protocols(self) -> tuple[str, ...]:
        members = list(self.members.values())
        names = (name for name, _ in members[0].protocols)
        return tuple(n for n in names if all(any(n == each for each, _ in m.protocols) for m in members))

    def chosen_protocol(self) -> str:
        """Each member votes for the first protocol in its list that all have; the first with most votes wins."""
        common = self._common_protocols()
        votes: dict[str, int] = dict.fromkeys(common, 0)
        for member in self.members.values():
            votes[member.vote(common)] += 1
        return max(votes, key=lambda name: votes[name])

    def subscribes(self, topic: str) -> bool:
        """Offsets of topics in use neither expire nor are deleted."""
        if self.subscribed is None:
            return self.uses_consumer_protocol and bool(self.members)
        return topic in self.subscribed

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == subscription.CONSUMER

    # --- states ------------------------------------------------------------------------------------------------------

    def become(self, state: str, wall: int) -> None:
        self.state = state
        self.state_since = wall

    def elect_leader(self) -> bool:
        """The leader keeps its place if it joined again. False: nobody joined."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.join_token is None:
            joined = next((m.id for m in self.members.values() if m.join_token is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def next_generation(self, wall: int) -> None:
        self.generation = (self.generation + 1) % 2**31 or 1  # 0 is a group that never had one
        self.storing = NO_GENERATION
        self.pending_sync = dict.fromkeys(self.members)
        if self.members:
            self.protocol = self.chosen_protocol()
            self.become(COMPLETING, wall)
        else:
            self.protocol = None
            self.leader = None
            self.become(EMPTY, wall)
        self.resubscribe()

    def resubscribe(self) -> None:
        known = self.uses_consumer_protocol
        self.subscribed = subscription.topics_of(self) if known else None

    def stored(self, assignments: Mapping[str, bytes]) -> StoredGroup:
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp=self.state_since,
            members=tuple(m.stored(self.protocol, assignments.get(m.id, b"")) for m in self.members.values()),
        )

    def silence(self) -> None:
        """It is coordinated here no longer, or is gone."""
        self._take(-self.weight)
        for alarm in (self.join_alarm, self.sync_alarm, *self.pending.values()):
            alarm.cancel()
        for member in self.members.values():
            member.session.cancel()
