"""Plans for traces: those of the simulator, without what the specification does not have."""

from __future__ import annotations

import dataclasses

from insync.sim.plans.plan import Action, Plan, TopicPlan
from insync.sim.plans.swarm import draw_plan

LEFT_OUT = frozenset({"damage", "damage_metadata", "rot", "elect_unclean", "set_config", "delete_topic"})
"""Damaged files, unclean elections, changes of MinISR, deletion."""
BROKERS = range(3, 6)


def draw_trace_plan(seed: int) -> Plan | None:
    """The plan of that seed, reduced; None if its cluster is too small or too large."""
    plan = draw_plan(seed)
    if len(plan.brokers) not in BROKERS:
        return None
    topics = tuple(_plain_topic(topic) for topic in plan.topics)
    min_isr = max(int(dict(topic.configs)["min.insync.replicas"]) for topic in topics)
    actions = tuple(action for action in plan.actions if _is_modelled(action, min_isr))
    return dataclasses.replace(plan, topics=topics, actions=actions)


def _is_modelled(action: Action, min_isr: int) -> bool:
    """A target with fewer replicas than MinISR lowers the effective MinISR (H1), a constant in the specification."""
    if action.kind == "reassign":
        return len(set(action.value)) >= min_isr
    return action.kind not in LEFT_OUT


def _plain_topic(topic: TopicPlan) -> TopicPlan:
    """Nothing is deleted by retention, and no election is unclean."""
    configs = {
        name: value
        for name, value in topic.configs
        if name not in ("retention.bytes", "retention.ms", "unclean.leader.election.enable", "cleanup.policy")
    }
    configs["unclean.recovery.strategy"] = "manual"
    return dataclasses.replace(topic, configs=tuple(configs.items()))
