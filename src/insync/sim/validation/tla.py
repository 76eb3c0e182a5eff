"""Traces as a TLA+ module, `kafka_traces`, that the trace specification extends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from insync.sim.validation.steps import NONE, PartitionTrace, Step

MODULE = "kafka_traces"


def render_module(traces: Sequence[PartitionTrace], *, explain: bool = False) -> str:
    """All traces must have the same number of brokers and the same MinISR: these are constants of the specification."""
    shapes = {(len(trace.brokers), trace.min_isr) for trace in traces}
    if len(shapes) != 1:
        raise ValueError(f"traces of different shapes: {sorted(shapes)}")
    brokers, min_isr = shapes.pop()
    lines = [
        f"---- MODULE {MODULE} ----",
        "EXTENDS Integers, Sequences",
        f"TraceBrokerCount == {brokers}",
        f"TraceMinISR == {min_isr}",
        f"TraceValues == 1..{max(1, *(len(trace.values) for trace in traces))}",
        f"Explain == {render(explain)}",
    ]
    for number, trace in enumerate(traces, 1):
        known: dict[int, dict[str, Any]] = {}
        steps = ",\n  ".join(render(step_fields(step, known)) for step in trace.kept_steps())
        lines.append(f"\\* {trace.name}")
        lines.append(f"Trace{number} == [init |-> {render(trace.init)}, steps |-> <<\n  {steps}>>]")
    names = ", ".join(f"Trace{number}" for number in range(1, len(traces) + 1))
    return "\n".join([*lines, f"Traces == <<{names}>>", "====", ""])


def step_fields(step: Step, known: dict[int, dict[str, Any]]) -> dict[str, Any]:
    """What the trace specification reads of a step, without what has its default value there.

    Of an observation only what has changed is given; `known` is the last observation of each broker. What is not always
    there is a set of at most one.
    """
    message, sent = step.receives, step.sends
    fields: dict[str, Any] = {"action": step.action, "broker": step.broker}
    if message is not None and message.number != NONE:
        fields["message"] = message.number
        if message.last_receiver is not step:
            fields["again"] = True
    if sent is not None and sent.number != NONE:
        fields["sends"] = sent.number
    if step.after is not None:
        before = known.get(step.broker, {})
        known[step.broker] = step.after
        fields["after"] = [{name: value for name, value in step.after.items() if before.get(name) != value}]
    if step.action == "Crash":
        known.pop(step.broker, None)
    return {**fields, **step.fields}


def render(value: Any) -> str:
    """A value as TLA+: tuples are sequences, lists and sets are sets, dicts are records."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, dict):
        return "[" + ", ".join(f"{name} |-> {render(item)}" for name, item in value.items()) + "]"
    if isinstance(value, tuple):
        return "<<" + _render_all(value) + ">>"
    if isinstance(value, frozenset):
        return "{" + _render_all(sorted(value)) + "}"
    return "{" + _render_all(value) + "}"


def _render_all(values: Iterable[Any]) -> str:
    return ", ".join(render(value) for value in values)
