"""Every safety property fails on a bad state and holds on a good one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from insync.metadata.partition import Partition
from insync.properties import (
    ALL,
    availability,
    candidate_completeness,
    denied_requests,
    explained_changes,
    idempotence,
    leader_completeness,
    log_matching,
    metadata_matching,
    min_isr_gate,
    no_loss,
    quorum_superset,
    read_consistency,
    recovery_quorum,
    safe_reassignment,
    single_leader,
    unclean_exclusion,
)
from insync.properties.committed_log import Forgiven
from insync.properties.history import Acked, Fingerprint, History, Read, Sent
from insync.wire import batch as wire_batch
from tests.properties.property_harness import KEY, FakeHeader, FakeLog, batch, committed


def test_every_property_is_listed_once_with_a_statement() -> None:
    """S1-S19, L1-L11: the registry is the list of what is promised."""
    assert list(ALL) == [f"S{i}" for i in range(1, 20)] + [f"L{i}" for i in range(1, 12)]
    assert all(named.statement.endswith(".") for named in ALL.values())


def test_a_leader_without_the_last_committed_record_is_incomplete() -> None:
    """S1: completeness is about content, not length."""
    truth = committed(1, 1, 2)
    assert leader_completeness.check(1, truth.verified(FakeLog([1, 1, 2, 3]), 0), truth.end) is None
    assert leader_completeness.check(1, truth.verified(FakeLog([1, 1]), 0), truth.end)
    assert leader_completeness.check(1, truth.verified(FakeLog([1, 1, 3, 3]), 0), truth.end)


def test_replicas_may_differ_above_their_high_watermark_only() -> None:
    """S2: the stable prefix is bounded by the replica's own high watermark."""
    truth = committed(1, 1, 2)
    stray = FakeLog([1, 1, 1])
    assert log_matching.check(2, truth.verified(stray, 0), 2, truth.end) is None
    assert log_matching.check(2, truth.verified(stray, 0), 3, truth.end)


def test_a_batch_with_changed_bytes_under_its_old_header_does_not_match() -> None:
    """S2: uncommitted batches are not checked."""
    data = wire_batch.build([wire_batch.NewRecord(None, b"value")], base_offset=3, timestamp_ms=0)
    assert log_matching.check_bytes(2, bytes(data), committed_end=4) is None
    data[-2] ^= 1
    assert log_matching.check_bytes(2, bytes(data), committed_end=4)
    assert log_matching.check_bytes(2, bytes(data), committed_end=3) is None


def test_every_candidate_holds_everything() -> None:
    """S3: a member of ISR or ELR that lacks a committed record could be elected."""
    assert candidate_completeness.check(2, "ELR", 3, 3) is None
    assert candidate_completeness.check(2, "ELR", 2, 3)


def test_the_leader_commits_with_every_replica_that_may_be_elected() -> None:
    """S4: holds below MinISR, where nothing is committed, and fails at MinISR without an electable member."""
    assert quorum_superset.check(1, (1, 2), (1, 2, 3), 2, (1, 2, 3), ()) is None
    assert quorum_superset.check(1, (1,), (1, 3), 2, (1,), (2,)) is None
    assert quorum_superset.check(1, (1, 2), (1, 2), 2, (1, 2, 3), ())
    assert quorum_superset.check(1, (1, 2), (1, 2), 2, (1, 2), (3,))


def test_a_broker_back_from_an_unclean_stop_is_no_candidate() -> None:
    """S5: not leader, not in ISR, not in ELR, until it has caught up."""

    def check(**where: Any) -> str | None:
        world: dict[str, Any] = {"complete": False, "leader": 1, "isr": (1,), "elr": (), "moment": "now", **where}
        return unclean_exclusion.check(2, **world)

    assert check() is None
    assert check(isr=(1, 2), complete=True) is None
    assert check(leader=2)
    assert check(isr=(1, 2))
    assert check(elr=(2,))


def test_a_fenced_broker_neither_leads_nor_counts() -> None:
    """S5: B4."""
    assert unclean_exclusion.check_fenced(2, leader=1, isr=(1, 3)) is None
    assert unclean_exclusion.check_fenced(2, leader=2, isr=())
    assert unclean_exclusion.check_fenced(2, leader=1, isr=(1, 2))


def test_members_of_the_maximal_isr_hold_what_is_committed() -> None:
    """S4: also those that are only proposed."""
    assert quorum_superset.check_member(1, 3, 5, 5) is None
    assert quorum_superset.check_member(1, 3, 4, 5)


def test_a_node_with_another_committed_metadata_batch_is_found() -> None:
    """S7: two nodes consider different batches committed at one offset."""
    truth = committed(1, 1)
    assert metadata_matching.check(3, batch(1), truth) is None
    assert metadata_matching.check(3, batch(2), truth) is None
    assert metadata_matching.check(3, batch(1, epoch=2), truth)


def test_a_node_never_truncates_committed_metadata() -> None:
    """S7: a running node's log never ends below what it had committed."""
    assert metadata_matching.check_truncation(3, 5, 5) is None
    assert metadata_matching.check_truncation(3, 4, 5)


def test_a_quorum_leader_of_the_newest_epoch_has_all_committed_metadata() -> None:
    """S7: a deposed one, whose epoch is older than what is committed, may lack some."""
    truth = committed(1, 3)
    assert metadata_matching.check_leader(1, 4, 2, truth) is None
    assert metadata_matching.check_leader(1, 2, 1, truth) is None
    assert metadata_matching.check_leader(1, 4, 1, truth)


def read(*batches: Fingerprint) -> Read:
    return Read(0, 1, KEY, 0, 2, batches)


def test_readers_see_committed_batches_only() -> None:
    """S8: neither uncommitted batches nor ones that are replaced."""
    truth = committed(1, 1)
    assert read_consistency.check(read(batch(0), batch(1)), truth) is None
    assert read_consistency.check(read(batch(2)), truth)
    assert read_consistency.check(read(batch(1, epoch=2)), truth)


def test_what_an_unclean_election_removed_may_have_been_read() -> None:
    """S8: exactly the removed batches are forgiven."""
    truth, forgiven = committed(1, 1), Forgiven()
    forgiven.add(truth.rewind(1))
    assert read_consistency.check(read(batch(1)), truth, forgiven) is None
    assert read_consistency.check(read(batch(1, epoch=2)), truth, forgiven)


def test_some_replica_holds_everything_unless_min_isr_of_them_lost_data() -> None:
    """S9: MinISR - 1 losses are tolerated."""
    assert no_loss.check({1: 2, 2: 5}, 5, lost=1, min_isr=2) is None
    assert no_loss.check({1: 2, 2: 4}, 5, lost=2, min_isr=2) is None
    assert no_loss.check({1: 2, 2: 4}, 5, lost=1, min_isr=2)


def test_an_acknowledged_batch_is_committed_where_it_was_acknowledged() -> None:
    """S9: an acknowledgement of another batch, or of none, is a loss."""
    truth = committed(1, 1)
    assert no_loss.check_acked(1, 1, 1001, truth) is None
    assert no_loss.check_acked(1, 1, -1, truth) is None
    assert no_loss.check_acked(1, 1, 999, truth)
    assert no_loss.check_acked(2, 1, 1002, truth)


def test_balanced_recovery_finds_the_most_complete_log_it_asked() -> None:
    """S9, E6: it may lose only what none of those it asked still has."""
    assert no_loss.check_recovery(2, 5, best=5, committed_end=5, permitted=False) is None
    assert no_loss.check_recovery(2, 4, best=4, committed_end=5, permitted=True) is None
    assert no_loss.check_recovery(2, 4, best=5, committed_end=5, permitted=True)
    assert no_loss.check_recovery(2, 4, best=4, committed_end=5, permitted=False)


def test_which_elections_may_lose_records() -> None:
    """S9, E6: a setting, an operator, or MinISR losses."""

    def may(**why: Any) -> bool:
        world: dict[str, Any] = {"unclean_enabled": False, "strategy": "balanced", "by_operator": False}
        world |= {"lost": 1, "min_isr": 2, **why}
        return no_loss.may_lose(**world)

    assert not may()
    assert not may(strategy="manual")
    assert may(unclean_enabled=True)
    assert may(strategy="proactive")
    assert may(by_operator=True)
    assert may(lost=2)


def test_the_last_known_elr_has_enough_members() -> None:
    """S10: checked only once ISR and ELR are empty and something was committed."""
    assert recovery_quorum.check((), (), (1, 2), 2, 5) is None
    assert recovery_quorum.check((), (3,), (1,), 2, 5) is None
    assert recovery_quorum.check((), (), (1,), 2, 0) is None
    assert recovery_quorum.check((), (), (1,), 2, 5)


def test_replicas_leave_only_when_the_others_can_do_without_them() -> None:
    """S14, R2, R4, R5: of [1, 2, 3] and an added 4, replica 3 leaves."""

    def problem(isr: tuple[int, ...], *, adding: tuple[int, ...] = (4,), may_lose: bool = False) -> str | None:
        return safe_reassignment.check(
            replicas_before=(1, 2, 4, 3), adding=adding, replicas=(1, 2, 4), isr=isr, min_isr=2, may_lose=may_lose
        )

    assert problem((1, 2, 4)) is None
    assert problem((2, 4)) is None
    assert "[4] are not in the ISR [1, 2]" in str(problem((1, 2)))
    assert "[4] are not in the ISR" in str(problem((1, 2), may_lose=True))
    assert "below MinISR 2" in str(problem((4,)))
    assert problem((4,), may_lose=True) is None
    assert problem((1, 2), adding=(3,)) is None, "3 was being added: that is cancelled"


def test_a_partition_that_only_grows_waits_for_the_added_replicas_too() -> None:
    """S14, R2: nothing is removed."""

    def problem(isr: tuple[int, ...], min_isr: int = 2) -> str | None:
        return safe_reassignment.check(
            replicas_before=(1, 2, 3), adding=(2, 3), replicas=(1, 2, 3), isr=isr, min_isr=min_isr, may_lose=False
        )

    assert problem((1, 2, 3)) is None
    assert "[3] are not in the ISR [1, 2]" in str(problem((1, 2)))
    assert "below MinISR 3" in str(problem((2, 3), min_isr=3))


def test_a_reassignment_that_goes_on_takes_nothing_away() -> None:
    """S14, R1, R4, R5"""

    def problem(replicas: tuple[int, ...], isr: tuple[int, ...], has_elected: bool = False) -> str | None:
        return safe_reassignment.check_under_way(
            replicas_before=(1, 2, 3), isr_before=(1, 2), replicas=replicas, isr=isr, has_elected=has_elected
        )

    assert problem((1, 4, 2, 3), (2, 1)) is None
    assert "replicas [3] leave" in str(problem((1, 2, 4), (1, 2)))
    assert "from [1, 2] to [1]" in str(problem((1, 2, 3, 4), (1,)))
    assert problem((1, 2, 3, 4), (3,), has_elected=True) is None


def test_an_acks_all_produce_appends_nothing_below_min_isr() -> None:
    """S16, P2"""
    assert min_isr_gate.check(1, (1, 2), 2, leo_before=5, leo=7) is None
    assert min_isr_gate.check(1, (1,), 2, leo_before=5, leo=5) is None
    assert "appended 5..6 for acks=all with ISR [1]" in str(min_isr_gate.check(1, (1,), 2, leo_before=5, leo=7))


LED_BY_1 = Partition(
    topic_id=UUID(int=1),
    topic="t",
    index=0,
    replicas=(1, 2, 3),
    isr=(1, 2, 3),
    leader=1,
    leader_epoch=4,
    partition_epoch=9,
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"isr": (2, 3), "leader": 2}),
        ({}, {"isr": (), "elr": (3,), "leader": -1}),
        ({"leader": -1, "isr": ()}, {"leader": 3, "isr": (3,)}),
        ({"leader": 2}, {"leader": 1}),
        ({"adding": (3,)}, {"adding": ()}),
        ({"adding": (3,)}, {"adding": (), "replicas": (1, 2), "isr": (1, 2)}),
        ({"replicas": (1, 2, 3, 4)}, {"replicas": (1, 2, 3)}),
    ],
)
def test_an_election_with_a_cause_is_explained(before: dict[str, Any], after: dict[str, Any]) -> None:
    """S17, E1: the leader left, a candidate appeared, the preferred replica took over, replicas left."""
    first = replace(LED_BY_1, **before)
    second = replace(first, **after, leader_epoch=5, partition_epoch=10)
    assert explained_changes.check(first, second) is None
    assert not explained_changes.was_leader_replaced(first, second)


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ({}, {"leader_epoch": 5}, "has no cause"),
        ({"isr": (1, 2)}, {"isr": (1, 2, 3), "leader_epoch": 5}, "has no cause"),
        ({}, {"replicas": (1, 2), "isr": (1, 2)}, "leader epoch 4 goes on"),
        ({}, {"isr": (1, 2, 4)}, r"isr \(1, 2, 4\) has \[4\]"),
        ({}, {"elr": (2,)}, "overlap"),
        ({}, {"isr": (2, 3)}, "leader 1 is not in the ISR"),
        ({}, {"isr": (1, 1)}, "named twice"),
        ({}, {"adding": (3,), "removing": (3,)}, "in adding"),
        ({"isr": (), "leader": -1}, {"isr": (1, 2), "leader": 1, "leader_epoch": 5}, r"\[2\] joined the ISR"),
    ],
)
def test_a_change_without_a_cause_or_against_itself_is_found(
    before: dict[str, Any], after: dict[str, Any], problem: str
) -> None:
    """S17, M1, M2, E1, I5"""
    first = replace(LED_BY_1, **before)
    assert re.search(problem, str(explained_changes.check(first, replace(first, **after))))


def test_a_leader_that_stays_in_the_isr_is_replaced_only_if_it_leaves_the_cluster() -> None:
    """S17, B4, B7: it is shutting down, or it is fenced soon after."""
    after = replace(LED_BY_1, leader=2, isr=(1, 2), leader_epoch=5)
    assert explained_changes.check(LED_BY_1, after) is None
    assert explained_changes.was_leader_replaced(LED_BY_1, after)
    assert "replaced by 2" in explained_changes.describe_replaced(LED_BY_1, after)


def test_bounds_of_availability() -> None:
    """L8, L9, L10, L11: each speaks only beyond its bound."""
    assert availability.check_leaderless("t-0", [1], 400, 400) is None
    assert availability.check_leaderless("t-0", [], 900, 400) is None
    assert "candidates [1]" in str(availability.check_leaderless("t-0", [1], 401, 400))
    assert availability.check_detection(1, 2_000, 2_000) is None
    assert "broker 1 has not run for 2001 ms" in str(availability.check_detection(1, 2_001, 2_000))
    assert availability.check_shutdown(1, [], 7, []) is None
    assert "still leads ['t-0']" in str(availability.check_shutdown(1, ["t-0"], 7, []))
    assert "[2] have not read the metadata to 7" in str(availability.check_shutdown(1, [], 7, [2]))
    assert availability.check_pre_vote(1, 2, 600, 600) is None
    assert "599 ms after" in str(availability.check_pre_vote(1, 2, 599, 600))
    assert availability.check_candidate(1, 5, [1, 3], 2) is None
    assert "pre-votes of [1] only" in str(availability.check_candidate(1, 5, [1], 2))
    assert availability.check_rejoined("t-0", 2, 700, 700) is None
    assert "replica 2 could have joined" in str(availability.check_rejoined("t-0", 2, 701, 700))


def test_a_partition_never_needs_more_in_sync_replicas_than_it_has() -> None:
    """S14, H1: MinISR 2 of a partition that is reduced to one replica is 1."""
    assert (
        safe_reassignment.check(replicas_before=(1, 2), adding=(), replicas=(1,), isr=(1,), min_isr=2, may_lose=False)
        is None
    )


def test_what_an_acl_denies_is_not_served() -> None:
    """S15, A2."""

    def problem(*, was_served: bool) -> str | None:
        return denied_requests.check(
            node=1, principal="User:alice", operation="WRITE", topic="orders", was_served=was_served
        )

    assert problem(was_served=False) is None
    assert problem(was_served=True) == "node 1 served WRITE on orders to User:alice, which an ACL denies"


def test_an_epoch_has_one_leader() -> None:
    """S12: another one may lead in another epoch, or another partition."""
    leaders = single_leader.Leaders()
    assert leaders.claim("p", 1, 1) is None
    assert leaders.claim("p", 1, 1) is None
    assert leaders.claim("p", 2, 2) is None
    assert leaders.claim("q", 1, 2) is None
    assert leaders.claim("p", 1, 2)


def test_a_controller_leads_while_a_majority_of_voters_fetches() -> None:
    """S12: with three voters one other is enough, with five it takes two; a single voter needs none."""
    assert single_leader.check_followed(1, 1, [0, 500], 2, now=1_000, timeout_ms=600) is None
    assert single_leader.check_followed(1, 1, [0, 400], 2, now=1_000, timeout_ms=600)
    assert single_leader.check_followed(1, 1, [0, 500, 0, 900], 3, now=1_000, timeout_ms=600) is None
    assert single_leader.check_followed(1, 1, [0, 300, 0, 900], 3, now=1_000, timeout_ms=600)
    assert single_leader.check_followed(1, 1, [], 1, now=1_000, timeout_ms=600) is None


def sequenced(offset: int, sequence: int, epoch: int = 0) -> FakeHeader:
    return FakeHeader(offset, offset, 1, offset, producer_id=9, producer_epoch=epoch, base_sequence=sequence)


def test_a_sequence_is_committed_once() -> None:
    """S13: the same or an earlier sequence is a duplicate; a new producer epoch starts at 0."""
    sequences = idempotence.Sequences()
    assert sequences.committed(sequenced(0, 0)) is None
    assert sequences.committed(sequenced(1, 5)) is None
    assert sequences.committed(sequenced(2, 0, epoch=1)) is None
    assert sequences.committed(sequenced(3, 5))


def test_sequences_start_again_at_zero_after_the_last() -> None:
    """S13: wrapping around is no duplicate."""
    sequences = idempotence.Sequences()
    assert sequences.committed(sequenced(0, 2**31 - 3)) is None
    assert sequences.committed(sequenced(1, 0)) is None


def test_what_an_unclean_election_lost_may_be_committed_again() -> None:
    """S13: an unclean election lost the batch, the producer sends it again."""
    sequences = idempotence.Sequences()
    sequences.committed(sequenced(0, 0))
    sequences.committed(sequenced(1, 1))
    sequences.rewind(1)
    assert sequences.committed(sequenced(1, 1)) is None
    assert sequences.committed(sequenced(2, 0))


def test_a_history_hands_out_each_record_once() -> None:
    """S11: in the order in which they were appended."""
    history = History(keep=True)
    history.append(Sent(1, 10, KEY, -1, 1))
    assert [type(r) for r in history.take()] == [Sent]
    history.append(Acked(1, 12, 0))
    assert [type(r) for r in history.take()] == [Acked]
    assert history.take() == []
    assert [type(r) for r in history] == [Sent, Acked]
