"""The ghost of one partition, which sees all replicas: what is committed, lost and forgiven."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from insync.properties.clients import ClientChecks
from insync.properties.ghost import PartitionGhost, Tracked
from insync.properties.history import Acked, Failed, History, ListedOffset, Read, Record, Sent
from tests.properties.property_harness import KEY, FakeLog, batch, committed, partition

NODE = object()


def leader(epoch: int, min_isr: int = 2) -> SimpleNamespace:
    return SimpleNamespace(epoch=epoch, min_isr=min_isr)


def observed(ghost: PartitionGhost, broker: int, log: FakeLog, *, node: object = NODE) -> Tracked:
    tracked = ghost.observe(broker, node, log)
    tracked.leo, tracked.hwm = log.leo, log.hwm
    return tracked


def lead(ghost: PartitionGhost, broker: int, log: FakeLog, epoch: int, hwm: int) -> list[tuple[str, str]]:
    tracked = ghost.observe(broker, NODE, log)
    log.hwm = hwm
    findings = ghost.leader_claims(broker, tracked, log, leader(epoch))
    tracked.leo, tracked.hwm = log.leo, log.hwm
    return findings


def test_the_committed_log_grows_with_the_leaders_high_watermark() -> None:
    """S1: up to there, and not further."""
    ghost = PartitionGhost(partition(), 2)
    log = FakeLog([1, 1, 1])
    assert lead(ghost, 1, log, 1, hwm=2) == []
    assert (ghost.committed.end, ghost.committed.at(1)) == (2, batch(1))
    assert ghost.committed.at(2) is None


def test_a_leader_that_commits_over_what_was_committed_is_found() -> None:
    """S1: a replaced leader and its successor commit different records."""
    ghost = PartitionGhost(partition(), 2)
    assert lead(ghost, 1, FakeLog([1, 1]), 1, hwm=2) == []
    assert [p for p, _ in lead(ghost, 2, FakeLog([1, 2, 2]), 2, hwm=3)] == ["S1"]


def test_a_replaced_leaders_claim_counts_when_it_is_true() -> None:
    """S1: fetches that were under way let it commit what the next leader has too."""
    ghost = PartitionGhost(partition(), 2)
    assert lead(ghost, 2, FakeLog([1, 1, 2]), 2, hwm=1) == []
    assert lead(ghost, 1, FakeLog([1, 1]), 1, hwm=2) == []
    assert lead(ghost, 2, FakeLog([1, 1, 2]), 2, hwm=3) == []
    assert ghost.committed.end == 3


def test_a_replica_that_differs_below_its_high_watermark_is_found() -> None:
    """S2: and one that differs above it is not."""
    ghost = PartitionGhost(partition(), 2)
    lead(ghost, 1, FakeLog([1, 1]), 1, hwm=2)
    stray = FakeLog([1, 0])
    tracked = observed(ghost, 2, stray)
    assert ghost.check_matching(2, tracked, 1) is None
    assert ghost.check_matching(2, tracked, 2)


def test_a_lossy_restart_counts_as_lost_until_the_replica_is_back_in_sync() -> None:
    """S9: back in the ISR and complete."""
    ghost = PartitionGhost(partition(isr=(1,)), 2)
    lead(ghost, 1, FakeLog([1, 1]), 1, hwm=2)
    log = FakeLog([1, 1])
    observed(ghost, 2, log)
    ghost.process_ended(2, lossy=True)
    ghost.process_ended(2, lossy=False)
    reopened = FakeLog([1])
    tracked = observed(ghost, 2, reopened, node=object())
    assert (tracked.lost, ghost.lost_count()) == (True, 1)
    reopened.append(1)
    ghost.end_exemptions(2, tracked, 1)
    assert tracked.lost
    ghost.changed(partition(isr=(1, 2)), 2)
    ghost.end_exemptions(2, tracked, 1)
    assert not tracked.lost


def test_a_restart_that_keeps_its_files_loses_nothing() -> None:
    """S9: what is gone without a lossy crash is not excused by one."""
    ghost = PartitionGhost(partition(), 2)
    lead(ghost, 1, FakeLog([1, 1]), 1, hwm=2)
    observed(ghost, 2, FakeLog([1, 1]))
    ghost.process_ended(2, lossy=False)
    assert not observed(ghost, 2, FakeLog([1]), node=object()).lost


def test_what_a_dead_replica_held_counts_when_a_late_fetch_commits_it() -> None:
    """S9: up to where it is what became committed, and not by the length of its log alone."""
    ghost = PartitionGhost(partition(), 2)
    log = FakeLog([1, 1, 1, 0, 0])
    tracked = observed(ghost, 2, log)
    lead(ghost, 1, FakeLog([1, 1, 1, 1, 1]), 1, hwm=1)
    ghost.process_ends(2, log)
    log.truncate(0)
    ghost.process_ended(2, lossy=True)
    ghost.process_ended(2, lossy=False)
    lead(ghost, 1, FakeLog([1, 1, 1, 1, 1]), 1, hwm=2)
    assert tracked.verified == 2
    lead(ghost, 1, FakeLog([1, 1, 1, 1, 1]), 1, hwm=5)
    assert tracked.verified == 3


def test_a_log_that_is_not_the_one_seen_last_is_not_remembered() -> None:
    """S9: the replica was removed and came again; of the old log nothing can be read."""
    ghost = PartitionGhost(partition(), 2)
    tracked = observed(ghost, 2, FakeLog([1, 1]))
    ghost.process_ends(2, FakeLog([1, 1]))
    ghost.process_ended(2, lossy=False)
    lead(ghost, 1, FakeLog([1, 1]), 1, hwm=2)
    assert tracked.verified == 0


def test_a_permitted_unclean_election_makes_the_winners_log_the_truth() -> None:
    """S9: the rest is forgiven, from the moment in which the winner leads."""
    ghost = PartitionGhost(partition(), 2)
    lead(ghost, 1, FakeLog([1, 1, 1]), 1, hwm=3)
    ghost.elected_uncleanly(2, permitted=True, best=0)
    assert ghost.committed.end == 3
    assert lead(ghost, 2, FakeLog([1, 1]), 2, hwm=2) == []
    assert ghost.committed.end == 2
    assert batch(2) in ghost.forgiven
    assert ghost.forgiven.has(2, 1002)
    assert not ghost.forgiven.has(2, 7)


def test_an_unclean_election_that_may_not_lose_and_does_is_found() -> None:
    """S9: a balanced recovery passed over a complete log."""
    ghost = PartitionGhost(partition(), 2)
    lead(ghost, 1, FakeLog([1, 1, 1]), 1, hwm=3)
    ghost.elected_uncleanly(2, permitted=False, best=3)
    assert [p for p, _ in lead(ghost, 2, FakeLog([1, 1]), 2, hwm=2)] == ["S9"]


def test_a_leader_from_before_an_unclean_election_commits_nothing() -> None:
    """S9: but a client that read from it is forgiven."""
    ghost = PartitionGhost(partition(), 2)
    old = FakeLog([1, 1, 1])
    lead(ghost, 1, old, 1, hwm=1)
    ghost.elected_uncleanly(2, permitted=True, best=0)
    assert lead(ghost, 1, old, 1, hwm=3) == []
    assert ghost.committed.end == 1
    assert batch(2) in ghost.forgiven


def after_unclean_election(records: int = 3, committed: int = 3, more: int = 2) -> tuple[PartitionGhost, FakeLog]:
    """Replica 1 led with committed records; replica 2 won with two of them and wrote more. Returns the log of 1."""
    ghost = PartitionGhost(partition(), 2)
    old = FakeLog([1] * records)
    lead(ghost, 1, old, 1, hwm=committed)
    ghost.elected_uncleanly(2, permitted=True, best=0)
    winner = FakeLog([1, 1])
    lead(ghost, 2, winner, 2, hwm=2)
    winner.append(2, more)
    lead(ghost, 2, winner, 2, hwm=2 + more)
    return ghost, old


def test_a_replica_is_excused_until_it_has_truncated_what_the_winner_lacks() -> None:
    """S2: after an unclean election, not before it, and not for good."""
    ghost, old = after_unclean_election()
    tracked = observed(ghost, 1, old)
    ghost.end_exemptions(1, tracked, 2)
    assert ghost.check_matching(1, tracked, 3) is None
    old.truncate(2)
    ghost.end_exemptions(1, observed(ghost, 1, old), 2)
    assert not tracked.excused
    old.append(1)
    assert ghost.check_matching(1, tracked, 3)


def test_deleted_records_of_an_old_log_do_not_count_as_shared_with_the_winner() -> None:
    """S2: a replaced leader continued, and deleted the records that it shared with the winner."""
    ghost, old = after_unclean_election(records=6, committed=5, more=6)
    old.log_start = 4
    tracked = observed(ghost, 1, old)
    ghost.end_exemptions(1, tracked, 2)
    assert ghost.check_matching(1, tracked, 5) is None
    copy = FakeLog([1, 1, 2, 2, 2, 2], log_start=4)
    copy.truncation_count = 1
    ghost.end_exemptions(1, observed(ghost, 1, copy), 2)
    assert not tracked.excused


@pytest.mark.parametrize("lossy", [True, False])
def test_a_truncation_may_be_undone_by_a_power_loss_only(lossy: bool) -> None:
    """S2: what a replica had truncated after an unclean election is back, and has to be truncated again."""
    ghost, old = after_unclean_election()
    old.truncate(2)
    ghost.end_exemptions(1, observed(ghost, 1, old), 2)
    ghost.process_ended(1, lossy=lossy)
    revived = observed(ghost, 1, FakeLog([1, 1, 1]))
    ghost.end_exemptions(1, revived, 2)
    assert (ghost.check_matching(1, revived, 3) is None) == lossy


def test_min_isr_is_as_weak_as_it_was_when_records_were_last_committed() -> None:
    """S9, S10: raising it protects what is committed afterwards, lowering it counts at once."""
    ghost = PartitionGhost(partition(), 1)
    log = FakeLog([1, 1])
    lead(ghost, 1, log, 1, hwm=1)
    ghost.changed(partition(), 2)
    assert ghost.weakest == 1
    lead(ghost, 1, log, 1, hwm=2)
    assert ghost.weakest == 2
    ghost.changed(partition(), 1)
    assert ghost.weakest == 1


def test_what_the_winner_of_an_unclean_election_had_committed_before_is_protected_by_it_alone() -> None:
    """S9, S10: until it commits more, which takes MinISR replicas."""
    ghost = PartitionGhost(partition(), 2)
    winner = FakeLog([1, 1])
    observed(ghost, 2, winner).hwm = 2
    ghost.elected_uncleanly(2, permitted=True, best=0)
    lead(ghost, 2, winner, 2, hwm=2)
    assert (ghost.committed.end, ghost.weakest) == (2, 1)
    winner.append(2)
    lead(ghost, 2, winner, 2, hwm=3)
    assert (ghost.committed.end, ghost.weakest) == (3, 2)


def test_a_log_is_compared_only_where_it_is_new() -> None:
    """S2: an agreeing prefix is not read again."""
    truth, log = committed(1, 1, 1), FakeLog([1, 1, 1])
    log.headers[0].crc = 0
    assert truth.verified(log, 1) == 3
    assert truth.verified(log, 0) == 0


def test_what_retention_deleted_counts_as_held() -> None:
    """S1: a log that starts later is complete from there on."""
    assert committed(1, 1, 1).verified(FakeLog([1, 1, 1], log_start=2), 0) == 3


def test_a_long_committed_log_drops_its_oldest_half() -> None:
    """S2: memory stays bounded, the newer half is still compared."""
    truth = committed(*[1] * 20_000)
    assert len(truth.batches) <= 16_384
    assert truth.start > 0
    assert truth.verified(FakeLog([1] * 20_000), 0) == 20_000
    assert truth.verified(FakeLog([1] * 19_000 + [2] * 1000), 0) == 19_000


class World:
    """A ghost with five committed records of epoch 1, and a history of clients."""

    def __init__(self) -> None:
        self.ghost = PartitionGhost(partition(), 2)
        self.log = FakeLog([1] * 8)
        lead(self.ghost, 1, self.log, 1, hwm=5)
        self.violations: list[str] = []
        self.history = History()
        self.clients = ClientChecks(self.history, {KEY: self.ghost}, lambda p, detail, name: self.violations.append(p))

    def saw(self, *records: Record) -> list[str]:
        for record in records:
            self.history.append(record)
        self.clients.check()
        violations, self.violations[:] = list(self.violations), []
        return violations


def test_an_acknowledged_batch_has_to_be_committed() -> None:
    """S9: at that offset, and that batch."""
    world = World()
    assert world.saw(Sent(1, 0, KEY, -1, 1, crc=1003), Acked(1, 1, 3)) == []
    assert world.saw(Sent(2, 0, KEY, -1, 1, crc=1006), Acked(2, 1, 6)) == ["S9"]
    assert world.saw(Sent(3, 0, KEY, -1, 1, crc=77), Acked(3, 1, 4)) == ["S9"]
    assert world.saw(Sent(4, 0, KEY, 1, 1, crc=1006), Acked(4, 1, 6)) == []


def test_an_acknowledgement_that_an_unclean_election_undid_is_forgiven() -> None:
    """S9: it may reach the client after the unclean election."""
    world = World()
    world.saw(Sent(1, 0, KEY, -1, 1, crc=1004), Sent(2, 0, KEY, -1, 1, crc=99))
    world.ghost.elected_uncleanly(2, permitted=True, best=0)
    lead(world.ghost, 2, FakeLog([1] * 4), 2, hwm=4)
    assert world.saw(Acked(1, 9, 4)) == []
    assert world.saw(Acked(2, 9, 4)) == ["S9"]


def test_reads_and_listed_offsets_are_checked_against_the_committed_log() -> None:
    """S6, S8: only what is committed."""
    world = World()
    assert world.saw(Read(0, 1, KEY, 4, 5, (batch(4),), leader_epoch=1)) == []
    assert world.saw(Read(0, 1, KEY, 5, 6, (batch(5),), leader_epoch=1)) == ["S8"]
    assert world.saw(ListedOffset(0, 1, KEY, 5, leader_epoch=1)) == []
    assert world.saw(ListedOffset(0, 1, KEY, 6, leader_epoch=1)) == ["S6"]


def test_unordered_writes_and_missing_acknowledged_writes_are_found() -> None:
    """S11: through the history of a client."""
    world = World()
    world.saw(Sent(1, 0, KEY, -1, 1, crc=1004), Acked(1, 5, 4))
    assert world.saw(ListedOffset(6, 7, KEY, 4, leader_epoch=1)) == ["S11"]
    assert world.saw(Sent(2, 8, KEY, -1, 1, crc=1003), Acked(2, 9, 3)) == ["S11"]


def test_operations_wait_until_they_are_answered() -> None:
    """L5: acks=0 expects no response."""
    world = World()
    world.saw(Sent(1, 0, KEY, -1, 1), Sent(2, 0, KEY, 1, 1), Sent(3, 0, KEY, 0, 1))
    assert world.clients.waiting() == [1, 2]
    world.saw(Failed(1, 1, "timeout"), Acked(2, 1, 0))
    assert world.clients.waiting() == []
