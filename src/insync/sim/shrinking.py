"""Making a failing run small enough to read: leave things out as long as the same property still fails.

Actions go first, in halves and then one by one (most of a swarm has nothing to do with what broke), then clients,
nodes, topics and time. Every attempt is a whole run; the plan is data, so leaving something out is all there is to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from insync.sim.plans.plan import Plan
from insync.sim.run import run_plan

TOO_LATE_MS = 200
"""The fault phase may end this long after the violation."""


class Shrinker:
    """`clock` says when it is `deadline`: the simulator reads no clock of its own."""

    def __init__(self, property_id: str, deadline: float, clock: Callable[[], float]) -> None:
        self._property = property_id
        self._deadline = deadline
        self._clock = clock
        self.attempts = 0

    def shrink(self, plan: Plan) -> Plan:
        """Round after round, until a whole round finds nothing more to leave out or the time is up."""
        plan = self._end_early(plan)
        while True:
            before = plan
            for simpler in (self._fewer_actions, self._fewer_clients, self._fewer_nodes, self._fewer_topics):
                plan = simpler(plan)
            plan = self._end_early(plan)
            if plan == before or self._late():
                return plan

    def _late(self) -> bool:
        return self._clock() >= self._deadline

    def _fails(self, plan: Plan) -> bool:
        self.attempts += 1
        violation = run_plan(plan).violation
        return violation is not None and violation.property == self._property

    def _fewer_actions(self, plan: Plan) -> Plan:
        return self._fewer(plan, "actions")

    def _fewer_clients(self, plan: Plan) -> Plan:
        return self._fewer(plan, "clients")

    def _fewer_topics(self, plan: Plan) -> Plan:
        return self._fewer(plan, "topics")

    def _fewer_nodes(self, plan: Plan) -> Plan:
        return self._fewer(plan, "nodes")

    def _fewer(self, plan: Plan, what: str) -> Plan:
        """Delta debugging: drop ever smaller pieces of one tuple of the plan."""
        size = len(getattr(plan, what))
        while size >= 1 and not self._late():
            for smaller in _without_pieces(plan, what, size):
                if self._late():
                    break
                if self._fails(smaller):
                    plan = smaller
                    break
            else:
                size //= 2
            size = min(size, len(getattr(plan, what)))
        return plan

    def _end_early(self, plan: Plan) -> Plan:
        """Nothing after the violation matters; a liveness failure needs its whole time."""
        violation = run_plan(plan).violation
        if violation is None or violation.property.startswith("L"):
            return plan
        cut = max(100, violation.time - plan.setup_ms + TOO_LATE_MS)
        shorter = dataclasses.replace(
            plan, fault_ms=min(plan.fault_ms, cut), actions=tuple(a for a in plan.actions if a.at_ms <= cut)
        )
        return shorter if shorter != plan and self._fails(shorter) else plan


def _without_pieces(plan: Plan, what: str, size: int) -> Iterator[Plan]:
    items: tuple[Any, ...] = getattr(plan, what)
    for start in range(0, len(items), size):
        kept = items[:start] + items[start + size :]
        if what == "nodes" and not _can_run(kept):
            continue
        changes: dict[str, Any] = {what: kept}
        yield dataclasses.replace(plan, **changes)


def _can_run(nodes: tuple[Any, ...]) -> bool:
    return any("controller" in node.roles for node in nodes) and any("broker" in node.roles for node in nodes)


def describe(original: Plan, small: Plan) -> str:
    """What is left, and how much that is less."""
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
    lines += ["", "what is done to it:"]
    lines += [f"  {number}. {action}" for number, action in enumerate(small.actions, 1)] or ["  nothing"]
    lines.append("")
    return "\n".join(lines)
