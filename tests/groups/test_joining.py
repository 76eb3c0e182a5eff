"""JoinGroup: member ids, generations, protocols."""

from __future__ import annotations

import pytest
from group_world import DELAY, REBALANCE, SESSION, World

from insync.groups.coordinator import partition_for
from insync.sansio import Client
from insync.wire.errors import ErrorCode


def test_a_newcomer_gets_a_member_id_before_it_may_join() -> None:
    """W21."""
    world = World()
    answer = world.answers[world.join(client=Client("app", "/10.0.0.1", 5))]
    assert answer.error_code is ErrorCode.member_id_required
    assert answer.member_id.startswith("app-")
    assert not world.groups["g"].members


def test_clients_before_version_4_join_at_once() -> None:
    world = World()
    token = world.join(client=Client("app", "/10.0.0.1", 3))
    world.advance(DELAY)
    assert world.answers[token].error_code is ErrorCode.none
    assert world.answers[token].generation_id == 1


def test_the_first_rebalance_waits_for_others() -> None:
    world = World()
    _, first = world.enter()
    world.advance(DELAY - 1)
    assert first not in world.answers
    _, second = world.enter()
    world.advance(DELAY - 1)
    assert first not in world.answers, "a newcomer prolongs the wait"
    world.advance(2)
    assert world.answers[first].generation_id == world.answers[second].generation_id == 1


def test_the_first_rebalance_does_not_wait_longer_than_the_rebalance_timeout() -> None:
    world = World()
    _, first = world.enter(rebalance=2 * DELAY)
    for _ in range(4):
        world.advance(DELAY // 2)
        world.enter(rebalance=2 * DELAY)
    world.advance(1)
    assert world.answers[first].generation_id == 1


def test_only_the_leader_sees_the_members() -> None:
    world = World()
    entered = [world.enter(protocols=(("range", b"%d" % n),)) for n in range(3)]
    world.advance(2 * DELAY)
    answers = {member: world.answers[token] for member, token in entered}
    leader = answers[entered[0][0]].leader
    for member, answer in answers.items():
        seen = {each.member_id: each.metadata for each in answer.members}
        expected = {m: b"%d" % n for n, (m, _) in enumerate(entered)} if member == leader else {}
        assert seen == expected


def test_a_newcomer_starts_a_rebalance_that_the_others_have_to_join() -> None:
    world = World()
    ids, generation = world.stable(2)
    _, third = world.enter()
    assert world.heartbeat(ids[0], generation) == "rebalance_in_progress"
    again = [world.join(member) for member in ids]
    assert {world.answers[token].generation_id for token in (*again, third)} == {generation + 1}


def test_a_member_that_does_not_join_again_in_time_is_out() -> None:
    world = World()
    ids, generation = world.stable(2)
    _, third = world.enter()
    again = world.join(ids[1])
    for _ in range(REBALANCE // 5_000):
        world.advance(5_000)
        world.heartbeat(ids[0], generation)
    assert world.answers[third].generation_id == world.answers[again].generation_id == generation + 1
    assert ids[0] not in world.groups["g"].members
    assert world.heartbeat(ids[0], generation) == "unknown_member_id"


def test_a_rebalance_waits_for_whoever_was_given_a_member_id() -> None:
    world = World()
    ids, generation = world.stable(1)
    given = world.answers[world.join()].member_id
    again = world.join(ids[0])
    assert again not in world.answers
    last = world.join(given)
    assert world.answers[again].generation_id == world.answers[last].generation_id == generation + 1


def test_a_member_id_that_is_not_used_within_the_session_is_forgotten() -> None:
    world = World()
    given = world.answers[world.join()].member_id
    world.advance(SESSION)
    answer = world.answers[world.join(given)]
    assert answer.error_code is ErrorCode.unknown_member_id


def test_a_lost_join_answer_is_given_again() -> None:
    world = World()
    member, token = world.enter()
    world.advance(DELAY)
    assert world.answers[world.join(member)] == world.answers[token]


def test_a_follower_that_joins_a_stable_group_unchanged_disturbs_nobody() -> None:
    world = World()
    ids, generation = world.stable(2)
    assert world.answers[world.join(ids[1])].generation_id == generation
    assert world.groups["g"].state == "Stable"


def test_a_leader_that_joins_a_stable_group_starts_a_rebalance() -> None:
    world = World()
    ids, _ = world.stable(2)
    token = world.join(ids[0])
    assert token not in world.answers
    assert world.groups["g"].state == "PreparingRebalance"


def test_a_join_that_is_repeated_gets_one_answer_each() -> None:
    world = World()
    ids, generation = world.stable(2)
    first = world.join(ids[0])
    second = world.join(ids[0])
    world.join(ids[1])
    assert world.answers[first].error_code is ErrorCode.rebalance_in_progress
    assert world.answers[second].generation_id == generation + 1


def test_the_protocol_is_one_that_all_have_and_most_prefer() -> None:
    world = World()
    lists = ("abc", "bca", "cba", "cb", "cab")
    tokens = [world.enter(protocols=tuple((name, b"") for name in names))[1] for names in lists]
    world.advance(2 * DELAY)
    assert [world.answers[token].protocol_name for token in tokens] == ["c"] * 5


def test_a_member_without_a_common_protocol_is_refused() -> None:
    world = World()
    world.stable(1)
    for fields in ({"protocols": (("other", b""),)}, {"kind": "connect"}, {"protocols": ()}, {"kind": ""}):
        answer = world.answers[world.join(**fields)]  # type: ignore[arg-type]
        assert answer.error_code is ErrorCode.inconsistent_group_protocol


def test_a_full_group_takes_nobody_in() -> None:
    world = World(group_max_size=2)
    world.stable(2)
    answer = world.answers[world.join(client=Client(version=3))]
    assert answer.error_code is ErrorCode.group_max_size_reached


@pytest.mark.parametrize("session", [5_999, 1_800_001])
def test_session_timeouts_have_limits(session: int) -> None:
    world = World()
    assert world.answers[world.join(session=session)].error_code is ErrorCode.invalid_session_timeout


def test_a_group_has_a_name() -> None:
    world = World()
    assert world.answers[world.join(group="")].error_code is ErrorCode.invalid_group_id


def test_names_that_no_record_could_hold_are_refused() -> None:
    """Newer requests have no limit of their own; the records' strings end at 32767 bytes."""
    world = World()
    long = "\u00e4" * 16_400
    assert world.answers[world.join(group=long)].error_code is ErrorCode.invalid_group_id
    assert world.committed(1, group=long) == "invalid_group_id"
    for fields in ({"instance": long}, {"kind": long}, {"protocols": ((long, b""),)}, {"client": Client("x" * 32_760)}):
        assert world.answers[world.join(**fields)].error_code is ErrorCode.invalid_request  # type: ignore[arg-type]
    assert not world.groups


def test_members_of_an_unknown_group_are_unknown() -> None:
    world = World()
    assert world.answers[world.join("somebody")].error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("group", "java_hash"), [("", 0), ("hello", 99162322), ("Hello World", -862545276), ("\U0001f600", 1772899)]
)
def test_groups_are_spread_as_kafka_spreads_them(group: str, java_hash: int) -> None:
    """By Java's String.hashCode, over UTF-16, without its sign."""
    assert partition_for(group, 50) == (java_hash & 0x7FFFFFFF) % 50
