"""JoinGroup: member ids, generations, protocols."""

from __future__ import annotations

import pytest

from insync.groups.coordinator import partition_for
from insync.sansio import Client
from insync.wire.errors import ErrorCode
from tests.groups.group_harness import DELAY, REBALANCE, SESSION, GroupHarness


def test_a_new_member_gets_a_member_id_before_it_may_join() -> None:
    """W21."""
    harness = GroupHarness()
    answer = harness.answers[harness.join(client=Client("app", "/10.0.0.1", 5))]
    assert answer.error_code is ErrorCode.member_id_required
    assert answer.member_id.startswith("app-")
    assert not harness.groups["g"].members


def test_clients_before_version_4_join_at_once() -> None:
    harness = GroupHarness()
    token = harness.join(client=Client("app", "/10.0.0.1", 3))
    harness.advance(DELAY)
    assert harness.answers[token].error_code is ErrorCode.none
    assert harness.answers[token].generation_id == 1


def test_the_first_rebalance_waits_for_others() -> None:
    harness = GroupHarness()
    _, first = harness.enter()
    harness.advance(DELAY - 1)
    assert first not in harness.answers
    _, second = harness.enter()
    harness.advance(DELAY - 1)
    assert first not in harness.answers, "a new member prolongs the wait"
    harness.advance(2)
    assert harness.answers[first].generation_id == harness.answers[second].generation_id == 1


def test_the_first_rebalance_does_not_wait_longer_than_the_rebalance_timeout() -> None:
    harness = GroupHarness()
    _, first = harness.enter(rebalance=2 * DELAY)
    for _ in range(4):
        harness.advance(DELAY // 2)
        harness.enter(rebalance=2 * DELAY)
    harness.advance(1)
    assert harness.answers[first].generation_id == 1


def test_only_the_leader_sees_the_members() -> None:
    harness = GroupHarness()
    entered = [harness.enter(protocols=(("range", b"%d" % n),)) for n in range(3)]
    harness.advance(2 * DELAY)
    answers = {member: harness.answers[token] for member, token in entered}
    leader = answers[entered[0][0]].leader
    for member, answer in answers.items():
        seen = {member.member_id: member.metadata for member in answer.members}
        expected = {m: b"%d" % n for n, (m, _) in enumerate(entered)} if member == leader else {}
        assert seen == expected


def test_a_new_member_starts_a_rebalance_that_the_others_have_to_join() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    _, third = harness.enter()
    assert harness.heartbeat(ids[0], generation) == "rebalance_in_progress"
    again = [harness.join(member) for member in ids]
    assert {harness.answers[token].generation_id for token in (*again, third)} == {generation + 1}


def test_a_member_that_does_not_join_again_in_time_is_removed() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    _, third = harness.enter()
    again = harness.join(ids[1])
    for _ in range(REBALANCE // 5_000):
        harness.advance(5_000)
        harness.heartbeat(ids[0], generation)
    assert harness.answers[third].generation_id == harness.answers[again].generation_id == generation + 1
    assert ids[0] not in harness.groups["g"].members
    assert harness.heartbeat(ids[0], generation) == "unknown_member_id"


def test_a_rebalance_waits_for_clients_that_were_assigned_a_member_id() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(1)
    given = harness.answers[harness.join()].member_id
    again = harness.join(ids[0])
    assert again not in harness.answers
    last = harness.join(given)
    assert harness.answers[again].generation_id == harness.answers[last].generation_id == generation + 1


def test_a_member_id_that_is_not_used_within_the_session_is_forgotten() -> None:
    harness = GroupHarness()
    given = harness.answers[harness.join()].member_id
    harness.advance(SESSION)
    answer = harness.answers[harness.join(given)]
    assert answer.error_code is ErrorCode.unknown_member_id


def test_a_repeated_join_gets_the_same_answer() -> None:
    harness = GroupHarness()
    member, token = harness.enter()
    harness.advance(DELAY)
    assert harness.answers[harness.join(member)] == harness.answers[token]


def test_a_follower_that_joins_a_stable_group_unchanged_starts_no_rebalance() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    assert harness.answers[harness.join(ids[1])].generation_id == generation
    assert harness.groups["g"].state == "Stable"


def test_a_leader_that_joins_a_stable_group_starts_a_rebalance() -> None:
    harness = GroupHarness()
    ids, _ = harness.stable(2)
    token = harness.join(ids[0])
    assert token not in harness.answers
    assert harness.groups["g"].state == "PreparingRebalance"


def test_every_repetition_of_a_join_gets_an_answer() -> None:
    harness = GroupHarness()
    ids, generation = harness.stable(2)
    first = harness.join(ids[0])
    second = harness.join(ids[0])
    harness.join(ids[1])
    assert harness.answers[first].error_code is ErrorCode.rebalance_in_progress
    assert harness.answers[second].generation_id == generation + 1


def test_the_protocol_is_one_that_all_members_have_and_most_prefer() -> None:
    harness = GroupHarness()
    lists = ("abc", "bca", "cba", "cb", "cab")
    tokens = [harness.enter(protocols=tuple((name, b"") for name in names))[1] for names in lists]
    harness.advance(2 * DELAY)
    assert [harness.answers[token].protocol_name for token in tokens] == ["c"] * 5


def test_a_member_without_a_common_protocol_is_refused() -> None:
    harness = GroupHarness()
    harness.stable(1)
    for fields in ({"protocols": (("other", b""),)}, {"kind": "connect"}, {"protocols": ()}, {"kind": ""}):
        answer = harness.answers[harness.join(**fields)]
        assert answer.error_code is ErrorCode.inconsistent_group_protocol


def test_a_full_group_admits_no_member() -> None:
    harness = GroupHarness(group_max_size=2)
    harness.stable(2)
    answer = harness.answers[harness.join(client=Client(version=3))]
    assert answer.error_code is ErrorCode.group_max_size_reached


@pytest.mark.parametrize("session", [5_999, 1_800_001])
def test_session_timeouts_have_limits(session: int) -> None:
    harness = GroupHarness()
    assert harness.answers[harness.join(session=session)].error_code is ErrorCode.invalid_session_timeout


def test_a_group_needs_a_name() -> None:
    harness = GroupHarness()
    assert harness.answers[harness.join(group="")].error_code is ErrorCode.invalid_group_id


def test_names_that_do_not_fit_a_record_are_refused() -> None:
    """Newer requests have no limit of their own; the records' strings end at 32767 bytes."""
    harness = GroupHarness()
    long = "\u00e4" * 16_400
    assert harness.answers[harness.join(group=long)].error_code is ErrorCode.invalid_group_id
    assert harness.committed(1, group=long) == "invalid_group_id"
    for fields in ({"instance": long}, {"kind": long}, {"protocols": ((long, b""),)}, {"client": Client("x" * 32_760)}):
        assert harness.answers[harness.join(**fields)].error_code is ErrorCode.invalid_request
    assert not harness.groups


def test_members_of_an_unknown_group_are_unknown() -> None:
    harness = GroupHarness()
    assert harness.answers[harness.join("unknown")].error_code is ErrorCode.unknown_member_id


@pytest.mark.parametrize(
    ("group", "java_hash"), [("", 0), ("hello", 99162322), ("Hello World", -862545276), ("\U0001f600", 1772899)]
)
def test_groups_are_spread_as_kafka_spreads_them(group: str, java_hash: int) -> None:
    """By Java's String.hashCode, over UTF-16, without its sign."""
    assert partition_for(group, 50) == (java_hash & 0x7FFFFFFF) % 50
