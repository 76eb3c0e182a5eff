"""Explanations from facts: one test per situation, with the sentence that an operator needs."""

from __future__ import annotations

from dataclasses import replace

from insync.client.errors import ErrorCode
from insync.client.model import NO_NODE, Partition, Reassignment
from insync.findings import Finding
from insync.ops.explain import explain
from insync.ops.facts import PartitionFacts, ReplicaFacts, effective_min_isr


def facts(*replicas: ReplicaFacts, leader: int = 1, isr: tuple[int, ...] = (1, 2), **fields: object) -> PartitionFacts:
    """Three replicas; leader epoch 4 starts at offset 50, and everything is committed up to 100."""
    standard = tuple(ReplicaFacts(broker=b, status="live", end=100, shared=100, earlier_end=100) for b in (1, 2, 3))
    named = {r.broker: r for r in (*standard, *replicas)}
    partition = Partition(index=0, leader=leader, leader_epoch=4, replicas=(1, 2, 3), isr=isr)
    base = PartitionFacts(
        topic="t", partition=partition, replicas=tuple(named.values()), min_isr=2, hwm=100, earlier_hwm=100, leso=50,
        seconds=1.0,
    )  # fmt: skip
    return replace(base, **fields)  # type: ignore[arg-type]


def why(known: PartitionFacts, broker: int = 3) -> str:
    return next(replica.why for replica in explain(known).replicas if replica.broker == broker)


def test_all_is_well() -> None:
    explanation = explain(facts(isr=(1, 2, 3)))
    assert (explanation.state, explanation.writes, explanation.losses) == ("ok", (), ())
    assert [replica.standing for replica in explanation.replicas] == ["leader", "in sync", "in sync"]


def test_a_fenced_broker() -> None:
    """B4: a fenced broker is in no ISR."""
    known = facts(ReplicaFacts(broker=3, status="fenced"))
    assert "broker 3 is stopped or fenced" in why(known)
    assert explain(known).state == "degraded"


def test_a_replica_with_damaged_batches() -> None:
    """D6: what its broker reports is shown, even while it is in the ISR."""
    finding = Finding("corrupt_batch", "t-0", "warning", "offsets 7 to 9 in t-0/0.log: its CRC does not match")
    known = facts(ReplicaFacts(broker=3, status="live", end=100, shared=100, findings=(finding,)), isr=(1, 2, 3))
    assert why(known) == "complete; corrupt batch: offsets 7 to 9 in t-0/0.log: its CRC does not match"
    assert explain(known).state == "degraded"


def test_a_replica_below_the_leaders_epoch_start() -> None:
    """I2: LEO >= LESO."""
    known = facts(ReplicaFacts(broker=3, status="live", end=40, shared=40, earlier_end=30))
    assert "its log ends at 40, before offset 50 where leader epoch 4 starts" in why(known)
    assert "60 records to go at 10/s, about 6 s" in why(known)


def test_a_replica_below_the_high_watermark_without_progress() -> None:
    """I2: LEO >= HWM."""
    known = facts(ReplicaFacts(broker=3, status="live", end=70, shared=70, earlier_end=70))
    assert "its log ends at 70, below the high watermark 100" in why(known)
    assert "30 records to go, but it makes no progress" in why(known)


def test_a_replica_that_has_caught_up_waits_for_the_controller() -> None:
    """I3: the leader proposes."""
    assert "it has caught up" in why(facts())


def test_a_log_that_diverged_from_the_leaders() -> None:
    """D3: what the leader does not have is truncated."""
    known = facts(ReplicaFacts(broker=3, status="live", end=120, shared=45, last_epoch=3))
    assert "offsets 45 to 119 of its log differ from the leader's" in why(known)
    assert "before offset 50" in why(known)
    (loss,) = explain(known).losses
    assert (loss.committed, loss.uncommitted) == (55, 0)


def test_a_failed_disk_and_a_replica_that_does_not_exist_yet() -> None:
    failed = ReplicaFacts(broker=3, status="live", error=ErrorCode.kafka_storage_error)
    assert "log directory has failed" in why(facts(failed))
    absent = ReplicaFacts(broker=3, status="live", error=ErrorCode.unknown_topic_or_partition)
    assert "has not created the replica yet" in why(facts(absent))
    other = ReplicaFacts(broker=3, status="live", error=ErrorCode.unknown_server_error)
    assert "UNKNOWN_SERVER_ERROR" in why(facts(other))


def test_a_replica_that_is_being_added() -> None:
    """R1."""
    moving = Reassignment(topic="t", partition=0, replicas=(1, 2, 3), adding=(3,), removing=())
    assert explain(facts(reassignment=moving)).replicas[2].standing == "being added"


def test_an_isr_below_min_isr_fails_acks_all() -> None:
    """P2."""
    explanation = explain(facts(ReplicaFacts(broker=2, status="fenced"), isr=(1,)))
    assert explanation.state == "unavailable"
    assert "the ISR has 1 of the 2 members" in explanation.writes[0]
    assert "Restore brokers 2 and 3" in explanation.writes[0]


def test_a_stuck_high_watermark_names_the_brokers_it_waits_for() -> None:
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
    explanation = explain(facts(hwm=None, hwm_error=ErrorCode.offset_not_available))
    assert "does not know the high watermark yet" in explanation.writes[0]


def test_a_leader_that_cannot_be_reached() -> None:
    explanation = explain(facts(ReplicaFacts(broker=1, status="unreachable")))
    assert "the leader, broker 1, cannot be reached" in explanation.writes[0]


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


def test_without_a_leader_the_elr_can_be_elected() -> None:
    """E2: if the ISR is empty, members of the ELR may be elected."""
    explanation = explain(leaderless(elr=(1,)))
    assert "Only broker 1 of the ELR can be elected without loss" in explanation.writes[0]
    assert explanation.unclean.startswith("avoidable: broker 1 has everything")
    assert "can be elected when it is back" in explanation.replicas[0].why


def test_without_a_complete_replica_the_losses_are_compared() -> None:
    """E6: what an unclean election would lose, as far as live replicas know."""
    explanation = explain(leaderless(last_known_elr=(1, 2)))
    assert "The last complete ones were brokers 1 and 2" in explanation.writes[0]
    assert "An operator has to decide" in explanation.writes[0]
    assert [(loss.broker, loss.text) for loss in explanation.losses] == [
        (2, "nothing that another replica is known to have, and whatever else broker 1 has"),
        (3, "20 records that another replica has, and whatever else broker 1 has"),
    ]


def test_the_recovery_strategy_is_shown() -> None:
    """E6."""
    for strategy, words in (
        ("balanced", "waits for all of them"),
        ("proactive", "best replica that answers"),
    ):
        assert words in explain(replace(leaderless(), strategy=strategy)).writes[0]
    assert "first replica that returns" in explain(replace(leaderless(), unclean_election=True)).writes[0]


def test_min_isr_is_never_more_than_the_number_of_replicas() -> None:
    """H1: the effective MinISR."""
    partition = Partition(index=0, leader=1, leader_epoch=0, replicas=(1, 2), isr=(1, 2))
    assert effective_min_isr("3", partition) == 2
    assert effective_min_isr("1", partition) == 1
    assert effective_min_isr(None, partition) == 1
