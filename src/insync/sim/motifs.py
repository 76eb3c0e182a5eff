"""Small stories of trouble, from which the swarm makes runs.

Each motif is a function of a `Draw` and a start time, and gives its actions. Targets are resolved when they happen, so
"the leader, then the leader" is two different nodes. Here are those in which one thing breaks; `sequences` has those in
which one thing breaks after another, `operations` what operators do.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from insync.sim.plan import Action, Timing, TopicPlan, Value

UNCLEAN_STRATEGIES = ("manual", "balanced", "proactive")


@dataclass(slots=True)
class Draw:
    """What a motif may draw from."""

    rng: random.Random
    brokers: tuple[int, ...]
    voters: tuple[int, ...]
    topics: tuple[TopicPlan, ...]
    timing: Timing
    new_topics: int = 0

    def partition(self) -> str:
        topic = self.rng.choice(self.topics)
        return f"{topic.name}-{self.rng.randrange(topic.partitions)}"

    def broker(self) -> str:
        return str(self.rng.choice(self.brokers))

    def anyone(self) -> str:
        """A node with a part to play: most often the leader of some partition."""
        pick = self.rng.random()
        if pick < 0.4:
            return f"leader:{self.partition()}"
        if pick < 0.65:
            return f"follower:{self.partition()}:{self.rng.randrange(2)}"
        if pick < 0.8:
            return "active-controller"
        return str(self.rng.choice(self.brokers + self.voters))

    def short(self) -> int:
        return self.rng.randint(20, 200)

    def medium(self) -> int:
        """Around the timeouts: sometimes noticed, sometimes not."""
        return self.rng.randint(self.timing.lag_ms // 2, self.timing.session_ms * 2)

    def replicas(self, size: int) -> tuple[Value, ...]:
        return tuple(self.rng.sample(self.brokers, min(size, len(self.brokers))))


Motif = Callable[[Draw, int], list[Action]]


def act(at_ms: int, kind: str, target: str = "", duration_ms: int = 0, *value: Value) -> Action:
    return Action(at_ms=at_ms, kind=kind, target=target, duration_ms=duration_ms, value=value)


# --- one thing breaks ------------------------------------------------------------------------------------------------


def crash(d: Draw, at: int) -> list[Action]:
    return [act(at, "crash", d.anyone(), d.medium())]


def lossy_crash(d: Draw, at: int) -> list[Action]:
    return [act(at, d.rng.choice(("lossy_crash", "lossy_crash", "corrupt_crash")), d.anyone(), d.medium())]


def quick_lossy_restart(d: Draw, at: int) -> list[Action]:
    """Back before the session times out: nobody may notice but by the broker epoch."""
    return [act(at, d.rng.choice(("crash", "lossy_crash")), d.anyone(), d.short())]


def clean_restart(d: Draw, at: int) -> list[Action]:
    return [act(at, "restart", d.anyone(), d.short())]


def pause(d: Draw, at: int) -> list[Action]:
    return [act(at, "pause", d.anyone(), d.medium())]


def isolate(d: Draw, at: int) -> list[Action]:
    return [act(at, "isolate", d.anyone(), d.medium(), d.rng.choice(("both", "both", "in", "out")))]


def isolate_from_controllers(d: Draw, at: int) -> list[Action]:
    direction = d.rng.choice(("both", "both", "in", "out"))
    return [act(at, "isolate_from_controllers", d.anyone(), d.medium(), direction)]


def cut(d: Draw, at: int) -> list[Action]:
    return [act(at, "cut", d.anyone(), d.medium(), d.anyone(), d.rng.choice(("both", "in", "out")))]


def split(d: Draw, at: int) -> list[Action]:
    everyone = tuple(dict.fromkeys(d.brokers + d.voters))
    side = tuple(sorted(d.rng.sample(everyone, max(1, len(everyone) // 2))))
    return [act(at, "split", "", d.medium(), *side)]


def slow_links(d: Draw, at: int) -> list[Action]:
    return [act(at, "slow_links", d.anyone(), d.medium(), d.rng.choice((20, 80, d.timing.lag_ms)))]


def resets(d: Draw, at: int) -> list[Action]:
    return [act(at + i * d.short(), "reset", d.anyone()) for i in range(d.rng.randint(1, 5))]


def slow_disk(d: Draw, at: int) -> list[Action]:
    return [act(at, "slow_disk", d.anyone(), d.medium(), d.rng.choice((20, 100, d.timing.lag_ms)))]


def full_disk(d: Draw, at: int) -> list[Action]:
    return [act(at, "full_disk", d.broker(), d.medium())]


def failing_disk(d: Draw, at: int) -> list[Action]:
    return [act(at, "failing_disk", d.anyone(), d.medium())]


def clocks(d: Draw, at: int) -> list[Action]:
    if d.rng.random() < 0.5:
        return [act(at, "clock_jump", d.anyone(), 0, d.medium())]
    return [act(at, "clock_drift", d.anyone(), d.medium(), d.rng.choice((-200_000, 50_000, 300_000)))]


def controller_failover(d: Draw, at: int) -> list[Action]:
    kind = d.rng.choice(("crash", "lossy_crash", "pause", "isolate", "restart"))
    value = ("both",) if kind == "isolate" else ()
    return [act(at, kind, "active-controller", d.medium(), *value)]


def quorum_loss(d: Draw, at: int) -> list[Action]:
    kind = d.rng.choice(("crash", "lossy_crash", "pause"))
    majority = d.rng.sample(d.voters, len(d.voters) // 2 + 1)
    return [act(at + i, kind, str(voter), d.medium()) for i, voter in enumerate(majority)]


def power_loss(d: Draw, at: int) -> list[Action]:
    return [act(at, "power_loss", "", d.medium(), d.rng.choice((0, 50, 400)))]
