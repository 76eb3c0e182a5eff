"""The high watermark on leaders and followers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from insync.replication import follower, isr
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from tests.replication.replication_harness import (
    Harness,
    consumer_request,
    fetch_partition,
    leader_and_follower,
    partition,
    records,
    records_size,
)


@pytest.mark.parametrize(
    ("current", "leo", "others", "expected"),
    [(0, 5, [], 5), (0, 5, [3, 4], 3), (0, 5, [5, 9], 5), (4, 5, [2], 4), (0, 5, [isr.UNKNOWN_LEO], 0)],
)
def test_the_hwm_is_the_lowest_leo_and_never_goes_back(
    current: int, leo: int, others: list[int], expected: int
) -> None:
    """H1, H2: a follower that has not fetched holds it back."""
    assert isr.advance_hwm(current, leo, others) == expected


def hwm_after_fetch(h: Harness, follower: int, offset: int) -> int:
    """The leader's high watermark once the follower has fetched at `offset`."""
    h.follower_fetch(1, follower, offset)
    return h[1].replica().log.hwm


def test_the_hwm_waits_for_every_member_of_the_isr() -> None:
    """H1: two of three are not enough while the third is in the ISR."""
    h = Harness()
    h.apply(partition(), 1)
    h.write(1, 2)
    assert hwm_after_fetch(h, 2, 2) == 0
    assert hwm_after_fetch(h, 3, 1) == 1
    assert hwm_after_fetch(h, 3, 2) == 2


def with_proposed_member() -> Harness:
    """The leader has proposed replica 3 for the ISR (1, 2)."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    h.follower_fetch(1, 2, 0)
    h.follower_fetch(1, 3, 0)
    return h


def test_the_hwm_waits_for_a_proposed_member_before_the_controller_responds() -> None:
    """H1, S4: from the proposal on, the joining replica may be a candidate, so nothing is committed without it."""
    h = with_proposed_member()
    assert h.leader().isr_state.maximal_isr == (1, 2, 3)
    h.write(1)
    assert hwm_after_fetch(h, 2, 1) == 0
    assert hwm_after_fetch(h, 3, 1) == 1


def test_a_proposed_member_is_counted_even_when_it_could_no_longer_join() -> None:
    """H1, I3: the controller may have accepted it before it was fenced, and elects from what it accepted."""
    h = with_proposed_member()
    h.shared.fenced.append(3)
    h.write(1)
    assert hwm_after_fetch(h, 2, 1) == 0


def test_the_hwm_stands_still_below_min_isr() -> None:
    """H1: the committed ISR counts; a replica that is only proposed does not replace a missing member."""
    h = Harness(min_isr=2)
    h.apply(partition(isr=(1,)), 1)
    h.write(1)
    h.follower_fetch(1, 2, 1)
    assert h.leader().isr_state.maximal_isr == (1, 2)
    assert h[1].replica().log.hwm == 0
    h.accept(1, partition(isr=(1,)))
    assert h[1].replica().log.hwm == 1


def test_the_effective_min_isr_is_at_most_the_replication_factor() -> None:
    """H1: a topic of one replica with min.insync.replicas=2 still commits."""
    h = Harness((1,), min_isr=2)
    h.apply(partition(replicas=(1,), isr=(1,)))
    h.write(1)
    assert h[1].replica().log.hwm == 1


def test_a_leaders_hwm_does_not_go_back_when_a_follower_does() -> None:
    """H2: within a leader epoch it is monotonic."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    h.write(1, 3)
    h.follower_fetch(1, 2, 3)
    assert hwm_after_fetch(h, 2, 1) == 3


def test_the_sole_member_commits_on_its_own_append() -> None:
    """H2: a produce moves the HWM if the leader is alone in the ISR."""
    h = Harness()
    h.apply(partition(isr=(1,)), 1)
    h.write(1, 2)
    assert h[1].replica().log.hwm == 2


def test_the_hwm_waits_for_a_caught_up_follower_that_cannot_be_proposed_yet() -> None:
    """H3: another proposal is in flight; otherwise the follower might never reach the HWM."""
    h = Harness((1, 2, 3, 4), replica_lag_time_max_ms=1000)
    h.apply(partition(isr=(1,), replicas=(1, 2, 3, 4)), 1)
    h.follower_fetch(1, 2, 0)
    assert h.leader().isr_state.maximal_isr == (1, 2)
    h.follower_fetch(1, 3, 0)
    assert h.leader().isr_state.maximal_isr == (1, 2), "one proposal in flight"
    h.write(1)
    assert hwm_after_fetch(h, 2, 1) == 0
    assert hwm_after_fetch(h, 3, 1) == 1


def test_the_wait_for_a_joining_follower_ends_with_the_lag_time() -> None:
    """H3: bounded, so that a follower that stops does not stop the partition."""
    h = Harness((1, 2, 3), replica_lag_time_max_ms=1000)
    h.apply(partition(isr=(1,)), 1)
    h.follower_fetch(1, 2, 0)
    h.follower_fetch(1, 3, 0)
    h.write(1)
    assert hwm_after_fetch(h, 2, 1) == 0
    h.tick(1001)
    assert h[1].replica().log.hwm == 1


@pytest.mark.parametrize("why", ["fenced", "leaving", "restarted"])
def test_the_hwm_does_not_wait_for_an_ineligible_follower(why: str) -> None:
    """H3: only for one that may join."""
    h = Harness((1, 2, 3))
    h.apply(partition(isr=(1,)), 1)
    h.follower_fetch(1, 2, 0)
    h.follower_fetch(1, 3, 0)
    if why == "fenced":
        h.shared.fenced.append(3)
    elif why == "leaving":
        h.shared.leaving.append(3)
    else:
        h.shared.epochs[3] += 1
    h.write(1)
    assert hwm_after_fetch(h, 2, 1) == 1


def test_list_offsets_is_refused_until_the_hwm_has_reached_leso() -> None:
    """H4: a new leader's HWM may be stale; clients get an error rather than an HWM that goes back."""
    h = leader_and_follower()
    h.write(1, 2)
    h.run()
    h.apply(partition(2, 1, version=1, replicas=(1, 2), isr=(1, 2)))
    assert (h[2].replica().log.hwm, h.leader(2).leso) == (0, 2)
    assert h.list_offsets(2, -1).error_code is ErrorCode.offset_not_available
    assert "hwm_unknown" in h[2].note_kinds()
    h.run()
    entry = h.list_offsets(2, -1)
    assert (entry.error_code, entry.offset, entry.leader_epoch) == (ErrorCode.none, 2, 1)


def test_a_debugging_consumer_can_list_the_log_end_of_any_replica() -> None:
    """H4, H5: a tool reads one replica's own log; consumers get the HWM, and only from the leader."""
    h = leader_and_follower()
    h.write(1, 2)
    assert [h.list_offsets(broker, -1, replica_id=-2).offset for broker in (1, 2)] == [2, 0]
    h.run()
    entry = h.list_offsets(2, -1, replica_id=-2)
    assert (entry.error_code, entry.offset, entry.leader_epoch) == (ErrorCode.none, 2, 0)
    assert h.list_offsets(2, -2, replica_id=-2).offset == 0
    assert [h.list_offsets(2, timestamp, replica_id=-2).offset for timestamp in (-3, 0, 2**60)] == [0, 0, -1]
    assert h.list_offsets(2, -1).error_code is ErrorCode.not_leader_or_follower


def test_consumers_read_below_the_hwm_and_followers_to_the_leo() -> None:
    """H5: only followers see an uncommitted record."""
    h = Harness()
    h.apply(partition(isr=(1, 2)), 1)
    h.write(1, 2)
    h.follower_fetch(1, 2, 1)
    token = h.fetch(1, consumer_request(fetch_partition(0), isolation=1))
    entry = h.fetched_partition(1, token)
    assert (entry.high_watermark, entry.last_stable_offset, entry.aborted_transactions) == (1, 1, ())
    assert records_size(entry) == len(records(1))
    assert records_size(h.follower_fetch(1, 2, 0)) == 2 * len(records(1))


def test_a_debugging_consumer_reads_from_a_follower_below_the_hwm_that_it_knows() -> None:
    """H5, F3: kafka-replica-verification compares replicas that way; consumers have to ask the leader."""
    h = leader_and_follower()
    h.write(1, 2)
    h.run_past_fetch_wait()
    h[2].replica().log.set_hwm(1)

    def read(replica_id: int, offset: int, epoch: int = -1) -> fetch.PartitionData:
        request = consumer_request(fetch_partition(offset, epoch=epoch))
        token = h.fetch(2, replace(request, replica_state=fetch.ReplicaState(replica_id=replica_id)))
        return h.fetched_partition(2, token)

    entry = read(-2, 0)
    assert (entry.error_code, entry.high_watermark) == (ErrorCode.none, 1)
    assert records_size(entry) == len(records(1))
    assert read(-2, 1).records == b""
    assert read(-2, 3).error_code is ErrorCode.offset_out_of_range
    assert read(-2, 0, epoch=9).error_code is ErrorCode.unknown_leader_epoch
    assert read(-1, 0).error_code is ErrorCode.not_leader_or_follower


def test_a_follower_takes_the_leaders_hwm_but_not_above_its_own_leo() -> None:
    """F5, H5: min(leader's HWM, own LEO); it may go down after an election."""
    assert follower.follower_hwm(9, 4) == 4
    assert follower.follower_hwm(2, 4) == 2
    h = Harness((1, 2, 3))
    h.apply(partition())
    h.write(1, 2)
    h.run_past_fetch_wait()
    assert h[3].replica().log.hwm == 2
    h[2].replica().log.set_hwm(1)
    h.apply(partition(2, 1, version=1, isr=(2, 3)))
    h.shared.min_isr = 3  # so that the new leader cannot move its stale HWM
    h.run_past_fetch_wait()
    assert h[3].replica().log.hwm == 1
