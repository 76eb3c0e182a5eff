"""Shrinks a failing plan until it is small enough to read: leaves out parts while the same property still fails.

Actions go first, in halves and then one by one (most of them have nothing to do with the failure), then clients, nodes,
topics and time. Every attempt is a whole run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from insync.sim.plans.plan import Plan
from insync.sim.run import run_plan

AFTER_VIOLATION_MS = 200
"""The fault phase may end this long after the violation."""


class Shrinker:
    """It stops at `deadline` by `clock`, which is passed in, since the simulator reads no clock."""

    def __init__(self, property_id: str, deadline: float, clock: Callable[[], float]) -> None:
        self._property = property_id
        self._deadline = deadline
        self._clock = clock
        self.attempts = 0

    def shrink(self, plan: Plan) -> Plan:
        """Repeat until a whole round leaves nothing more out or the time is up."""
        plan = self._end_early(plan)
        while True:
            before = plan
            for field in ("actions", "clients", "nodes", "topics"):
                plan = self._drop_pieces(plan, field)
            plan = self._end_early(plan)
            if plan == before or self._is_late():
                return plan

    def _is_late(self) -> bool:
        return self._clock() >= self._deadline

    def _fails(self, plan: Plan) -> bool:
        self.attempts += 1
        violation = run_plan(plan).violation
        return violation is not None and violation.property == self._property

    def _drop_pieces(self, plan: Plan, field: str) -> Plan:
        """Delta debugging: drop smaller and smaller pieces of one tuple of the plan."""
        size = len(getattr(plan, field))
        while size >= 1 and not self._is_late():
            for smaller in _without_pieces(plan, field, size):
                if self._is_late():
                    break
                if self._fails(smaller):
                    plan = smaller
                    break
            else:
                size //= 2
            size = min(size, len(getattr(plan, field)))
        return plan

    def _end_early(self, plan: Plan) -> Plan:
        """Cut off what comes after the violation; a liveness failure needs its whole time."""
        violation = run_plan(plan).violation
        if violation is None or violation.property.startswith("L"):
            return plan
        cut = max(100, violation.time - plan.setup_ms + AFTER_VIOLATION_MS)
        shorter = dataclasses.replace(
            plan, fault_ms=min(plan.fault_ms, cut), actions=tuple(a for a in plan.actions if a.at_ms <= cut)
        )
        return shorter if shorter != plan and self._fails(shorter) else plan


def _without_pieces(plan: Plan, field: str, size: int) -> Iterator[Plan]:
    items: tuple[Any, ...] = getattr(plan, field)
    for start in range(0, len(items), size):
        kept = items[:start] + items[start + size :]
        if field == "nodes" and not _can_run(kept):
            continue
        changes: dict[str, Any] = {field: kept}
        yield dataclasses.replace(plan, **changes)


def _can_run(nodes: tuple[Any, ...]) -> bool:
    return any("controller" in node.roles for node in nodes) and any("broker" in node.roles for node in nodes)


def describe_shrunk_plan(original: Plan, small: Plan) -> str:
    """What is left of the plan, as text."""
    lines = [
        f"shrunk: {len(original.nodes)} -> {len(small.nodes)} nodes, "
        f"{len(original.actions)} -> {len(small.actions)} actions, "
        f"{len(original.clients)} -> {len(small.clients)} clients, "
        f"{original.fault_ms} -> {small.fault_ms} ms",
        "",
        "nodes: " + ", ".join(f"{node.node_id} ({'+'.join(node.roles)})" for node in small.nodes),
    ]
    for topic in small.topics:
        settings = ", ".join(f"{name}={value}" for name, value in topic.configs)
        lines.append(f"topic {topic.name}: {topic.partitions} x {topic.replication_factor} replicas, {settings}")
    lines += [f"client {client.client_id}: {client.kind} acks={client.acks}" for client in small.clients]
    lines += ["", "actions:"]
    lines += [f"  {number}. {action}" for number, action in enumerate(small.actions, 1)] or ["  none"]
    lines.append("")
    return "\n".join(lines)
