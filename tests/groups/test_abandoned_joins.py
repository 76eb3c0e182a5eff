"""A join whose connection has ended: whoever was never in a generation is not waited for."""

from __future__ import annotations

from group_world import DELAY, World

from insync.wire.errors import ErrorCode
from insync.wire.messages import join_group
from insync.wire.types import ms


def abandon(world: World, token: int, group: str = "g") -> None:
    request = join_group.JoinGroupRequest(
        group_id=group,
        session_timeout=ms(10_000),
        rebalance_timeout=ms(10_000),
        member_id="",
        group_instance_id=None,
        protocol_type="consumer",
        protocols=(),
    )
    world.coordinator.abandon_join(request, token, world.now)
    world.drain()


def test_a_newcomer_that_has_gone_gets_no_assignment() -> None:
    world = World()
    gone, lost = world.enter()
    stays, token = world.enter()
    abandon(world, lost)
    world.advance(2 * DELAY)
    assert list(world.groups["g"].members) == [stays]
    assert world.answers[token].error_code is ErrorCode.none
    assert gone not in world.groups["g"].members
    assert lost in world.answers, "every request has its answer"


def test_a_member_of_a_generation_keeps_its_place_until_its_session_ends() -> None:
    world = World()
    (first, second), _ = world.stable()
    token = world.join(second, protocols=(("range", b"other"),))
    abandon(world, token)
    assert list(world.groups["g"].members) == [first, second]


def test_an_answered_or_unknown_join_is_abandoned_without_effect() -> None:
    world = World()
    members, _ = world.stable()
    abandon(world, 1)
    abandon(world, 99, group="nobody")
    assert list(world.groups["g"].members) == members
