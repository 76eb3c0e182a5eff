"""From one generation to the next.

Any change of the members begins a rebalance. It ends when every member has joined again, or at the longest rebalance
timeout of the members: those that have not joined by then are removed (static members stay until their session ends).
A group's first rebalance waits a little longer instead, so that consumers started together meet in one generation.

Notes: group_rebalancing(group, generation, reason), group_generation(group, generation, members, leader).
"""

from __future__ import annotations

from insync.groups import answers
from insync.groups.group import COMPLETING, DEAD, EMPTY, PREPARING, STABLE, Group
from insync.groups.member import Member
from insync.groups.shard import Shard
from insync.wire.errors import ErrorCode


def on_members_changed(shard: Shard, group: Group, reason: str, now: int) -> None:
    """Begin a rebalance, or end the current one if that is now possible."""
    if group.state in (EMPTY, COMPLETING, STABLE):
        prepare_rebalance(shard, group, reason, now)
    else:
        complete_join_if_all_joined(shard, group, now)


def prepare_rebalance(shard: Shard, group: Group, reason: str, now: int) -> None:
    if group.state == COMPLETING:
        cancel_assignment(shard, group, ErrorCode.rebalance_in_progress)
    group.pending_sync.clear()
    group.sync_timer.cancel()
    group.is_initial_rebalance = group.state == EMPTY
    group.set_state(PREPARING, shard.wall_clock_ms(now))
    shard.out.note("group_rebalancing", group=group.id, generation=group.generation, reason=reason)
    if group.is_initial_rebalance:
        delay_ms = shard.config.group_initial_rebalance_delay_ms
        group.new_member_added = False
        group.initial_delays_ms = (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.join_timer.set(now + delay_ms)
    elif group.have_all_joined:
        complete_join(shard, group, now)
    else:
        group.join_timer.set(now + group.rebalance_timeout_ms)


def complete_join_if_all_joined(shard: Shard, group: Group, now: int) -> None:
    """The first rebalance of a group ends at its timeout only."""
    if group.state == PREPARING and not group.is_initial_rebalance and group.have_all_joined:
        complete_join(shard, group, now)


def on_join_timeout(shard: Shard, group: Group, now: int) -> None:
    delay_ms, remaining_ms = group.initial_delays_ms
    if group.is_initial_rebalance and group.new_member_added and remaining_ms:
        group.new_member_added = False
        next_delay_ms = min(shard.config.group_initial_rebalance_delay_ms, remaining_ms)
        group.initial_delays_ms = (next_delay_ms, max(remaining_ms - delay_ms, 0))
        group.join_timer.set(now + next_delay_ms)
    elif group.state == PREPARING:
        complete_join(shard, group, now)


def complete_join(shard: Shard, group: Group, now: int) -> None:
    """Begin the next generation with the members that joined, and the static members whose session has not ended."""
    group.join_timer.cancel()
    group.is_initial_rebalance = False
    for member in [member for member in group.members.values() if member.join_token is None and not member.is_static]:
        group.remove(member)
    if group.members and not group.elect_leader():
        group.join_timer.set(now + group.rebalance_timeout_ms)  # no member could assign: wait for one to join
        return
    group.begin_generation(shard.wall_clock_ms(now))
    shard.out.note(
        "group_generation",
        group=group.id,
        generation=group.generation,
        members=len(group.members),
        leader=group.leader or "",
    )
    if group.state == EMPTY:
        shard.store_group(group.to_record({}), group.id, lambda _error, _now: None, now)
        return
    for member in group.members.values():
        answers.answer_join(shard.out, member, answers.join_response(group, member))
        member.is_new = False
        member.extend_session(now)
    group.sync_timer.set(now + group.rebalance_timeout_ms)


def cancel_assignment(shard: Shard, group: Group, error: ErrorCode) -> None:
    for member in group.members.values():
        group.set_assignment(member, b"")
        answers.answer_sync(shard.out, group, member, error)


def store_assignment(shard: Shard, group: Group, assignments: dict[str, bytes], now: int) -> None:
    """Store the leader's assignment. Members get it once it is committed, so that no coordinator can forget it."""
    generation = group.storing_generation = group.generation
    stored = {member_id: assignments.get(member_id, b"") for member_id in group.members}

    def on_stored(error: ErrorCode, now: int) -> None:
        if shard.is_closed or not is_generation_current(group, generation):
            return
        if error is ErrorCode.none:
            _deliver(shard, group, stored, now)
        else:
            cancel_assignment(shard, group, error)
            on_members_changed(shard, group, f"the assignment could not be stored: {error.name}", now)

    shard.store_group(group.to_record(stored), group.id, on_stored, now)


def is_generation_current(group: Group, generation: int) -> bool:
    """Safeguard, G3: an assignment belongs to the generation it was made for."""
    return group.state == COMPLETING and group.generation == generation


def _deliver(shard: Shard, group: Group, assignments: dict[str, bytes], now: int) -> None:
    group.set_state(STABLE, shard.wall_clock_ms(now))
    for member in group.members.values():
        group.set_assignment(member, assignments.get(member.id, b""))
        if answers.answer_sync(shard.out, group, member, ErrorCode.none):
            member.extend_session(now)


def record_sync(group: Group, member: Member) -> None:
    group.pending_sync.pop(member.id, None)
    if not group.pending_sync:
        group.sync_timer.cancel()


def on_sync_timeout(shard: Shard, group: Group, now: int) -> None:
    """Remove the members that joined and did not ask for their assignment."""
    if group.state not in (COMPLETING, STABLE) or not group.pending_sync:
        return
    for member_id in list(group.pending_sync):
        group.remove(group.members[member_id])
    prepare_rebalance(shard, group, "members did not ask for their assignment", now)


def on_session_timeout(shard: Shard, group: Group, member: Member, now: int) -> None:
    if group.members.get(member.id) is member and group.state != DEAD and not member.is_waiting_for_answer():
        remove_member(shard, group, member)
        on_member_gone(shard, group, f"the session of {member.id} ended", now)


def remove_member(shard: Shard, group: Group, member: Member) -> None:
    answers.refuse_join(shard.out, member, "", ErrorCode.unknown_member_id)
    answers.answer_sync(shard.out, group, member, ErrorCode.unknown_member_id)
    group.remove(member)


def on_member_gone(shard: Shard, group: Group, reason: str, now: int) -> None:
    if group.state in (STABLE, COMPLETING):
        on_members_changed(shard, group, reason, now)
    elif group.state == PREPARING and group.have_all_joined:
        complete_join(shard, group, now)
