"""A join whose connection has ended: the group does not wait for a new member that is gone."""

from __future__ import annotations

from insync.wire.errors import ErrorCode
from insync.wire.messages import join_group
from insync.wire.types import ms
from tests.groups.group_harness import DELAY, GroupHarness


def abandon(harness: GroupHarness, token: int, group: str = "g") -> None:
    request = join_group.JoinGroupRequest(
        group_id=group,
        session_timeout=ms(10_000),
        rebalance_timeout=ms(10_000),
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=(),
    )
    harness.coordinator.abandon_join(request, token, harness.now)
    harness.drain()


def test_a_new_member_that_disconnected_gets_no_assignment() -> None:
    harness = GroupHarness()
    gone, lost = harness.enter()
    stays, token = harness.enter()
    abandon(harness, lost)
    harness.advance(2 * DELAY)
    assert list(harness.groups["g"].members) == [stays]
    assert harness.answers[token].error_code is ErrorCode.none
    assert gone not in harness.groups["g"].members
    assert lost in harness.answers, "every request has its answer"


def test_a_member_of_a_generation_keeps_its_place_until_its_session_ends() -> None:
    harness = GroupHarness()
    (first, second), _ = harness.stable()
    token = harness.join(second, protocols=(("range", b"other"),))
    abandon(harness, token)
    assert list(harness.groups["g"].members) == [first, second]


def test_an_answered_or_unknown_join_is_abandoned_without_effect() -> None:
    harness = GroupHarness()
    members, _ = harness.stable()
    abandon(harness, 1)
    abandon(harness, 99, group="missing")
    assert list(harness.groups["g"].members) == members
