"""One group: its members, its generation, and the offsets it has committed.

    Empty -> PreparingRebalance -> CompletingRebalance -> Stable -> PreparingRebalance ...

A generation is a fixed set of members under one protocol. It begins when every member has joined or the rebalance
timeout has passed (CompletingRebalance), and takes effect when its leader's assignment is committed to the log
(Stable). Any change of the members begins the next one. Dead is a group that is being deleted.

This class holds and checks state; `rebalancing` decides when members are answered, and what.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from insync.groups import memory_budget, subscription
from insync.groups.member import Member, Protocols
from insync.groups.memory_budget import MemoryBudget
from insync.groups.records import CommittedOffset, StoredGroup
from insync.groups.timers import Timer, Timers
from insync.wire.errors import ErrorCode

EMPTY = "Empty"
PREPARING = "PreparingRebalance"
COMPLETING = "CompletingRebalance"
STABLE = "Stable"
DEAD = "Dead"

NO_GENERATION = -1

TopicPartition = tuple[str, int]
"""(topic, partition)."""


class Group:
    __slots__ = (
        "generation",
        "id",
        "initial_delays_ms",
        "is_initial_rebalance",
        "join_timer",
        "leader",
        "members",
        "memory",
        "new_member_added",
        "offsets",
        "pending_commits",
        "pending_members",
        "pending_sync",
        "protocol",
        "protocol_type",
        "size_bytes",
        "state",
        "state_since_ms",
        "static_members",
        "storing_generation",
        "subscribed_topics",
        "sync_timer",
    )

    def __init__(
        self,
        group_id: str,
        timers: Timers,
        memory: MemoryBudget,
        *,
        on_join_timeout: Callable[[Group, int], None],
        on_sync_timeout: Callable[[Group, int], None],
    ) -> None:
        self.id = group_id
        self.memory = memory
        self.size_bytes = 0
        self._charge(memory_budget.GROUP_BYTES + len(group_id))
        self.state = EMPTY
        self.state_since_ms = -1  # wall-clock time, as offsets expire by it
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.pending_members: dict[str, Timer] = {}  # have a member id and have not joined with it yet
        self.pending_sync: dict[str, None] = {}  # have not asked for their assignment of this generation yet
        self.subscribed_topics: tuple[str, ...] | None = None  # None: unknown
        self.is_initial_rebalance = False  # this rebalance started from Empty
        self.initial_delays_ms = (0, 0)  # (the current delay, how much longer it may become)
        self.new_member_added = False
        self.storing_generation = NO_GENERATION  # the generation whose assignment is being written to the log
        self.join_timer = timers.create(lambda now: on_join_timeout(self, now))
        self.sync_timer = timers.create(lambda now: on_sync_timeout(self, now))
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.pending_commits: dict[TopicPartition, int] = {}  # appended, not yet committed

    # --- members -----------------------------------------------------------------------------------------------------

    def member_error(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Whether this is a member. A process whose instance id another process has taken over is fenced."""
        if instance_id is not None:
            owner = self.static_members.get(instance_id)
            if owner is None:
                return ErrorCode.unknown_member_id
            if owner != member_id:
                return ErrorCode.fenced_instance_id
        return ErrorCode.none if member_id in self.members else ErrorCode.unknown_member_id

    def generation_error(self, generation: int) -> ErrorCode:
        """Safeguard: requests of another generation are refused."""
        return ErrorCode.none if generation == self.generation else ErrorCode.illegal_generation

    def add(self, member: Member) -> None:
        if not self.members:
            self.leader = None
        self.members[member.id] = member
        self._charge(member.size_bytes)
        if self.leader is None:
            self.leader = member.id
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.id
        self.forget_pending(member.id)

    def remove(self, member: Member) -> None:
        member.session_timer.cancel()
        del self.members[member.id]
        self._charge(-member.size_bytes)
        self.pending_sync.pop(member.id, None)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def rename(self, member: Member, new_id: str) -> None:
        """A static member came back under its instance id: it keeps place and assignment under another member id."""
        old_id, before = member.id, member.size_bytes
        member.id = new_id
        self._charge(member.size_bytes - before)
        self.members = {member.id: member for member in self.members.values()}
        self.pending_sync = {new_id if pending == old_id else pending: None for pending in self.pending_sync}
        if member.instance_id is not None:
            self.static_members[member.instance_id] = new_id
        if self.leader == old_id:
            self.leader = new_id

    def await_join(self, member_id: str, timer: Timer) -> None:
        self.pending_members[member_id] = timer
        self._charge(memory_budget.MEMBER_ID_BYTES + len(member_id))

    def forget_pending(self, member_id: str) -> bool:
        timer = self.pending_members.pop(member_id, None)
        if timer is not None:
            timer.cancel()
            self._charge(-memory_budget.MEMBER_ID_BYTES - len(member_id))
        return timer is not None

    def set_protocols(self, member: Member, protocols: Protocols) -> None:
        before, member.protocols = member.size_bytes, protocols
        self._charge(member.size_bytes - before)

    def set_assignment(self, member: Member, assignment: bytes) -> None:
        before, member.assignment = member.size_bytes, assignment
        self._charge(member.size_bytes - before)

    @property
    def is_unused(self) -> bool:
        """Nothing of it was ever stored, and it has no members, present or pending: it may be forgotten."""
        return (
            self.state == EMPTY
            and not self.generation
            and not (self.members or self.pending_members or self.offsets or self.pending_commits)
        )

    def _charge(self, size: int) -> None:
        self.size_bytes += size
        self.memory.used += size

    @property
    def have_all_joined(self) -> bool:
        return not self.pending_members and all(member.join_token is not None for member in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def can_admit(self, member_id: str, limit: int) -> bool:
        if self.state in (EMPTY, DEAD):
            return True
        member = self.members.get(member_id)
        if self.state == PREPARING:
            waiting = sum(member.join_token is not None for member in self.members.values())
            return (member is not None and member.join_token is not None) or waiting < limit
        return member is not None or len(self.members) < limit

    # --- protocols ---------------------------------------------------------------------------------------------------

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether the group has a protocol in common with a member that offers these."""
        if not protocol_type or not protocols:
            return False
        if self.state == EMPTY or not self.members:
            return True
        common = self._common_protocols()
        return protocol_type == self.protocol_type and any(name in common for name, _ in protocols)

    def _common_protocols(self) -> tuple[str, ...]:
        members = list(self.members.values())
        names = (name for name, _ in members[0].protocols)
        return tuple(name for name in names if all(name in dict(member.protocols) for member in members))

    def chosen_protocol(self) -> str:
        """Each member votes for the first protocol in its list that all have; the first with most votes wins."""
        common = self._common_protocols()
        votes: dict[str, int] = dict.fromkeys(common, 0)
        for member in self.members.values():
            votes[member.vote_for_protocol(common)] += 1
        return max(votes, key=lambda name: votes[name])

    def subscribes(self, topic: str) -> bool:
        """Offsets of subscribed topics neither expire nor are deleted."""
        if self.subscribed_topics is None:
            return self.uses_consumer_protocol and bool(self.members)
        return topic in self.subscribed_topics

    @property
    def uses_consumer_protocol(self) -> bool:
        return self.protocol_type == subscription.CONSUMER

    # --- states ------------------------------------------------------------------------------------------------------

    def set_state(self, state: str, wall_ms: int) -> None:
        self.state = state
        self.state_since_ms = wall_ms

    def elect_leader(self) -> bool:
        """The leader stays if it has joined again. False if no member has joined."""
        leader = self.members.get(self.leader or "")
        if leader is None or leader.join_token is None:
            joined = next((member.id for member in self.members.values() if member.join_token is not None), None)
            if joined is None:
                return False
            self.leader = joined
        return True

    def begin_generation(self, wall_ms: int) -> None:
        self.generation = (self.generation + 1) % 2**31 or 1  # 0 is a group that never had one
        self.storing_generation = NO_GENERATION
        self.pending_sync = dict.fromkeys(self.members)
        if self.members:
            self.protocol = self.chosen_protocol()
            self.set_state(COMPLETING, wall_ms)
        else:
            self.protocol = None
            self.leader = None
            self.set_state(EMPTY, wall_ms)
        self.update_subscription()

    def update_subscription(self) -> None:
        metadata = (member.metadata(self.protocol) for member in self.members.values())
        self.subscribed_topics = subscription.read_all_topics(metadata) if self.uses_consumer_protocol else None

    def to_record(self, assignments: Mapping[str, bytes]) -> StoredGroup:
        return StoredGroup(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            state_timestamp=self.state_since_ms,
            members=tuple(
                member.to_record(self.protocol, assignments.get(member.id, b"")) for member in self.members.values()
            ),
        )

    def close(self) -> None:
        """The group was deleted, or is no longer coordinated here."""
        self._charge(-self.size_bytes)
        self.cancel_timers()

    def cancel_timers(self) -> None:
        for timer in (self.join_timer, self.sync_timer, *self.pending_members.values()):
            timer.cancel()
        for member in self.members.values():
            member.session_timer.cancel()
