"""The public `insync.sim.Simulation`: returned values, known scenarios, determinism, and errors for wrong arguments."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from typing import cast

import pytest

import insync.sim
from insync.sim import PartitionView, Simulation, SimulationStoppedError


def build(*, seed: int = 1, min_isr: int = 1) -> Simulation:
    sim = Simulation(brokers=3, seed=seed)
    sim.create_topic("t", replicas=(1, 2, 3), min_insync_replicas=min_isr)
    return sim


def log_of(sim: Simulation, broker: int) -> list[str]:
    return [f"{record.text}@{record.leader_epoch}" for record in sim.partition("t", 0).replica(broker).records]


# --- returned values -------------------------------------------------------------------------------------------------


def test_a_produced_record_is_acknowledged_and_read_back() -> None:
    sim = build(min_isr=2)
    outcome = sim.produce("t", 0, b"A", "B", acks="all")
    assert (outcome.offset, outcome.error, outcome.pending, outcome.acknowledged) == (0, None, False, True)
    assert sim.produce("t", 0, b"C").offset == 2
    read = sim.consume("t", 0, offset=1)
    assert read.values == [b"B", b"C"]
    assert [record.offset for record in read.records] == [1, 2]
    assert read.error is None
    assert read.high_watermark == 3


def test_a_partition_shows_metadata_and_every_replica() -> None:
    sim = build()
    sim.produce("t", 0, "A")
    sim.run_until("t-0 hwm.3=1")
    view = sim.partition("t", 0)
    assert (view.leader, view.leader_epoch, view.isr, view.elr, view.replicas) == (1, 0, (1, 2, 3), (), (1, 2, 3))
    assert (view.leo, view.hwm) == (1, 1)
    assert [view.replica(broker).role for broker in (1, 2, 3)] == ["leader", "follower", "follower"]
    assert view.replica(3).hwm == 1
    assert view.replica(1).maximal_isr == (1, 2, 3)
    assert view.replica(2).isr is None


def test_a_view_is_a_snapshot() -> None:
    sim = build()
    before = sim.partition("t", 0)
    sim.produce("t", 0, "A")
    assert before.leo == 0
    assert sim.partition("t", 0).leo == 1


def test_below_min_isr_acks_all_fails_and_acks_1_does_not() -> None:
    """P2."""
    sim = build(min_isr=3)
    sim.crash(3)
    sim.run_until("t-0 isr=1,2")
    sim.run_for(20)
    assert sim.produce("t", 0, "A").error == "NOT_ENOUGH_REPLICAS"
    outcome = sim.produce("t", 0, "B", acks=1)
    assert (outcome.offset, outcome.error) == (0, None)
    assert sim.consume("t", 0).values == []


def test_a_pending_produce_is_completed_when_its_response_comes() -> None:
    """P3: acks=all waits for every member of the ISR."""
    sim = build(min_isr=2)
    sim.pause(2)
    outcome = sim.produce("t", 0, "A", wait_ms=50)
    assert outcome.pending
    assert not outcome.acknowledged
    sim.resume(2)
    sim.run_until(lambda: not outcome.pending)
    assert outcome.offset == 0


def test_an_idempotent_retry_gets_the_first_offset() -> None:
    """P4."""
    sim = build()
    first = sim.produce("t", 0, "A", producer_id=7, sequence=0)
    assert sim.retry(first).offset == first.offset == 0
    assert sim.consume("t", 0).values == [b"A"]


def test_a_controlled_shutdown_moves_the_leader_before_the_process_ends() -> None:
    """B7."""
    sim = build()
    sim.shut_down(1)
    assert sim.broker(1).state == "down"
    assert sim.partition("t", 0).leader in (2, 3)
    sim.restart(1)
    sim.run_until(lambda: sim.broker(1).state == "running")
    assert not sim.broker(1).fenced


def test_a_partition_without_a_leader_shows_it() -> None:
    sim = build()
    for broker in sim.brokers:
        sim.crash(broker)
    sim.run_until("t-0 leader=none")
    view = sim.partition("t", 0)
    assert (view.leader, view.leo, view.hwm) == (None, None, None)
    assert sim.produce("t", 0, "A").error == "LEADER_NOT_AVAILABLE"
    assert sim.consume("t", 0).error == "LEADER_NOT_AVAILABLE"


def test_a_reassignment_moves_a_replica() -> None:
    """R2."""
    sim = Simulation(brokers=4)
    sim.create_topic("t", replicas=(1, 2, 3))
    sim.produce("t", 0, "A")
    sim.reassign("t", 0, [1, 2, 4])
    sim.run_until(lambda: sim.partition("t", 0).isr == (1, 2, 4))
    view = sim.partition("t", 0)
    assert view.replicas == (1, 2, 4)
    assert not view.adding
    assert [record.text for record in view.replica(4).records] == ["A"]


def test_a_leader_cut_off_from_the_rest_is_replaced_and_truncates_after_healing() -> None:
    """F3, H1: what it appends meanwhile is never acknowledged to acks=all."""
    sim = build(min_isr=2)
    sim.produce("t", 0, "A")
    sim.partition_network({1}, {2, 3, 101})
    sim.run_until("t-0 leader=2")
    zombie = sim.produce("t", 0, "Z", broker=1, wait_ms=10)
    assert not zombie.acknowledged
    sim.run_for(50)
    assert sim.produce("t", 0, "B").acknowledged
    sim.heal()
    sim.run_until("t-0 isr=1,2,3")
    assert log_of(sim, 1) == ["A@0", "B@1"]
    assert sim.check() == ()


# --- retold scenarios ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_divergence_case_e_a_fork_in_two_epochs(seed: int) -> None:
    """D3, D5: both logs continue after the shared part, each in its own epoch; the follower's part is truncated."""
    sim = build(seed=seed)
    sim.produce("t", 0, "A", "B")
    sim.crash(1)
    sim.run_until("t-0 leader=2 role.2=leader epoch.3=1 isr=2,3")
    sim.hold(3, 2, "fetch", both_ways=True)
    assert sim.produce("t", 0, "C", "D", acks=1).offset == 2
    sim.crash(2)
    sim.run_until("t-0 leader=3 role.3=leader")
    assert log_of(sim, 3) == ["A@0", "B@0"]
    sim.heal()
    sim.produce("t", 0, "X", "Y", acks=1)
    sim.restart(2)
    sim.run_until("t-0 isr=2,3")
    assert log_of(sim, 2) == ["A@0", "B@0", "X@2", "Y@2"]
    assert "truncated t-0" in sim.story()
    assert sim.check() == ()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_elr_recovery_the_last_member_of_the_isr_loses_power(seed: int) -> None:
    """E2, E3, E5, H1: the leader is elected from the ELR, and nothing that was committed is lost."""
    sim = build(seed=seed, min_isr=2)
    sim.hold(2, 1, "fetch", both_ways=True)
    committed = sim.produce("t", 0, "A")
    assert committed.acknowledged
    sim.run_until("t-0 isr=1,3 elr=")
    sim.hold(3, 1, "fetch", both_ways=True)
    assert sim.produce("t", 0, "B", acks=1).offset == 1
    sim.run_until("t-0 isr=1 elr=3 isr.1=1")
    assert sim.produce("t", 0, "C").error == "NOT_ENOUGH_REPLICAS"
    assert sim.partition("t", 0).hwm == 1
    sim.hold(2, 3, "fetch")
    sim.power_loss(1)
    sim.run_until("t-0 leader=3")
    assert sim.partition("t", 0).isr == (3,)
    assert "how elr" in sim.story()
    sim.heal()
    sim.restart(1)
    sim.run_until("t-0 isr=1,2,3 elr= hwm.1=1")
    assert [log_of(sim, broker) for broker in sim.brokers] == [["A@0"]] * 3
    assert sim.consume("t", 0).values == [b"A"]
    assert sim.check() == ()


def test_without_the_maximal_isr_a_property_fails_and_the_simulation_stops() -> None:
    """I3, S3."""
    sim = Simulation(brokers=3, seed=1)
    sim.create_topic("t", replicas=(1, 3, 2), min_insync_replicas=2)
    with sim.without("hwm-over-isr"):
        sim.crash(3)
        sim.run_until("t-0 isr=1,2 isr.1=1,2")
        sim.hold(1, 101, "controller")
        sim.restart(3)
        sim.run_until("t-0 maximal.1=1,2,3")
        sim.hold(101, 1, "controller")
        sim.hold(101, 1, "metadata")
        sim.hold(3, 1, "fetch", both_ways=True)
        sim.release(1, 101, "controller")
        sim.run_until("t-0 isr=1,2,3")
        sim.produce("t", 0, *"ABCDEFGHIJ")
    assert [violation.property for violation in sim.violations] == ["S3"]
    assert sim.story().splitlines()[-1].startswith("VIOLATION S3")
    assert "VIOLATED S3" in repr(sim)
    with pytest.raises(SimulationStoppedError, match="S3"):
        sim.run_for(1)


# --- determinism -----------------------------------------------------------------------------------------------------


def _run_scenario(seed: int) -> str:
    sim = build(seed=seed, min_isr=2)
    sim.produce("t", 0, "A")
    sim.power_loss(1)
    sim.run_until("t-0 leader=2")
    sim.restart(1)
    sim.run_for(1_000)
    return sim.story(verbose=True)


def test_one_seed_gives_one_trace_and_another_seed_another() -> None:
    assert _run_scenario(1) == _run_scenario(1)
    assert _run_scenario(1) != _run_scenario(2)


# --- notebooks -------------------------------------------------------------------------------------------------------


def test_reprs_are_short() -> None:
    sim = build()
    assert repr(sim).startswith("<Simulation seed=1 at ")
    view = repr(sim.partition("t", 0))
    assert "\n" not in view
    assert "leader=1 leader_epoch=0 isr=[1, 2, 3]" in view


def test_pictures_have_a_lane_per_replica_and_escape_values() -> None:
    sim = build()
    sim.produce("t", 0, "<b>A</b>")
    sim.run_until("t-0 leo.2=1")
    picture = sim.partition("t", 0)._repr_html_()
    assert picture.count("&lt;b&gt;A&lt;/b&gt;") >= 2
    assert "<b>A</b>" not in picture
    whole = sim._repr_html_()
    assert "t-0" in whole
    assert whole.count("<tr>") == 1 + 4 + 1 + 3


def test_a_picture_strikes_out_what_the_leader_does_not_have() -> None:
    sim = build()
    sim.produce("t", 0, "A")
    sim.partition_network({1}, {2, 3, 101})
    sim.produce("t", 0, "Z", acks=1, broker=1)
    sim.run_until("t-0 leader=2 role.2=leader")
    sim.produce("t", 0, "B", acks=1)
    assert "line-through" in sim.partition("t", 0)._repr_html_()


# --- wrong arguments -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda sim: Simulation(brokers=0), "brokers must be an int from 1 to 99, not 0"),
        (lambda sim: Simulation(controllers=0), "controllers must be an int from 1 to 99, not 0"),
        (lambda sim: Simulation(seed=cast(int, "x")), "seed must be an int, not 'x'"),
        (lambda sim: sim.create_topic("t"), "topic 't' exists already"),
        (lambda sim: sim.create_topic("u", replicas=(1, 9)), "there is no broker 9: the brokers are 1, 2, 3"),
        (lambda sim: sim.create_topic("u", replication_factor=4), "the controller refused to create topic u"),
        (lambda sim: sim.create_topic("u", configs={"no.such": 1}), "INVALID_CONFIG"),
        (lambda sim: sim.produce("u", 0, "A"), "there is no topic 'u': the topics are t"),
        (lambda sim: sim.produce("t", 1, "A"), "topic 't' has no partition 1: it has partitions 0 to 0"),
        (lambda sim: sim.produce("t", 0), "produce needs at least one value"),
        (lambda sim: sim.produce("t", 0, 5), "a value must be bytes or str, not 5"),
        (lambda sim: sim.produce("t", 0, "A", acks=2), 'acks must be "all", 1 or 0, not 2'),
        (lambda sim: sim.produce("t", 0, "A", broker=101), "there is no broker 101"),
        (lambda sim: sim.consume("t", 0, offset=-1), "offset must be an int of at least 0"),
        (lambda sim: sim.crash(9), "there is no node 9: there are brokers 1, 2, 3 and controllers 101"),
        (lambda sim: sim.partition_network({1}), "at least two sets of nodes"),
        (lambda sim: sim.partition_network({1}, {1, 2}), "a node can be on one side only"),
        (lambda sim: sim.hold(1, 2, "gossip"), "there is no channel 'gossip': the channels are fetch"),
        (lambda sim: sim.release(1, 2), "1->2 is not held: held are no links"),
        (lambda sim: sim.run_for(-1), "ms must be an int of at least 0"),
        (lambda sim: sim.run_until("t-0"), "the value of t-0 is missing"),
        (lambda sim: sim.run_until("t-9 leader=1"), "there is no partition t-9: known are t-0"),
        (lambda sim: sim.run_until("t-0 colour=red"), "a partition has no 'colour'. Known: leader"),
        (lambda sim: sim.run_until(5), "a condition is a function or a text"),
        (lambda sim: sim.partition("t", 0).replica(7), "t-0 has no replica on broker 7: its replicas are on 1, 2, 3"),
        (lambda sim: sim.without("care").__enter__(), "there is no safeguard 'care': known are"),
    ],
)
def test_a_wrong_argument_is_a_value_error_that_names_the_valid_ones(
    call: Callable[[Simulation], object], message: str
) -> None:
    sim = build()
    with pytest.raises(ValueError, match=re.escape(message)):
        call(sim)


def test_a_node_that_is_down_cannot_crash() -> None:
    sim = build()
    sim.crash(1)
    with pytest.raises(ValueError, match=r"node 1 is down: start it with restart\(1\)"):
        sim.crash(1)


def test_a_condition_that_never_holds_times_out() -> None:
    sim = build()
    with pytest.raises(TimeoutError, match="t-0 leader=3 did not become true within 100 ms"):
        sim.run_until("t-0 leader=3", timeout_ms=100)


# --- the package -----------------------------------------------------------------------------------------------------


def test_the_public_names_exist_and_have_docstrings() -> None:
    assert all(getattr(insync.sim, name).__doc__ for name in insync.sim.__all__)
    assert isinstance(build().partition("t", 0), PartitionView)


def test_the_import_needs_neither_spark_nor_the_server() -> None:
    program = (
        "import sys, insync.sim; print([name for name in sys.modules "
        "if name.partition('.')[0] in ('pyspark', 'pyarrow', 'numba', 'typer', 'rich', 'uvloop') "
        "or name.startswith(('insync.server', 'insync.client', 'insync.cli'))])"
    )
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert loaded.strip() == "[]"
