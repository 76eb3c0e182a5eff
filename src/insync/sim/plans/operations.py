"""Operator actions as patterns of the swarm: topics, reassignments, elections, configs."""

from __future__ import annotations

from insync.sim.plans.draw import UNCLEAN_STRATEGIES, Draw, FaultPattern, act
from insync.sim.plans.fault_patterns import all_replicas, controller_failover, crash, isolate, lossy_crash
from insync.sim.plans.plan import Action


def create_and_delete_topic(d: Draw, at: int) -> list[Action]:
    d.new_topics += 1
    name = f"n{d.new_topics}"
    actions = [act(at, "create_topic", name, 0, d.rng.randint(1, 2), min(len(d.brokers), d.rng.randint(1, 3)))]
    if d.rng.random() < 0.7:
        actions.append(act(at + d.rng.randint(50, 2_000), "delete_topic", name))
    if d.rng.random() < 0.3:
        actions.append(act(at + d.rng.randint(2_000, 2_500), "create_topic", name, 0, 1, min(len(d.brokers), 2)))
    return actions


def grow_topic(d: Draw, at: int) -> list[Action]:
    topic = d.rng.choice(d.topics)
    return [act(at, "grow_topic", topic.name, 0, topic.partitions + 1)]


def reassign(d: Draw, at: int) -> list[Action]:
    """Grow, shrink or replace the replicas; sometimes a new target or a cancel follows before it completes."""
    p = d.pick_partition()
    actions = [act(at, "reassign", p, 0, *d.pick_replicas(d.rng.randint(1, 4)))]
    follow = d.rng.random()
    if follow < 0.3:
        actions.append(act(at + d.short_ms(), "cancel_reassign", p))
    elif follow < 0.6:
        actions.append(act(at + d.short_ms(), "reassign", p, 0, *d.pick_replicas(d.rng.randint(1, 4))))
    return actions


def remove_and_readd(d: Draw, at: int) -> list[Action]:
    """A replica is removed and added again so soon that some broker sees both changes as one (Q7, T7)."""
    p = d.pick_partition()
    full = d.pick_replicas(3)
    gap = d.rng.randint(1, 60)
    actions = [
        act(at, "reassign", p, 0, *full),
        act(at + 400, "reassign", p, 0, *full[:-1]),
        act(at + 400 + gap, "reassign", p, 0, *full),
    ]
    if d.rng.random() < 0.7:
        actions.insert(1, act(at + 200, "isolate_from_controllers", str(full[-1]), 290, "both"))
    return actions


def add_cancel_add(d: Draw, at: int) -> list[Action]:
    """A new replica is dropped half-way and added again, empty, in the same leader epoch: a response to one of its
    earlier fetches may still be in flight (F6)."""
    p = d.pick_partition()
    few = d.pick_replicas(max(1, min(3, len(d.brokers)) - 1))
    added = d.rng.choice([broker for broker in d.brokers if broker not in few] or d.brokers)
    target = (*few, added) if added not in few else few
    slow = d.rng.choice((40, 80, 120))
    again = at + 500 + slow * d.rng.randint(1, 5) + d.rng.randrange(slow)
    return [
        act(at, "reassign", p, 0, *few),
        act(at + 480, "slow_links", str(added), slow * 12, slow),
        act(at + 500, "reassign", p, 0, *target),
        act(again, "cancel_reassign", p),
        act(again + d.rng.randint(5, 40), "reassign", p, 0, *target),
    ]


def reassign_under_faults(d: Draw, at: int) -> list[Action]:
    target = d.rng.choice((crash, lossy_crash, isolate, controller_failover))
    return reassign(d, at) + target(d, at + d.short_ms())


def elections(d: Draw, at: int) -> list[Action]:
    return [act(at, "elect_preferred", d.pick_partition())]


def unclean_election(d: Draw, at: int) -> list[Action]:
    p = d.pick_partition()
    lost = all_replicas(d, at)
    return [*lost, act(at + d.medium_ms(), "elect_unclean", p)]


def change_min_isr(d: Draw, at: int) -> list[Action]:
    topic = d.rng.choice(d.topics)
    first = d.rng.randint(1, 3)
    actions = [act(at, "set_config", topic.name, 0, "min.insync.replicas", str(first))]
    if d.rng.random() < 0.5:
        later = d.rng.randint(100, 1_500)
        actions.append(act(at + later, "set_config", topic.name, 0, "min.insync.replicas", str(4 - first)))
    return actions


def raise_min_isr_with_elr(d: Draw, at: int) -> list[Action]:
    """Members move from the ISR to the ELR, then MinISR is raised (E8)."""
    topic = d.rng.choice(d.topics)
    p = f"{topic.name}-0"
    away = d.timing.session_ms * 3
    raised = d.rng.randint(2, 3)
    return [
        act(at, "set_config", topic.name, 0, "min.insync.replicas", str(raised - 1)),
        act(at + 50, d.rng.choice(("crash", "restart", "isolate")), f"follower:{p}:0", away, "both"),
        act(at + 60, d.rng.choice(("crash", "restart", "isolate")), f"follower:{p}:1", away, "both"),
        act(at + d.timing.session_ms + 200, d.rng.choice(("crash", "restart")), f"leader:{p}", away),
        act(at + d.timing.session_ms * 2 + 300, "set_config", topic.name, 0, "min.insync.replicas", str(raised)),
    ]


def cancel_below_min_isr(d: Draw, at: int) -> list[Action]:
    """No replica fetches, so the ISR shrinks to the leader, and the reassignment cannot be cancelled (R5)."""
    p = d.pick_partition()
    lag = d.timing.lag_ms
    return [
        act(at, "no_fetching", "", lag * 3),
        act(at + 20, "reassign", p, 0, *d.pick_replicas(3)),
        act(at + lag * 2 + d.rng.randint(0, 200), "cancel_reassign", p),
    ]


def change_strategy(d: Draw, at: int) -> list[Action]:
    topic = d.rng.choice(d.topics)
    strategy = d.rng.choice(UNCLEAN_STRATEGIES)
    return [act(at, "set_config", topic.name, 0, "unclean.recovery.strategy", strategy)]


OPERATION_PATTERNS: dict[str, tuple[FaultPattern, int]] = {
    "create_and_delete_topic": (create_and_delete_topic, 2),
    "grow_topic": (grow_topic, 1),
    "reassign": (reassign, 4),
    "remove_and_readd": (remove_and_readd, 2),
    "add_cancel_add": (add_cancel_add, 3),
    "reassign_under_faults": (reassign_under_faults, 4),
    "elections": (elections, 2),
    "unclean_election": (unclean_election, 2),
    "change_min_isr": (change_min_isr, 2),
    "raise_min_isr_with_elr": (raise_min_isr_with_elr, 2),
    "cancel_below_min_isr": (cancel_below_min_isr, 2),
    "change_strategy": (change_strategy, 1),
}
