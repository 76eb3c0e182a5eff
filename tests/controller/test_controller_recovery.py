"""Recovery by comparing the logs (E6, E7)."""

from __future__ import annotations

from typing import Any

import pytest

from insync.metadata.partition import NO_LEADER
from tests.controller.controller_harness import Cluster


def outage(strategy: str = "balanced", **config: Any) -> Cluster:
    """All three brokers crash; broker 1, which is not in the ELR, is the first to return."""
    cluster = Cluster(**config).up(1, 2, 3)
    cluster.topic((1, 2, 3), unclean_recovery_strategy=strategy)
    cluster.fence(1)
    assert cluster.state() == (2, {2, 3}, set(), set())
    cluster.fence(2)
    assert cluster.state() == (3, {3}, {2}, set())
    cluster.fence(3)
    assert cluster.state() == (NO_LEADER, set(), {2, 3}, set())
    cluster.restart(1, clean=False)
    assert cluster.state() == (NO_LEADER, set(), {2, 3}, set())
    return cluster


def test_balanced_recovery_elects_the_longest_log_of_the_last_known_elr() -> None:
    """E6"""
    cluster = outage()
    cluster.restart(2, clean=False)
    cluster.tick()
    assert cluster.state() == (NO_LEADER, set(), {3}, {2})
    assert cluster.sends() == {}
    cluster.restart(3, clean=False)
    assert cluster.state() == (NO_LEADER, set(), set(), {2, 3})
    cluster.tick()
    requests = requests_to_members(cluster)
    assert sorted(requests) == [2, 3]
    assert {send.channel for send in requests.values()} == {"recovery"}
    cluster.respond(requests[3], last_epoch=0, leo=8)
    assert cluster.partition().leader == NO_LEADER
    cluster.respond(requests[2], last_epoch=0, leo=12)
    assert cluster.state() == (2, {2}, set(), set())
    assert cluster.partition().recovering
    (note,) = cluster.notes("unclean_recovery_finished")
    assert (note["leader"], note["possible_loss"]) == (2, True)


def requests_to_members(cluster: Cluster) -> dict[int, Any]:
    """The requests to all replicas but broker 1, which is not in the last-known ELR and responds that it is empty."""
    requests = cluster.sends()
    if 1 in requests:
        cluster.respond(requests.pop(1), last_epoch=-1, leo=0)
    return requests


def lost_all(strategy: str = "balanced", **config: int) -> Cluster:
    cluster = outage(strategy, **config)
    cluster.restart(2, clean=False)
    cluster.restart(3, clean=False)
    cluster.tick()
    return cluster


@pytest.mark.parametrize(
    ("ends", "leader"),
    [
        pytest.param({2: (0, 100), 3: (1, 5)}, 3, id="a later epoch beats a longer log"),
        pytest.param({3: (0, 5), 2: (0, 5)}, 2, id="the order of the assignment breaks ties"),
        pytest.param({2: (0, 142), 3: (-1, 144)}, 3, id="all records before 144 were committed, then deleted"),
        pytest.param({2: (0, 144), 3: (-1, 144)}, 2, id="a log that reaches the deleted ones is complete"),
    ],
)
def test_the_member_with_the_last_epoch_and_offset_leads(ends: dict[int, tuple[int, int]], leader: int) -> None:
    """E6: (epoch, offset) in that order, of the logs that are not known to be incomplete."""
    cluster = lost_all()
    requests = requests_to_members(cluster)
    for member, (last_epoch, leo) in ends.items():
        cluster.respond(requests[member], last_epoch=last_epoch, leo=leo)
    assert cluster.partition().leader == leader


def test_balanced_recovery_waits_for_a_member_that_is_fenced() -> None:
    """E6: for all members, however long that takes; it asks again when the member returns."""
    cluster = outage()
    cluster.restart(2, clean=False)
    cluster.register(3)
    cluster.tick()
    requests = requests_to_members(cluster)
    assert sorted(requests) == [2]
    cluster.respond(requests[2], last_epoch=0, leo=12)
    cluster.tick(after=1)
    assert cluster.partition().leader == NO_LEADER
    cluster.beat(3)
    assert cluster.is_due()
    cluster.tick()
    cluster.respond(cluster.sends()[3], last_epoch=0, leo=1)
    assert cluster.partition().leader == 2


def test_a_request_without_a_response_is_repeated_after_a_while() -> None:
    """E6: without a busy loop, and without giving up."""
    cluster = lost_all(recovery_retry_ms=1_000)
    requests = requests_to_members(cluster)
    cluster.respond(requests[2], last_epoch=0, leo=5)
    requests[3].on_response(None, cluster.now)
    cluster.tick(after=999)
    assert cluster.sends() == {}
    assert cluster.controller.next_deadline() == cluster.now + 1
    cluster.tick(after=1)
    again = requests_to_members(cluster)
    assert sorted(again) == [3]
    cluster.respond(again[3], last_epoch=0, leo=6)
    assert cluster.partition().leader == 3


def test_an_answer_from_an_earlier_incarnation_is_void() -> None:
    """E6: the log may have lost its end since."""
    cluster = lost_all()
    requests = requests_to_members(cluster)
    old = cluster.image.brokers[2].epoch
    cluster.restart(2, clean=False)
    cluster.respond(requests[3], last_epoch=0, leo=1)
    cluster.respond(requests[2], last_epoch=0, leo=12, broker_epoch=old)
    assert cluster.partition().leader == NO_LEADER
    cluster.tick(after=1_000)
    cluster.respond(requests_to_members(cluster)[2], last_epoch=0, leo=3)
    assert cluster.partition().leader == 2


def test_an_answer_given_before_the_restart_of_its_broker_is_forgotten() -> None:
    """E6: it was valid when it arrived."""
    cluster = lost_all()
    requests = requests_to_members(cluster)
    cluster.respond(requests[2], last_epoch=0, leo=12)
    cluster.restart(2, clean=False)
    cluster.respond(requests[3], last_epoch=0, leo=1)
    assert cluster.partition().leader == NO_LEADER


def test_an_answer_of_a_replica_that_may_still_be_fetching_is_void() -> None:
    """E6: it does not know that there is no leader, so its log end is not final."""
    cluster = lost_all()
    requests = requests_to_members(cluster)
    leader_epoch = cluster.partition().leader_epoch
    cluster.respond(requests[2], last_epoch=0, leo=12, known=leader_epoch - 1)
    cluster.respond(requests[3], last_epoch=0, leo=1, known=leader_epoch)
    assert cluster.partition().leader == NO_LEADER


def test_replicas_are_asked_again_about_a_partition_that_has_changed() -> None:
    """I6: no decision on an old partition epoch."""
    cluster = lost_all()
    requests = requests_to_members(cluster)
    cluster.respond(requests[2], last_epoch=0, leo=12)
    cluster.up(4).reassign((1, 2, 3, 4))
    cluster.respond(requests[3], last_epoch=0, leo=1)
    assert cluster.partition().leader == NO_LEADER
    cluster.tick(after=1_000)
    again = requests_to_members(cluster)
    assert sorted(again) == [2, 3, 4]
    cluster.respond(again[4], last_epoch=-1, leo=0)
    for broker in (2, 3):
        cluster.respond(again[broker], last_epoch=0, leo=broker)
    assert cluster.partition().leader == 3


def test_an_answer_to_a_deposed_controller_is_dropped() -> None:
    """Q2, E6: the new controller asks for itself."""
    cluster = lost_all()
    requests = requests_to_members(cluster)
    cluster.fail_over()
    for broker in (2, 3):
        cluster.respond(requests[broker], last_epoch=0, leo=1)
    assert cluster.partition().leader == NO_LEADER
    cluster.tick()
    assert sorted(requests_to_members(cluster)) == [2, 3]


def test_a_replica_outside_the_last_known_elr_counts_when_it_has_more() -> None:
    """E6: both members lost their logs; broker 1 left the ISR with everything, and nothing was written since."""
    cluster = lost_all()
    requests = cluster.sends()
    cluster.respond(requests[2], last_epoch=-1, leo=0)
    cluster.respond(requests[3], last_epoch=-1, leo=0)
    assert cluster.partition().leader == NO_LEADER
    cluster.respond(requests[1], last_epoch=0, leo=12)
    assert cluster.state() == (1, {1}, set(), set())


def test_balanced_recovery_does_not_wait_long_for_a_replica_that_it_does_not_need() -> None:
    """E6: all members of the last-known ELR have answered, broker 1 does not."""
    cluster = lost_all(recovery_timeout_ms=2_000)
    requests = cluster.sends()
    for broker in (2, 3):
        cluster.respond(requests[broker], last_epoch=0, leo=broker)
    cluster.tick(after=1_999)
    assert cluster.partition().leader == NO_LEADER
    assert cluster.controller.next_deadline() == cluster.now + 1
    cluster.tick(after=1)
    assert cluster.partition().leader == 3


def test_manual_recovery_waits_for_an_operator() -> None:
    """E6"""
    cluster = lost_all("manual")
    cluster.tick(after=5_000)
    assert cluster.sends() == {}
    assert cluster.partition().leader == NO_LEADER
    cluster.elect(1)
    assert cluster.partition().leader == 1


def test_proactive_recovery_starts_while_the_elr_has_fenced_members() -> None:
    """E6: the best answer within the window wins, however few there are."""
    cluster = outage("proactive", proactive_window_ms=2_000)
    cluster.tick()
    requests = cluster.sends()
    assert sorted(requests) == [1]
    cluster.respond(requests[1], last_epoch=0, leo=3)
    assert cluster.partition().leader == NO_LEADER
    assert cluster.controller.next_deadline() == cluster.now + 2_000
    cluster.tick(after=2_000)
    assert cluster.state() == (1, {1}, set(), set())
    assert cluster.partition().recovering


def test_proactive_recovery_continues_without_any_answer() -> None:
    """E6: it needs at least one answer."""
    cluster = outage("proactive", proactive_window_ms=2_000, recovery_timeout_ms=3_000)
    cluster.tick()
    lost = cluster.sends()[1]
    cluster.tick(after=2_500)
    assert cluster.partition().leader == NO_LEADER
    lost.on_response(None, cluster.now)
    cluster.tick(after=3_000)
    cluster.respond(cluster.sends()[1], last_epoch=0, leo=3)
    assert cluster.partition().leader == 1


def test_a_clean_candidate_that_appears_ends_a_proactive_recovery() -> None:
    """E1, E6: a clean election takes precedence."""
    cluster = outage("proactive")
    cluster.tick()
    requests = cluster.sends()
    cluster.beat(2)
    assert cluster.state() == (2, {2}, {3}, set())
    cluster.respond(requests[1], last_epoch=9, leo=99)
    cluster.tick(after=3_000)
    assert cluster.partition().leader == 2
    assert not cluster.partition().recovering


def test_many_partitions_are_asked_about_in_one_request_per_broker() -> None:
    """E6: the number of requests depends on brokers, not on partitions."""
    cluster = Cluster().up(1, 2)
    for number in range(20):
        cluster.topic((1, 2), name=f"t{number}")
    cluster.fence(1, 2)
    cluster.restart(1, clean=False)
    cluster.restart(2, clean=False)
    cluster.tick()
    requests = cluster.sends()
    assert sorted(requests) == [1, 2]
    assert sum(len(topic.partitions) for topic in requests[1].request.topic_partitions) == 20
    cluster.respond(requests[1], last_epoch=0, leo=3)
    cluster.respond(requests[2], last_epoch=0, leo=4)
    assert [cluster.partition(f"t{number}").leader for number in range(20)] == [2] * 20
