"""Elections, the ELR and the last-known ELR (E1-E5, S10)."""

from __future__ import annotations

import pytest

from insync.metadata.partition import NO_LEADER
from insync.wire.errors import ErrorCode
from tests.controller.controller_harness import Cluster


def started(min_isr: int = 2, replicas: tuple[int, ...] = (1, 2, 3), **configs: str) -> Cluster:
    cluster = Cluster().up(*sorted(replicas))
    cluster.topic(replicas, min_isr=min_isr, **configs)
    return cluster


def test_the_order_of_the_assignment_decides_which_replica_leads() -> None:
    """E2: not the order of the ISR, nor of the ids."""
    cluster = started(replicas=(3, 1, 2))
    cluster.alter((3, 2, 1))
    cluster.fence(3)
    assert cluster.partition().leader == 1


def test_a_leader_change_raises_both_epochs_and_an_isr_change_only_one() -> None:
    """M2"""
    cluster = started()
    before = cluster.partition()
    cluster.fence(2)
    shrunk = cluster.partition()
    assert (shrunk.leader_epoch, shrunk.partition_epoch) == (before.leader_epoch, before.partition_epoch + 1)
    cluster.fence(1)
    elected = cluster.partition()
    assert (elected.leader_epoch, elected.partition_epoch) == (before.leader_epoch + 1, before.partition_epoch + 2)
    cluster.fence(3)
    leaderless = cluster.partition()
    assert leaderless.leader == NO_LEADER
    assert (leaderless.leader_epoch, leaderless.partition_epoch) == (
        before.leader_epoch + 2,
        before.partition_epoch + 3,
    )


def test_a_candidate_that_appears_leads_a_leaderless_partition() -> None:
    """E1, E2: an ELR member; a replica that is not in the ELR waits."""
    cluster = started()
    cluster.fence(1, 2, 3)
    assert cluster.state() == (NO_LEADER, set(), {2, 3}, set())
    cluster.beat(1)
    assert cluster.partition().leader == NO_LEADER
    cluster.beat(3)
    assert cluster.state() == (3, {3}, {2}, set())


def test_an_isr_member_takes_precedence_over_the_elr() -> None:
    """E2: the ELR counts only when the ISR is empty."""
    cluster = started(min_isr=3)
    cluster.fence(1)
    assert cluster.state() == (2, {2, 3}, {1}, set())
    cluster.beat(1)
    assert cluster.state() == (2, {2, 3}, {1}, set())
    cluster.fence(2)
    assert cluster.state() == (3, {3}, {1, 2}, set())


def test_a_fenced_elr_member_is_not_elected() -> None:
    """E2, B4"""
    cluster = started()
    cluster.fence(3, 2)
    assert cluster.state() == (1, {1}, {2}, set())
    cluster.fence(1)
    assert cluster.state() == (NO_LEADER, set(), {1, 2}, set())


def test_case_a_a_fenced_follower_joins_the_elr_when_the_isr_falls_below_min_isr() -> None:
    """E3"""
    cluster = started(replicas=(1, 2))
    cluster.fence(2)
    assert cluster.state() == (1, {1}, {2}, set())


def test_case_b_an_elected_elr_member_moves_to_the_isr() -> None:
    """E2"""
    cluster = started(replicas=(1, 2))
    cluster.fence(2)
    cluster.beat(2)
    cluster.fence(1)
    assert cluster.state() == (2, {2}, {1}, set())


def test_case_c_a_fenced_leader_joins_the_elr_when_the_isr_falls_below_min_isr() -> None:
    """E3"""
    cluster = started(replicas=(1, 2))
    cluster.fence(1)
    assert cluster.state() == (2, {2}, {1}, set())


def test_case_d_a_fenced_leader_is_forgotten_when_the_isr_stays_at_min_isr() -> None:
    """E3"""
    cluster = started()
    cluster.fence(1)
    assert cluster.state() == (2, {2, 3}, set(), set())


def test_case_e_a_leader_adds_a_caught_up_follower() -> None:
    """I5"""
    cluster = started()
    cluster.alter((1, 2))
    assert cluster.alter((1, 2, 3)) is ErrorCode.none
    assert cluster.state() == (1, {1, 2, 3}, set(), set())


def test_case_f_a_follower_that_lags_is_forgotten_when_the_isr_stays_at_min_isr() -> None:
    """E3"""
    cluster = started()
    cluster.alter((1, 2))
    assert cluster.state() == (1, {1, 2}, set(), set())


def test_case_g_the_elr_empties_when_the_isr_is_back_at_min_isr() -> None:
    """E4"""
    cluster = started()
    cluster.fence(2)
    cluster.fence(3)
    assert cluster.state() == (1, {1}, {3}, set())
    cluster.beat(2)
    cluster.alter((1, 2))
    assert cluster.state() == (1, {1, 2}, set(), set())


def test_a_shrink_by_the_leader_fills_the_elr_too() -> None:
    """E3: several members that leave at once join together."""
    cluster = started()
    cluster.alter((1,))
    assert cluster.state() == (1, {1}, {2, 3}, set())


def test_clean_recovery_by_the_elr() -> None:
    """E2, E3: the leader and sole ISR member is lost uncleanly."""
    cluster = started()
    cluster.alter((1, 3))
    assert cluster.state() == (1, {1, 3}, set(), set())
    cluster.alter((1,))
    assert cluster.state() == (1, {1}, {3}, set())
    cluster.fence(1)
    assert cluster.state() == (3, {3}, {1}, set())
    cluster.register(1)
    assert cluster.state() == (3, {3}, set(), {1})
    cluster.beat(1)
    cluster.alter((3, 1))
    assert cluster.state() == (3, {1, 3}, set(), set())


def test_an_unclean_elr_member_moves_to_the_last_known_elr_and_is_not_elected() -> None:
    """E5: it does not return to the ELR before it is in an ISR."""
    cluster = started(unclean_recovery_strategy="manual")
    cluster.fence(1, 2, 3)
    cluster.restart(2, clean=False)
    assert cluster.state() == (NO_LEADER, set(), {3}, {2})
    cluster.fence(2)
    cluster.restart(2, clean=True)
    assert cluster.state() == (NO_LEADER, set(), {3}, {2})


def test_the_last_known_elr_empties_when_the_isr_is_back_at_min_isr() -> None:
    """E4"""
    cluster = started()
    cluster.fence(3, 2)
    cluster.restart(2, clean=False)
    assert cluster.state() == (1, {1}, set(), {2})
    cluster.alter((1, 2))
    assert cluster.state() == (1, {1, 2}, set(), set())


@pytest.mark.parametrize(("min_isr", "quorum"), [(1, 1), (2, 2), (3, 3)])
def test_the_recovery_quorum_has_min_isr_members(min_isr: int, quorum: int) -> None:
    """S10: with ISR and ELR empty, MinISR replicas may still be complete."""
    cluster = started(min_isr=min_isr, unclean_recovery_strategy="manual")
    cluster.fence(1, 2, 3)
    for broker in (1, 2, 3):
        cluster.register(broker)
    leader, isr, elr, last_known = cluster.state()
    assert (leader, isr, elr) == (NO_LEADER, set(), set())
    assert len(last_known) == quorum


def test_the_preferred_leader_is_elected_on_request() -> None:
    """E1"""
    cluster = started()
    assert cluster.elect(0) is ErrorCode.election_not_needed
    cluster.fence(1)
    assert cluster.elect(0) is ErrorCode.preferred_leader_not_available
    cluster.beat(1)
    cluster.alter((2, 3, 1))
    before = cluster.partition()
    assert cluster.elect(0) is ErrorCode.none
    after = cluster.partition()
    assert (after.leader, after.leader_epoch) == (1, before.leader_epoch + 1)
    assert after.isr == before.isr
    assert cluster.elect(0, name="nope") is ErrorCode.unknown_topic_or_partition


def test_an_unclean_election_on_request_makes_the_leader_the_isr_and_recovering() -> None:
    """E6, E7: an operator accepts the loss."""
    cluster = started(unclean_recovery_strategy="manual")
    assert cluster.elect(1) is ErrorCode.election_not_needed
    cluster.fence(1, 2, 3)
    assert cluster.elect(1) is ErrorCode.eligible_leaders_not_available
    cluster.beat(1)
    assert cluster.elect(1) is ErrorCode.none
    assert cluster.state() == (1, {1}, set(), set())
    assert cluster.partition().recovering


def test_an_unclean_election_on_request_prefers_a_clean_candidate() -> None:
    """E6: unclean is the last resort."""
    cluster = started(unclean_recovery_strategy="manual", min_isr=3)
    cluster.fence(1, 2, 3)
    cluster.restart(1, clean=False)
    assert cluster.state() == (NO_LEADER, set(), {2, 3}, {1})
    cluster.beat(3)
    assert cluster.state() == (3, {3}, {2}, {1})
    assert not cluster.partition().recovering


def test_unclean_election_enabled_elects_any_live_replica() -> None:
    """E6, E7: on fencing and on unfencing."""
    cluster = started(replicas=(1, 2, 3), unclean_leader_election_enable="true")
    cluster.alter((1, 2))
    cluster.alter((1,))
    cluster.fence(2)
    cluster.fence(1)
    assert cluster.state() == (3, {3}, set(), set())
    assert cluster.partition().recovering
    cluster.fence(3)
    assert cluster.state() == (NO_LEADER, set(), {3}, set())
    cluster.beat(2)
    assert cluster.state() == (2, {2}, set(), set())


def test_enabling_unclean_election_elects_at_the_next_tick() -> None:
    """E6: for a partition that already had no leader."""
    cluster = started(unclean_recovery_strategy="manual")
    cluster.fence(1, 2, 3)
    cluster.beat(1)
    cluster.tick()
    assert cluster.partition().leader == NO_LEADER
    cluster.configure("unclean.leader.election.enable", "true")
    assert cluster.is_due()
    cluster.tick()
    assert cluster.state() == (1, {1}, set(), set())


def test_leadership_goes_back_to_preferred_replicas_periodically() -> None:
    """E1: if it is configured, and only where the preferred replica is in the ISR."""
    cluster = Cluster(rebalance_interval_ms=5_000).up(1, 2, 3)
    cluster.topic((1, 2, 3))
    cluster.topic((1, 2, 3), name="behind")
    cluster.fence(1)
    cluster.beat(1)
    cluster.alter((2, 3, 1))
    cluster.tick(after=4_999)
    assert cluster.partition().leader == 2
    cluster.tick(after=1)
    assert cluster.partition().leader == 1
    assert cluster.partition("behind").leader == 2


def test_elections_are_noted_with_their_kind() -> None:
    """E1: clean, from the ELR, preferred, unclean."""
    cluster = started(replicas=(1, 2), unclean_leader_election_enable="true")
    cluster.fence(1)
    cluster.fence(2)
    cluster.beat(2)
    cluster.beat(1)
    cluster.alter((2, 1))
    cluster.elect(0)
    cluster.alter((1,))
    cluster.fence(2)
    cluster.register(2)
    cluster.fence(1)
    cluster.beat(2)
    assert [note["how"] for note in cluster.notes("leader_elected")] == ["clean", "elr", "preferred", "unclean"]
