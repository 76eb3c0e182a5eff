"""The checker reports each violated safety property of a hand-made cluster, and nothing for a correct one."""

from __future__ import annotations

import pytest

from insync.errors import InvariantError
from insync.properties.history import Acked, Fingerprint, ListedOffset, Read, Sent
from insync.quorum import messages
from insync.quorum.config import QuorumConfig
from insync.sansio import Effect, Message, Reply, Request, Stop
from insync.wire import metadata_records as records
from insync.wire.errors import ErrorCode
from insync.wire.messages import list_offsets
from insync.wire.types import ms
from tests.sim.checker_harness import KEY, CheckedLog, World, recovered, three_replicas


def metadata_fetch(*, replica: int, epoch: int) -> Message:
    return messages.fetch_request("c", replica, epoch, messages.OffsetAndEpoch(0, 0), 0, QuorumConfig())


def test_a_good_run_has_no_violation() -> None:
    """S1-S13: replication, a clean election and a divergence above the high watermark are in order."""
    world = three_replicas()
    world.replicate(1, 1)
    world.change(leader=2, isr=(2, 3))
    world.replica(2).lead(2, (2, 3))
    world.replicate(2, 2, 3, epoch=2)
    world.commit_data(7, leader=2)
    world.checker.finish()
    assert world.violations == []
    assert world.ghost.committed.end == 7


def test_with_stop_the_first_violation_ends_the_run() -> None:
    """S3: it is raised as a broken invariant."""
    world = three_replicas()
    world.checker._stop = True
    world.replicate(1, 1)
    with pytest.raises(InvariantError, match="S3"):
        world.commit_data(6)


def commit_without_broker_3(world: World) -> None:
    """Broker 3 leaves the ISR; a sixth record is committed by the others."""
    world.change(isr=(1, 2))
    world.replica(1).lead(1, (1, 2))
    world.replicate(1, 2, 1)
    world.commit_data(6)


def test_an_elected_leader_without_a_committed_record_is_found() -> None:
    """S1: the replica had been out of sync."""
    world = three_replicas()
    commit_without_broker_3(world)
    assert world.violations == []
    world.change(leader=3, isr=(3,))
    assert "S9" not in world.violations
    world.replica(3).lead(2, (3,))
    world.changed(3)
    assert world.violations == ["S9"]


def test_an_isr_member_that_truncates_committed_records_is_found() -> None:
    """S3, D4: as truncation to the high watermark would do."""
    world = three_replicas()
    world.replica(2).log.truncate(4)
    world.changed(2)
    assert world.violations == ["S3"]


def test_a_leader_that_truncates_committed_records_is_found() -> None:
    """S1: the current leader is checked too."""
    world = three_replicas()
    world.replica(1).log.truncate(4)
    world.changed(1)
    assert "S1" in world.violations


def test_two_logs_that_differ_below_the_high_watermark_are_found() -> None:
    """S2: another record at offset 4, outside the ISR."""
    world = three_replicas()
    world.change(isr=(1, 2))
    world.replica(3).log.truncate(4)
    world.replica(3).log.append(7)
    world.changed(3)
    assert world.violations == []
    world.replica(3).log.hwm = 5
    world.changed(3)
    assert world.violations == ["S2"]


def test_records_committed_below_min_isr_are_found() -> None:
    """S3: the member of the ELR does not have them."""
    world = three_replicas()
    world.change(isr=(1,), eligible_leader_replicas=(2,))
    world.replica(1).lead(1, (1,))
    world.replicate(1, 1)
    world.commit_data(6)
    assert world.violations == ["S3"]


def test_a_leader_that_commits_without_an_electable_replica_is_found() -> None:
    """S4: the controller has 3 in the ISR, the leader does not wait for it."""
    world = three_replicas()
    world.replica(1).lead(1, (1, 2))
    world.changed(1)
    assert world.violations == ["S4"]


def test_a_leader_that_proposes_an_incomplete_replica_is_found() -> None:
    """S4: even before the controller knows of it."""
    world = three_replicas()
    commit_without_broker_3(world)
    assert world.violations == []
    world.replica(1).lead(1, (1, 2), (1, 2, 3))
    world.changed(1)
    assert world.violations == ["S4"]


def test_an_unclean_registration_that_stays_in_the_elr_is_found() -> None:
    """S5: at the moment of registering."""
    world = three_replicas()
    world.crash(2, lost={})
    world.change(isr=(1,), eligible_leader_replicas=(2, 3))
    assert world.violations == []
    recovered(world, 2, 50, CheckedLog())
    assert world.violations == ["S5", "S3"]


def test_a_replica_that_joins_the_isr_before_it_caught_up_is_found() -> None:
    """S5: and one that did catch up is not."""
    world = three_replicas()
    world.crash(2, lost={})
    world.change(isr=(1, 3))
    replica = recovered(world, 2, 50, CheckedLog())
    replica.log.append(1, 4)
    world.changed(2)
    assert world.violations == []
    world.change(isr=(1, 2, 3))
    assert world.violations == ["S5", "S3"]


def test_a_replica_that_caught_up_may_join_again() -> None:
    """S5: a replica that has caught up counts again."""
    world = three_replicas()
    world.crash(2, lost={})
    world.change(isr=(1, 3))
    recovered(world, 2, 50, CheckedLog()).log.append(1, 5)
    world.changed(2)
    world.change(isr=(1, 2, 3))
    assert world.violations == []
    assert world.ghost.suspects == {}


def test_a_fenced_broker_that_still_counts_is_found() -> None:
    """S5, B4: in the ISR when it is fenced, or elected afterwards."""
    fencing = records.BrokerRegistrationChangeRecord(broker_id=2, broker_epoch=1, fenced=records.FENCED)
    world = three_replicas()
    world.commit(fencing)
    assert world.violations == ["S5"]
    world = three_replicas()
    world.change(isr=(1, 3))
    world.commit(fencing)
    assert world.violations == []
    world.change(leader=2, isr=(2,))
    world.replica(2).lead(2, (2,))
    world.changed(2)
    world.change(isr=(2, 3))
    assert "S5" in world.violations


def test_a_clean_stop_keeps_the_place_in_the_elr() -> None:
    """S5, B5: only unclean stops are suspect."""
    world = three_replicas()
    log = world.replica(2).log
    world._nodes[2].stopped = True
    world.step(2, effects=[Stop(True, "controlled shutdown")])
    world.crash(2)
    world.change(isr=(1,), eligible_leader_replicas=(2, 3))
    recovered(world, 2, 50, log)
    assert world.violations == []
    assert world.checker.probes.seen["clean_registration_kept_elr"] == 1


def test_a_high_watermark_that_goes_down_in_a_term_is_found() -> None:
    """S6: H2."""
    world = three_replicas()
    world.replica(1).log.hwm = 4
    world.changed(1)
    assert world.violations == ["S6"]


def listing(offset: int, timestamp: int) -> tuple[Request, list[Effect]]:
    query = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    topics = (list_offsets.ListOffsetsTopic(name="t", partitions=(query,)),)
    request = list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, timeout=ms(0))
    entry = list_offsets.ListOffsetsPartitionResponse(partition_index=0, error_code=ErrorCode.none, offset=offset)
    topic = list_offsets.ListOffsetsTopicResponse(name="t", partitions=(entry,))
    response = list_offsets.ListOffsetsResponse(throttle_time=ms(0), topics=(topic,))
    return Request(1, request), [Reply(1, response)]


@pytest.mark.parametrize(
    ("offset", "timestamp", "violations"),
    [(5, -1, []), (4, -1, ["S6"]), (0, -2, [])],
    ids=["true", "stale", "earliest"],
)
def test_a_leader_that_lists_a_stale_end_offset_is_found(offset: int, timestamp: int, violations: list[str]) -> None:
    """S6, H4: the current leader lists the true end or refuses; the start of the log is not checked."""
    world = three_replicas()
    event, effects = listing(offset, timestamp)
    world.step(1, event, effects)
    assert world.violations == violations


def test_different_committed_metadata_is_found() -> None:
    """S7: broker 2 considers another batch committed at the end."""
    world = three_replicas()
    node = world._nodes[2]
    world.metadata.append(records.NoOpRecord())
    for other, epoch in ((world._nodes[1], 1), (node, 2)):
        other.quorum.log.append(epoch)
        other.quorum.hwm = other.quorum.leo = len(world.metadata)
    world.step(1)
    assert world.violations == []
    world.step(2)
    assert world.violations == ["S7"]


def test_metadata_truncated_below_what_was_committed_is_found() -> None:
    """S7: a running node truncates what it applied."""
    world = three_replicas()
    world._nodes[3].quorum.leo = 2
    world.step(3)
    assert world.violations == ["S7"]


def test_two_quorum_leaders_of_one_epoch_are_found() -> None:
    """S12: and an incomplete one too (S7)."""
    world = three_replicas()
    for broker in (1, 2):
        quorum = world._nodes[broker].quorum
        quorum.epoch, quorum.leader_id, quorum.is_leader = 4, broker, True
        world.step(broker)
    assert world.violations == ["S12"]


def test_a_controller_without_followers_has_to_stop() -> None:
    """S12: a voter that fetches in its epoch follows it; two of three are a majority."""
    world = World()
    quorum = world.quorum(1)
    quorum.epoch, quorum.leader_id, quorum.is_leader = 2, 1, True
    world.step(1)
    world.engine.now += 500_000
    world.step(1, Request(1, metadata_fetch(replica=2, epoch=2)))
    world.step(1, Request(2, metadata_fetch(replica=3, epoch=1)))
    world.engine.now += 500_000
    world.step(1)
    assert world.violations == []
    world.engine.now += 100_000
    world.step(1)
    assert world.violations == ["S12"]


def test_the_time_of_a_controller_starts_when_its_election_is_on_disk() -> None:
    """S12: before that no voter can know of it."""
    world = World()
    quorum = world.quorum(1)
    quorum.epoch, quorum.leader_id, quorum.is_leader, quorum.is_waiting_for_disk = 2, 1, True, True
    world.step(1)
    world.engine.now += 1_000_000
    world.step(1)
    assert world.violations == []
    quorum.is_waiting_for_disk = False
    world.step(1)
    world.engine.now += 600_000
    world.step(1)
    assert world.violations == ["S12"]


def test_two_leaders_of_one_epoch_are_found() -> None:
    """S12: both act in epoch 1."""
    world = three_replicas()
    world.replica(2).lead(1, (1, 2, 3))
    world.changed(2)
    assert world.violations == ["S12"]


def test_clients_are_checked_against_the_committed_log() -> None:
    """S6, S8, S9, S11: one violation of each, through the history."""
    world = three_replicas()
    for record in (
        Sent(1, 1, KEY, -1, 1, crc=1004),
        Acked(1, 2, 4),
        ListedOffset(3, 4, KEY, 4, leader_epoch=1),
        Read(3, 4, KEY, 5, 6, (Fingerprint(5, 5, 1, 1005),), leader_epoch=1),
        Sent(2, 5, KEY, -1, 1, crc=7),
        Acked(2, 6, 9),
        ListedOffset(7, 8, KEY, 6, leader_epoch=1),
    ):
        world.history.append(record)
    world.step(1)
    assert world.violations == ["S11", "S8", "S9", "S6"]


def test_deleting_records_that_are_not_committed_is_found() -> None:
    """S9: retention never deletes above the high watermark."""
    world = three_replicas()
    world.replica(2).log.append(1, 3)
    world.replica(2).log.log_start = 7
    world.changed(2)
    assert world.violations == ["S9"]


def test_a_recovery_quorum_that_is_too_small_is_found() -> None:
    """S10: the last-known ELR has one member, MinISR is 2."""
    world = three_replicas()
    world.change(leader=-1, isr=(), eligible_leader_replicas=(2,), last_known_elr=(1,))
    assert world.violations == []
    world.change(eligible_leader_replicas=(), last_known_elr=(1,))
    assert world.violations == ["S10"]


def test_a_reassignment_that_completes_too_early_is_found() -> None:
    """S14: replica 4 is added in the place of 3, and 3 is removed before 4 is in the ISR."""
    world = three_replicas()
    world.change(replicas=(1, 2, 4, 3), adding_replicas=(4,), removing_replicas=(3,))
    assert world.violations == []
    world.change(replicas=(1, 2, 4), isr=(1, 2), adding_replicas=(), removing_replicas=())
    assert "S14" in world.violations


def test_a_repeated_sequence_is_found() -> None:
    """S13: a retry was appended again."""
    world = three_replicas()
    for broker in (3, 2, 1):
        log = world.replica(broker).log
        log.append(1, 2)
        for header in log.headers[5:]:
            header.producer_id, header.producer_epoch, header.base_sequence = 9, 0, 3
        world.changed(broker)
    world.commit_data(7)
    assert world.violations == ["S13"]
