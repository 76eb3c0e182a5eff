"""From one generation to the next.

Any change of the members begins a rebalance. It ends when every member has joined again, or when the slowest one's
rebalance timeout is over: whoever has not joined by then is out (static members stay, until their session ends). A
group's first rebalance waits a little longer instead, so that consumers started together meet in one generation.

Notes: group_rebalancing(group, generation, reason), group_generation(group, generation, members, leader).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from insync.groups import answers
from insync.groups.group import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, Group
from insync.groups.member import Member
from insync.wire.errors import ErrorCode

if TYPE_CHECKING:
    from insync.groups.shard import Shard


def members_changed(shard: Shard, group: Group, reason: str, now: int) -> None:
    """Begin a rebalance, or see whether the one that runs can end."""
    if group.state in (EMPTY, COMPLETING, STABLE):
        prepare(shard, group, reason, now)
    else:
        maybe_complete(shard, group, now)


def prepare(shard: Shard, group: Group, reason: str, now: int) -> None:
    if group.state == COMPLETING:
        give_up_assignment(shard, group, ErrorCode.rebalance_in_progress)
    group.pending_sync.clear()
    group.sync_alarm.cancel()
    group.initial = group.state == EMPTY
    group.become(PREPARING, shard.wall(now))
    shard.out.note("group_rebalancing", group=group.id, generation=group.generation, reason=reason)
    if group.initial:
        delay = shard.config.group_initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_wait = (delay, max(group.rebalance_timeout - delay, 0))
        group.join_alarm.set(now + delay)
    elif group.all_joined:
        complete_join(shard, group, now)
    else:
        group.join_alarm.set(now + group.rebalance_timeout)


def maybe_complete(shard: Shard, group: Group, now: int) -> None:
    """A first rebalance ends by its own clock."""
    if group.state == PREPARING and not group.initial and group.all_joined:
        complete_join(shard, group, now)


def join_alarm_rang(shard: Shard, group: Group, now: int) -> None:
    delay, remaining = group.initial_wait
    if group.initial and group.new_member_added and remaining:
        group.new_member_added = False
        longer = min(shard.config.group_initial_rebalance_delay_ms, remaining)
        group.initial_wait = (longer, max(remaining - delay, 0))
        group.join_alarm.set(now + longer)
    elif group.state == PREPARING:
        complete_join(shard, group, now)


def complete_join(shard: Shard, group: Group, now: int) -> None:
    """The next generation: of those who joined, and of static members who still have their session."""
    group.join_alarm.cancel()
    group.initial = False
    for member in [m for m in group.members.values() if m.join_token is None and not m.is_static]:
        group.remove(member)
    if group.members and not group.elect_leader():
        group.join_alarm.set(now + group.rebalance_timeout)  # nobody could assign: wait for somebody to join
        return
    group.next_generation(shard.wall(now))
    shard.out.note(
        "group_generation",
        group=group.id,
        generation=group.generation,
        members=len(group.members),
        leader=group.leader or "",
    )
    if group.state == EMPTY:
        shard.store_group(group.stored({}), group.id, lambda _error, _now: None, now)
        return
    for member in group.members.values():
        answers.answer_join(shard.out, member, answers.joined(group, member))
        member.is_new = False
        member.heard(now)
    group.sync_alarm.set(now + group.rebalance_timeout)


def give_up_assignment(shard: Shard, group: Group, error: ErrorCode) -> None:
    for member in group.members.values():
        group.set_assignment(member, b"")
        answers.answer_sync(shard.out, group, member, error)


def store_assignment(shard: Shard, group: Group, assignments: dict[str, bytes], now: int) -> None:
    """The leader has assigned: nobody hears of it before it is committed, so that no coordinator can forget it."""
    generation = group.storing = group.generation
    given = {member_id: assignments.get(member_id, b"") for member_id in group.members}

    def on_stored(error: ErrorCode, now: int) -> None:
        if shard.closed or not in_force(group, generation):
            return
        if error is ErrorCode.none:
            _deliver(shard, group, given, now)
        else:
            give_up_assignment(shard, group, error)
            members_changed(shard, group, f"the assignment could not be stored: {error.name}", now)

    shard.store_group(group.stored(given), group.id, on_stored, now)


def in_force(group: Group, generation: int) -> bool:
    """Safeguard, G3: an assignment belongs to the generation it was made for."""
    return group.state == COMPLETING and group.generation == generation


def _deliver(shard: Shard, group: Group, assignments: dict[str, bytes], now: int) -> None:
    group.become(STABLE, shard.wall(now))
    for member in group.members.values():
        group.set_assignment(member, assignments.get(member.id, b""))
        if answers.answer_sync(shard.out, group, member, ErrorCode.none):
            member.heard(now)


def sync_received(group: Group, member: Member) -> None:
    group.pending_sync.pop(member.id, None)
    if not group.pending_sync:
        group.sync_alarm.cancel()


def sync_alarm_rang(shard: Shard, group: Group, now: int) -> None:
    """Members that joined and never asked for their assignment are out."""
    if group.state not in (COMPLETING, STABLE) or not group.pending_sync:
        return
    for member_id in list(group.pending_sync):
        group.remove(group.members[member_id])
    prepare(shard, group, "members did not ask for their assignment", now)


def session_expired(shard: Shard, group: Group, member: Member, now: int) -> None:
    if group.members.get(member.id) is member and group.state != DEAD and not member.excused():
        remove_member(shard, group, member)
        member_gone(shard, group, f"the session of {member.id} ended", now)


def remove_member(shard: Shard, group: Group, member: Member) -> None:
    answers.refuse_join(shard.out, member, "", ErrorCode.unknown_member_id)
    answers.answer_sync(shard.out, group, member, ErrorCode.unknown_member_id)
    group.remove(member)


def member_gone(shard: Shard, group: Group, reason: str, now: int) -> None:
    if group.state in (STABLE, COMPLETING):
        members_changed(shard, group, reason, now)
    elif group.state == PREPARING and group.all_joined:
        complete_join(shard, group, now)
