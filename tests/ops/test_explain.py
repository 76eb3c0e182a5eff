"""Explanations follow from the facts: one situation each, and the sentence that a person needs there."""

from __future__ import annotations

from dataclasses import replace

from insync.client.errors import ErrorCode
from insync.client.model import NO_NODE, Partition, Reassignment
from insync.findings import Finding
from insync.ops.explain import explain
from insync.ops.facts import PartitionFacts, ReplicaFacts, effective_min_isr


def facts(*replicas: ReplicaFacts, leader: int = 1, isr: tuple[int, ...] = (1, 2), **fields: object) -> PartitionFacts:
    """Three replicas, leader epoch 4 from offset 50 on, everything committed up to 100."""
    standard = tuple(ReplicaFacts(broker=b, status="live", end=100, shared=100, earlier_end=100) for b in (1, 2, 3))
    named = {r.broker: r for r in (*standard, *replicas)}
    partition = Partition(index=0, leader=leader, leader_epoch=4, replicas=(1, 2, 3), isr=isr)
    base = PartitionFacts(
        topic="t", partition=partition, replicas=tuple(named.values()), min_isr=2, hwm=100, earlier_hwm=100, leso=50,
        seconds=1.0,
    )  # fmt: skip
    return replace(base, **fields)  # type: ignore[arg-type]


def why(told: PartitionFacts, broker: int = 3) -> str:
    return next(story.why for story in explain(told).replicas if story.broker == broker)


def test_all_is_well() -> None:
    told = explain(facts(isr=(1, 2, 3)))
    assert (told.state, told.writes, told.losses) == ("ok", (), ())
    assert [story.standing for story in told.replicas] == ["leader", "in sync", "in sync"]


def test_a_fenced_broker() -> None:
    """B4: a fenced broker is in no ISR."""
    told = facts(ReplicaFacts(broker=3, status="fenced"))
    assert "broker 3 is stopped or fenced" in why(told)
    assert explain(told).state == "degraded"


def test_a_replica_with_damaged_batches() -> None:
    """D6: what its broker reports of it is told, even while it is in the ISR."""
    finding = Finding("corrupt_batch", "t-0", "warning", "offsets 7 to 9 in t-0/0.log: its CRC does not match")
    told = facts(ReplicaFacts(broker=3, status="live", end=100, shared=100, findings=(finding,)), isr=(1, 2, 3))
    assert why(told) == "complete; corrupt batch: offsets 7 to 9 in t-0/0.log: its CRC does not match"
    assert explain(told).state == "degraded"


def test_a_replica_below_the_leaders_epoch_start() -> None:
    """I2: LEO >= LESO."""
    told = facts(ReplicaFacts(broker=3, status="live", end=40, shared=40, earlier_end=30))
    assert "its log ends at 40, before offset 50 where leader epoch 4 begins" in why(told)
    assert "60 records to go at 10/s, about 6 s" in why(told)


def test_a_replica_below_the_high_watermark_that_does_not_move() -> None:
    """I2: LEO >= HWM."""
    told = facts(ReplicaFacts(broker=3, status="live", end=70, shared=70, earlier_end=70))
    assert "its log ends at 70, below the high watermark 100" in why(told)
    assert "30 records to go, and it is not moving" in why(told)


def test_a_replica_that_has_caught_up_waits_for_the_controller() -> None:
    """I3: the leader proposes."""
    assert "it has caught up" in why(facts())


def test_a_log_that_parted_from_the_leaders() -> None:
    """D3: what the leader does not have is cut off."""
    told = facts(ReplicaFacts(broker=3, status="live", end=120, shared=45, last_epoch=3))
    assert "offsets 45 to 119 of its log are not the leader's" in why(told)
    assert "before offset 50" in why(told)
    (loss,) = explain(told).losses
    assert (loss.committed, loss.uncommitted) == (55, 0)


def test_a_failed_disk_and_a_replica_that_is_not_there_yet() -> None:
    failed = ReplicaFacts(broker=3, status="live", error=ErrorCode.kafka_storage_error)
    assert "log directory has failed" in why(facts(failed))
    absent = ReplicaFacts(broker=3, status="live", error=ErrorCode.unknown_topic_or_partition)
    assert "has not created the replica yet" in why(facts(absent))
    other = ReplicaFacts(broker=3, status="live", error=ErrorCode.unknown_server_error)
    assert "UNKNOWN_SERVER_ERROR" in why(facts(other))


def test_a_replica_that_is_being_added_is_named_so() -> None:
    """R1."""
    moving = Reassignment(topic="t", partition=0, replicas=(1, 2, 3), adding=(3,), removing=())
    assert explain(facts(reassignment=moving)).replicas[2].standing == "being added"


def test_an_isr_below_min_isr_refuses_acks_all() -> None:
    """P2."""
    told = explain(facts(ReplicaFacts(broker=2, status="fenced"), isr=(1,)))
    assert told.state == "unavailable"
    assert "the ISR has 1 of the 2 members" in told.writes[0]
    assert "Bring back brokers 2 and 3" in told.writes[0]


def test_a_stuck_high_watermark_names_who_it_waits_for() -> None:
    """H1: the HWM waits for every member of the ISR."""
    behind = facts(
        ReplicaFacts(broker=1, status="live", end=130), ReplicaFacts(broker=2, status="live", end=100, shared=100)
    )
    assert explain(behind).writes == ("30 records above the high watermark 100 wait for broker 2 (H1)",)
    assert "30 records behind" in why(behind, 2)
    moving = replace(behind, earlier_hwm=90)
    assert explain(moving).writes == ()


def test_a_new_leader_without_a_high_watermark() -> None:
    """H4."""
    told = explain(facts(hwm=None, hwm_error=ErrorCode.offset_not_available))
    assert "does not know the high watermark yet" in told.writes[0]


def test_a_leader_that_cannot_be_reached() -> None:
    told = explain(facts(ReplicaFacts(broker=1, status="unreachable")))
    assert "the leader, broker 1, cannot be reached" in told.writes[0]


def leaderless(**fields: object) -> PartitionFacts:
    partition = Partition(
        index=0, leader=NO_NODE, leader_epoch=4, replicas=(1, 2, 3), isr=(), elr=(), last_known_elr=()
    )
    return facts(
        ReplicaFacts(broker=1, status="fenced"),
        ReplicaFacts(broker=2, status="live", end=80),
        ReplicaFacts(broker=3, status="live", end=60),
        partition=replace(partition, **fields),  # type: ignore[arg-type]
        hwm=None,
    )


def test_without_a_leader_the_elr_is_the_way_back() -> None:
    """E2: if the ISR is empty, members of the ELR may be elected."""
    told = explain(leaderless(elr=(1,)))
    assert "Only broker 1 of the ELR may be elected without loss" in told.writes[0]
    assert told.unclean.startswith("avoidable: broker 1 holds everything")
    assert "can be elected when it is back" in told.replicas[0].why


def test_without_a_complete_replica_the_losses_are_compared() -> None:
    """E6: what an unclean election would lose, as far as anybody can tell."""
    told = explain(leaderless(last_known_elr=(1, 2)))
    assert "The last that could were brokers 1 and 2" in told.writes[0]
    assert "An operator decides" in told.writes[0]
    assert [(loss.broker, loss.text) for loss in told.losses] == [
        (2, "nothing that another replica shows, and whatever else broker 1 holds"),
        (3, "20 records that another replica has, and whatever else broker 1 holds"),
    ]


def test_the_recovery_strategy_is_told() -> None:
    """E6."""
    for strategy, words in (
        ("balanced", "waits until all of them are back"),
        ("proactive", "best replica that answers"),
    ):
        assert words in explain(replace(leaderless(), strategy=strategy)).writes[0]
    assert "first replica that comes back" in explain(replace(leaderless(), unclean_election=True)).writes[0]


def test_min_isr_is_never_more_than_there_are_replicas() -> None:
    """H1: the effective MinISR."""
    partition = Partition(index=0, leader=1, leader_epoch=0, replicas=(1, 2), isr=(1, 2))
    assert effective_min_isr("3", partition) == 2
    assert effective_min_isr("1", partition) == 1
    assert effective_min_isr(None, partition) == 1
