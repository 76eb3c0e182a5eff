"""Small stories of trouble, from which the swarm makes runs.

Each motif is a function of a `Draw` and a start time, and gives its actions. Targets are resolved when they happen, so
"the leader, then the leader" is two different nodes. Here are those in which one thing breaks; `sequences` has those in
which one thing breaks after another, `operations` what operators do.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from insync.sim.plans.plan import Action, Timing, TopicPlan, Value

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


FaultPattern = Callable[[Draw, int], list[Action]]


def act(at_ms: int, kind: str, target: str = "", duration_ms: int = 0, *value: Value) -> Action:
    return Action(at_ms=at_ms, kind=kind, target=target, duration_ms=duration_ms, value=value)
