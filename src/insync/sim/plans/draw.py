"""What fault patterns, operations and races draw their actions from: the plan so far and a random source."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from insync.sim.plans.plan import Action, Timing, TopicPlan, Value

UNCLEAN_STRATEGIES = ("manual", "balanced", "proactive")


@dataclass(slots=True)
class Draw:
    """The cluster of the plan that is being drawn, and its random source."""

    rng: random.Random
    brokers: tuple[int, ...]
    voters: tuple[int, ...]
    topics: tuple[TopicPlan, ...]
    timing: Timing
    new_topics: int = 0

    def pick_partition(self) -> str:
        topic = self.rng.choice(self.topics)
        return f"{topic.name}-{self.rng.randrange(topic.partitions)}"

    def pick_broker(self) -> str:
        return str(self.rng.choice(self.brokers))

    def pick_node(self) -> str:
        """A node that matters: most often the leader of some partition."""
        pick = self.rng.random()
        if pick < 0.4:
            return f"leader:{self.pick_partition()}"
        if pick < 0.65:
            return f"follower:{self.pick_partition()}:{self.rng.randrange(2)}"
        if pick < 0.8:
            return "active-controller"
        return str(self.rng.choice(self.brokers + self.voters))

    def short_ms(self) -> int:
        return self.rng.randint(20, 200)

    def medium_ms(self) -> int:
        """Around the timeouts, so that the cluster sometimes notices and sometimes does not."""
        return self.rng.randint(self.timing.lag_ms // 2, self.timing.session_ms * 2)

    def pick_replicas(self, size: int) -> tuple[Value, ...]:
        return tuple(self.rng.sample(self.brokers, min(size, len(self.brokers))))


FaultPattern = Callable[[Draw, int], list[Action]]
"""The actions of one pattern that starts at the given time (ms of the fault phase)."""


def act(at_ms: int, kind: str, target: str = "", duration_ms: int = 0, *value: Value) -> Action:
    return Action(at_ms=at_ms, kind=kind, target=target, duration_ms=duration_ms, value=value)
