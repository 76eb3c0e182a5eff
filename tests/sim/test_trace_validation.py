"""Simulated runs as traces of the published specification; TLC itself runs in `make validate-traces`."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

import validate_traces
from insync.replication.leader import Leader
from insync.sim.mutants.catalogue import MUTANTS
from insync.sim.plans.plan import Action, Plan
from insync.sim.run import Outcome, run_plan
from insync.sim.validation.plans import LEFT_OUT, draw_trace_plan
from insync.sim.validation.record import record_plan
from insync.sim.validation.steps import Message, PartitionTrace, Step
from insync.sim.validation.tla import render, render_module, step_fields

SEED = 9
"""Three brokers, one topic with one partition."""


def short_plan(*actions: Action) -> Plan:
    plan = draw_trace_plan(SEED)
    assert plan is not None
    return dataclasses.replace(plan, actions=actions, fault_ms=2_000)


CRASH = Action(at_ms=100, kind="crash", target="leader:t0-0", duration_ms=1_200)


@pytest.fixture(scope="module")
def recorded() -> tuple[Outcome, PartitionTrace]:
    outcome, traces = record_plan(short_plan(CRASH))
    assert outcome.violation is None
    return outcome, traces[0]


@pytest.fixture(scope="module")
def crash_trace(recorded: tuple[Outcome, PartitionTrace]) -> PartitionTrace:
    return recorded[1]


def test_recording_changes_nothing(recorded: tuple[Outcome, PartitionTrace]) -> None:
    """A recorded run is step by step the run without a recorder, and nothing stays wrapped."""
    assert recorded[0].trace_hash == run_plan(short_plan(CRASH)).trace_hash
    assert Leader.append.__qualname__ == "Leader.append"


def test_a_leader_crash_as_steps(crash_trace: PartitionTrace) -> None:
    """B4, E2, T1: the leader crashes, is fenced, and another replica learns that it leads."""
    steps = crash_trace.kept_steps()
    crash = next(index for index, step in enumerate(steps) if step.action == "Crash")
    dead = steps[crash].broker
    fence = next(index for index, step in enumerate(steps) if (step.action, step.broker) == ("FenceBroker", dead))
    after = steps[fence].fields["controller"][0]
    elected = next(
        step
        for step in steps[fence:]
        if step.action == "MetadataUpdate" and step.after is not None and step.after["role"] == "leader"
    )
    assert crash < fence
    assert dead not in after["isr"]
    assert elected.broker == after["leader"] != dead
    assert elected.after is not None
    assert elected.after["leader_epoch"] == after["leader_epoch"] == 2


def test_a_restart_as_steps(crash_trace: PartitionTrace) -> None:
    """B1, B5: after an unclean stop there is no epoch on file; registering gives a new one."""
    steps = crash_trace.kept_steps()
    dead = next(step.broker for step in steps if step.action == "Crash")
    names = [step.action for step in steps if step.broker == dead]
    started = names[names.index("Crash") :]
    order = ["Crash", "FenceBroker", "BrokerStart", "RegisterBroker", "RegistrationResponse", "UnfenceBroker"]
    assert [name for name in started if name in order][:6] == order
    assert next(step for step in steps if step.action == "BrokerStart").fields["epoch"] == 0


def test_received_messages_were_sent(crash_trace: PartitionTrace) -> None:
    sent: set[int] = set()
    for step in crash_trace.kept_steps():
        if step.receives is not None:
            assert step.receives.number in sent, step.action
        if step.sends is not None and step.sends.number:
            sent.add(step.sends.number)


def test_whole_logs_are_compared_at_the_end(crash_trace: PartitionTrace) -> None:
    logs = [step.fields["log"] for step in crash_trace.kept_steps() if step.action == "CompareLog"]
    assert len(logs) == 3
    assert len(set(logs)) == 1
    assert logs[0]


def test_fetches_without_effect_are_left_out(crash_trace: PartitionTrace) -> None:
    everything, kept = crash_trace.steps, crash_trace.kept_steps()
    assert sum(step.action == "SendFetch" for step in kept) < sum(step.action == "SendFetch" for step in everything)


def test_a_message_that_no_step_receives_is_lost() -> None:
    trace = PartitionTrace(name="t-0", key=None, min_isr=1, seed=0, brokers=(1, 2), init={})  # type: ignore[arg-type]
    send, receive = Step("SendFetch", 1, 0), Step("FetchRequest", 2, 0)
    lost = send.send()
    assert "sends" not in step_fields(send, {})
    receive.receive(lost)
    trace.steps = [send, receive]
    trace.kept_steps()
    assert step_fields(send, {})["sends"] == step_fields(receive, {})["message"] == 3


def test_a_retransmitted_message_stays_in_flight() -> None:
    trace = PartitionTrace(name="t-0", key=None, min_isr=1, seed=0, brokers=(1,), init={})  # type: ignore[arg-type]
    message = Message()
    trace.steps = [Step("AlterPartition", 1, 0), Step("AlterPartition", 1, 0)]
    for step in trace.steps:
        step.receive(message)
    first, last = (step_fields(step, {}) for step in trace.kept_steps())
    assert first["again"] is True
    assert "again" not in last


def test_observations_are_given_as_changes() -> None:
    known: dict[int, dict[str, object]] = {}
    first, second = Step("MetadataUpdate", 1, 0), Step("FetchResponse", 1, 0)
    first.after, second.after = {"leo": 1, "hwm": 1}, {"leo": 2, "hwm": 1}
    assert step_fields(first, known)["after"] == [{"leo": 1, "hwm": 1}]
    assert step_fields(second, known)["after"] == [{"leo": 2}]


def test_values_as_tla() -> None:
    value = {"a": (1, True), "b": frozenset({2, 1}), "c": [{"d": "x"}], "e": ()}
    assert render(value) == '[a |-> <<1, TRUE>>, b |-> {1, 2}, c |-> {[d |-> "x"]}, e |-> <<>>]'


def test_traces_of_different_shapes_need_different_modules(crash_trace: PartitionTrace) -> None:
    other = dataclasses.replace(crash_trace, min_isr=crash_trace.min_isr + 1)
    assert "TraceBrokerCount == 3" in render_module([crash_trace])
    with pytest.raises(ValueError, match="different shapes"):
        render_module([crash_trace, other])


def test_plans_have_nothing_that_the_specification_lacks() -> None:
    plans = [plan for plan in map(draw_trace_plan, range(60)) if plan is not None]
    assert len(plans) > 30
    for plan in plans:
        assert not LEFT_OUT & {action.kind for action in plan.actions}
        assert all(dict(topic.configs)["unclean.recovery.strategy"] == "manual" for topic in plan.topics)


def test_what_tlc_says() -> None:
    output = """<<"step", 1, 41, "MetadataUpdate", 2>>
<<"step", 1, 42, "FetchRequest", 1>>
<< "differs",
   1,
   42,
   "FetchRequest",
   "HWM",
   11,
   12 >>
Model checking completed. No error has been found.
"""
    assert validate_traces.rejected_step(output) == (42, "FetchRequest, HWM: (specified, observed) = (11, 12)")
    assert validate_traces.is_complete(output)
    assert validate_traces.accepted_traces('<<"accepted", 3, 810>>\n<<"accepted", 12, 7>>') == {3, 12}


def test_a_checkout_without_modules_is_named(tmp_path: Path) -> None:
    with pytest.raises(validate_traces.ValidationError, match=r"SPEC=.*has TLA\+ modules"):
        validate_traces.find_folder(str(tmp_path), "https://github.com/x/y", Path("z"), "SPEC")


def test_all_specified_mutants_exist() -> None:
    assert set(validate_traces.SPECIFIED_MUTANTS) <= set(MUTANTS)
