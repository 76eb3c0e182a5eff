"""A node that was stalled does not hold that time against other nodes."""

from __future__ import annotations

from insync.node.node import LATE_MS
from insync.sansio import Effect, Note, Request, Timer
from tests.node.node_harness import Net, produce_request, three_brokers

STALL_MS = 60_000
"""Longer than the lag time and the session timeout."""


def stalled() -> tuple[Net, list[Effect]]:
    """Node 1, leader and controller, stalls; a record that came meanwhile is appended before its timers fire."""
    net = three_brokers().up()
    net.create("t", (1, 2, 3))
    net.advance(5_000)
    assert net.partition("t").isr == (1, 2, 3)
    net.now += STALL_MS
    effects = net.step(1, Request(net.new_token(), produce_request(net.partition("t"), acks=1)))
    return net, effects + net.step(1, Timer())


def kinds(effects: list[Effect]) -> list[str]:
    return [effect.kind for effect in effects if isinstance(effect, Note)]


def test_a_stalled_leader_does_not_take_followers_out_of_the_isr() -> None:
    """I1: they could not fetch from it meanwhile."""
    _, effects = stalled()
    assert "isr_shrink_proposed" not in kinds(effects)


def test_a_stalled_controller_does_not_fence_brokers() -> None:
    """B4: their heartbeats are unread."""
    net, effects = stalled()
    assert "broker_fenced" not in kinds(effects)
    assert not any(broker.fenced for broker in net.nodes[1].image.brokers.values())


def test_a_broker_that_stays_silent_after_that_is_fenced_in_the_usual_time() -> None:
    """B4."""
    net, effects = stalled()
    net.carry_out(net.nodes[1], effects)
    net.cut(2)
    net.advance(9_000 + 2_500)
    assert net.nodes[1].image.brokers[2].fenced
    assert not net.nodes[1].image.brokers[3].fenced
    assert 2 not in net.partition("t").isr


def test_a_follower_that_stays_behind_after_that_leaves_the_isr() -> None:
    """I1: the lag time starts again when the leader runs again."""
    net, effects = stalled()
    net.carry_out(net.nodes[1], effects)
    net.run()
    net.hold.append((2, "fetch"))
    for _ in range(60):
        net.produce(1, "t", acks=1)
        net.advance(1_000)
    assert net.partition("t").isr == (1, 3)


def test_a_node_that_is_always_a_little_late_still_acts_on_its_deadlines() -> None:
    """I1."""
    net = three_brokers().up()
    net.create("t", (1, 2, 3))
    net.advance(5_000)
    net.hold.append((2, "fetch"))
    for _ in range(400):
        net.produce(1, "t", acks=1)
        net.now += LATE_MS * 3
        net.advance(LATE_MS * 3)
    assert 2 not in net.partition("t").isr
