"""Fault patterns: short sequences of faults from which the swarm makes runs.

Targets are resolved when an action happens, so "the leader, then the leader" is two different nodes. A single random
fault seldom breaks a replicated log; the sequences in the second half, where each fault strikes before the cluster has
recovered from the one before, do.
"""

from __future__ import annotations

from insync.sim.plans.draw import Draw, FaultPattern, act
from insync.sim.plans.plan import Action

# --- a single fault --------------------------------------------------------------------------------------------------


def crash(d: Draw, at: int) -> list[Action]:
    return [act(at, "crash", d.pick_node(), d.medium_ms())]


def lossy_crash(d: Draw, at: int) -> list[Action]:
    return [act(at, d.rng.choice(("lossy_crash", "lossy_crash", "corrupt_crash")), d.pick_node(), d.medium_ms())]


def quick_lossy_restart(d: Draw, at: int) -> list[Action]:
    """Back before the session times out: only the broker epoch shows that it was away."""
    return [act(at, d.rng.choice(("crash", "lossy_crash")), d.pick_node(), d.short_ms())]


def clean_restart(d: Draw, at: int) -> list[Action]:
    return [act(at, "restart", d.pick_node(), d.short_ms())]


def pause(d: Draw, at: int) -> list[Action]:
    return [act(at, "pause", d.pick_node(), d.medium_ms())]


def isolate(d: Draw, at: int) -> list[Action]:
    return [act(at, "isolate", d.pick_node(), d.medium_ms(), d.rng.choice(("both", "both", "in", "out")))]


def isolate_from_controllers(d: Draw, at: int) -> list[Action]:
    direction = d.rng.choice(("both", "both", "in", "out"))
    return [act(at, "isolate_from_controllers", d.pick_node(), d.medium_ms(), direction)]


def cut(d: Draw, at: int) -> list[Action]:
    return [act(at, "cut", d.pick_node(), d.medium_ms(), d.pick_node(), d.rng.choice(("both", "in", "out")))]


def split(d: Draw, at: int) -> list[Action]:
    nodes = tuple(dict.fromkeys(d.brokers + d.voters))
    side = tuple(sorted(d.rng.sample(nodes, max(1, len(nodes) // 2))))
    return [act(at, "split", "", d.medium_ms(), *side)]


def slow_links(d: Draw, at: int) -> list[Action]:
    return [act(at, "slow_links", d.pick_node(), d.medium_ms(), d.rng.choice((20, 80, d.timing.lag_ms)))]


def resets(d: Draw, at: int) -> list[Action]:
    return [act(at + i * d.short_ms(), "reset", d.pick_node()) for i in range(d.rng.randint(1, 5))]


def slow_disk(d: Draw, at: int) -> list[Action]:
    return [act(at, "slow_disk", d.pick_node(), d.medium_ms(), d.rng.choice((20, 100, d.timing.lag_ms)))]


def full_disk(d: Draw, at: int) -> list[Action]:
    return [act(at, "full_disk", d.pick_broker(), d.medium_ms())]


def failing_disk(d: Draw, at: int) -> list[Action]:
    return [act(at, "failing_disk", d.pick_node(), d.medium_ms())]


def clocks(d: Draw, at: int) -> list[Action]:
    if d.rng.random() < 0.5:
        return [act(at, "clock_jump", d.pick_node(), 0, d.medium_ms())]
    return [act(at, "clock_drift", d.pick_node(), d.medium_ms(), d.rng.choice((-200_000, 50_000, 300_000)))]


def controller_failover(d: Draw, at: int) -> list[Action]:
    kind = d.rng.choice(("crash", "lossy_crash", "pause", "isolate", "restart"))
    value = ("both",) if kind == "isolate" else ()
    return [act(at, kind, "active-controller", d.medium_ms(), *value)]


def quorum_loss(d: Draw, at: int) -> list[Action]:
    kind = d.rng.choice(("crash", "lossy_crash", "pause"))
    majority = d.rng.sample(d.voters, len(d.voters) // 2 + 1)
    return [act(at + i, kind, str(voter), d.medium_ms()) for i, voter in enumerate(majority)]


def power_loss(d: Draw, at: int) -> list[Action]:
    return [act(at, "power_loss", "", d.medium_ms(), d.rng.choice((0, 50, 400)))]


# --- one fault after another -----------------------------------------------------------------------------------------


def lag_then_lose_leader(d: Draw, at: int) -> list[Action]:
    """A follower leaves the ISR, or nearly; the leader fails while the follower rejoins."""
    p = d.pick_partition()
    away = d.medium_ms()
    follower = f"follower:{p}:{d.rng.randrange(2)}"
    lag = d.rng.choice(
        (
            act(at, "cut", follower, away, f"leader:{p}", "both"),
            act(at, "pause", follower, away),
            act(at, "isolate", follower, away, "both"),
        )
    )
    return [lag, _lose(d, at + max(0, away + d.rng.randint(-100, 300)), f"leader:{p}")]


def _lose(d: Draw, at: int, target: str) -> Action:
    kind = d.rng.choice(("crash", "lossy_crash", "pause", "isolate_from_controllers", "isolate"))
    return act(at, kind, target, d.medium_ms(), *(("both",) if kind.startswith("isolate") else ()))


def zombie_leader(d: Draw, at: int) -> list[Action]:
    """The leader is paused or cut off for longer than its session, the others go on, and it comes back."""
    p = d.pick_partition()
    away = d.timing.session_ms + d.rng.randint(0, 800)
    kind = d.rng.choice(("pause", "isolate_from_controllers", "isolate"))
    value = ("both",) if kind != "pause" else ()
    return [act(at, kind, f"leader:{p}", away, *value)]


def leader_after_leader(d: Draw, at: int) -> list[Action]:
    """One leader of a partition after the other fails, until only the ELR is left, or no replica."""
    p = d.pick_partition()
    step = d.timing.session_ms + d.rng.randint(-200, 500)
    kinds = d.rng.choice((("crash",), ("lossy_crash",), ("crash", "lossy_crash", "restart")))
    count = d.rng.randint(2, 4)
    away = step * count + d.medium_ms()
    return [
        act(at + i * step, d.rng.choice(kinds), f"leader:{p}", max(100, away - i * d.rng.choice((0, step))))
        for i in range(count)
    ]


def all_replicas(d: Draw, at: int) -> list[Action]:
    """Every replica of a partition fails at about the same time; they come back in any order."""
    p = d.pick_partition()
    kind = d.rng.choice(("lossy_crash", "corrupt_crash", "crash"))
    names = [f"leader:{p}", *(f"follower:{p}:{i}" for i in range(2))]
    d.rng.shuffle(names)
    return [act(at + i * d.rng.choice((0, 1, 30)), kind, name, d.medium_ms()) for i, name in enumerate(names)]


def failover_and_back(d: Draw, at: int) -> list[Action]:
    """Two leader changes in quick succession: logs fork at more than one epoch."""
    p = d.pick_partition()
    away = d.timing.session_ms + d.rng.randint(0, 300)
    kind = d.rng.choice(("isolate", "isolate_from_controllers", "pause", "crash"))
    value = ("both",) if kind.startswith("isolate") else ()
    second = away + d.rng.randint(-200, 200)
    return [
        act(at, kind, f"leader:{p}", away, *value),
        act(at + second, d.rng.choice((kind, "crash")), f"leader:{p}", d.medium_ms(), *value),
        act(at + second + d.short_ms(), "elect_preferred", p),
    ]


def fork_without_fetching(d: Draw, at: int) -> list[Action]:
    """No replica can fetch while leadership moves: each short term leaves records that only its leader has."""
    p = d.pick_partition()
    for_ms = d.timing.lag_ms * d.rng.randint(5, 14) // 10
    actions = [act(at, "no_fetching", "", for_ms)]
    moment = at + d.rng.randint(5, 40)
    for _ in range(d.rng.randint(1, 3)):
        kind = d.rng.choice(("restart", "restart", "elect_preferred", "crash"))
        actions.append(act(moment, kind, p if kind == "elect_preferred" else f"leader:{p}", d.short_ms()))
        moment += d.rng.randint(50, 250)
    return actions


def late_requests(d: Draw, at: int) -> list[Action]:
    """A process dies with requests in flight, and is back before the last of them arrives."""
    target = d.pick_node()
    slow = d.rng.choice((80, 200))
    kind = d.rng.choice(("crash", "crash", "lossy_crash", "restart"))
    return [
        act(at, "slow_links", target, d.medium_ms(), slow),
        act(at + d.short_ms(), kind, target, d.rng.choice((5, 50, d.timing.session_ms))),
    ]


def late_isr_change(d: Draw, at: int) -> list[Action]:
    """A leader's AlterPartition is delayed, and arrives in the next incarnation of its process."""
    p = d.pick_partition()
    lag = d.timing.lag_ms
    away = d.timing.session_ms + d.rng.randint(100, 400)
    return [
        act(at, "cut", f"follower:{p}:{d.rng.randrange(2)}", lag * 3, f"leader:{p}", "both"),
        act(at + lag * 8 // 10, "isolate_from_controllers", f"leader:{p}", away, "both"),
        act(at + lag * 8 // 10 + d.rng.randint(100, 400), "crash", f"leader:{p}", 5),
    ]


def late_fetch(d: Draw, at: int) -> list[Action]:
    """A follower's fetch is delayed, and arrives after the first fetches of its next incarnation (F4)."""
    p = d.pick_partition()
    follower = f"follower:{p}:{d.rng.randrange(2)}"
    return [
        act(at, "cut", follower, d.timing.session_ms + 400, f"leader:{p}", "out"),
        act(at + 2 * d.timing.fetch_wait_ms, "crash", follower, 5),
    ]


def ineligible_joiner(d: Draw, at: int) -> list[Action]:
    """A follower is fenced; its leader does not know yet, and proposes to add it to the ISR (I4)."""
    p = d.pick_partition()
    follower, session = f"follower:{p}:{d.rng.randrange(2)}", d.timing.session_ms
    return [
        act(at, "cut", follower, session + 150, f"leader:{p}", "both"),
        act(at, "isolate_from_controllers", follower, session * 2, "both"),
        act(at + session - 250, "stale_metadata", f"leader:{p}", 700),
    ]


def isr_change_without_controller(d: Draw, at: int) -> list[Action]:
    """The controller fails while a leader's AlterPartition is in flight."""
    p = d.pick_partition()
    away = d.timing.lag_ms + d.rng.randint(0, 200)
    return [
        act(at, "cut", f"follower:{p}:{d.rng.randrange(2)}", away, f"leader:{p}", "both"),
        *controller_failover(d, at + away + d.rng.randint(-100, 100)),
    ]


def rolling_restart(d: Draw, at: int) -> list[Action]:
    gap = d.rng.randint(200, 1_200)
    return [act(at + i * gap, "restart", str(b), d.short_ms()) for i, b in enumerate(d.brokers)]


def flapping_follower(d: Draw, at: int) -> list[Action]:
    p = d.pick_partition()
    kind = d.rng.choice(("crash", "lossy_crash", "restart", "pause"))
    gap = d.rng.randint(150, 700)
    return [act(at + i * gap, kind, f"follower:{p}:0", d.short_ms()) for i in range(d.rng.randint(2, 4))]


FAULT_PATTERNS: dict[str, tuple[FaultPattern, int]] = {
    "crash": (crash, 6),
    "lossy_crash": (lossy_crash, 6),
    "quick_lossy_restart": (quick_lossy_restart, 4),
    "clean_restart": (clean_restart, 4),
    "pause": (pause, 4),
    "isolate": (isolate, 4),
    "isolate_from_controllers": (isolate_from_controllers, 4),
    "cut": (cut, 4),
    "split": (split, 2),
    "slow_links": (slow_links, 3),
    "resets": (resets, 4),
    "slow_disk": (slow_disk, 2),
    "full_disk": (full_disk, 1),
    "failing_disk": (failing_disk, 1),
    "clocks": (clocks, 2),
    "controller_failover": (controller_failover, 3),
    "quorum_loss": (quorum_loss, 2),
    "power_loss": (power_loss, 2),
    "lag_then_lose_leader": (lag_then_lose_leader, 8),
    "zombie_leader": (zombie_leader, 6),
    "leader_after_leader": (leader_after_leader, 6),
    "all_replicas": (all_replicas, 3),
    "failover_and_back": (failover_and_back, 6),
    "fork_without_fetching": (fork_without_fetching, 6),
    "late_requests": (late_requests, 4),
    "late_isr_change": (late_isr_change, 3),
    "late_fetch": (late_fetch, 3),
    "ineligible_joiner": (ineligible_joiner, 3),
    "isr_change_without_controller": (isr_change_without_controller, 4),
    "rolling_restart": (rolling_restart, 2),
    "flapping_follower": (flapping_follower, 4),
}
"""Name -> (pattern, weight)."""
