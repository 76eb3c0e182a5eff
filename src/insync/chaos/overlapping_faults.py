"""Faults that do not wait for each other: nodes die, sleep, are cut off and lose their unflushed writes all at once.

Clients need not get on meanwhile: there may be no majority, or fewer than MinISR replicas. But what they are told has
to stay true. One node may lose unflushed data, and no second one before all replicas are back in sync, else nothing
is promised (S9).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from insync.cluster.cluster import Cluster

CALM_S = 0.8
"""The longest pause between two strokes."""

Stroke = Callable[[], None]


class Storm:
    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._asleep: dict[int, None] = {}
        self._power_cut = False
        self._done: Counter[str] = Counter()

    def rage(self, seconds: float) -> str:
        """Leaves the cluster mended, and returns what was done to it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            name = self._rng.choice(self._possible())
            self._strokes[name]()
            self._done[name] += 1
            time.sleep(self._rng.uniform(0.0, CALM_S))
        self._cluster.mend()
        return ", ".join(f"{count} x {name}" for name, count in sorted(self._done.items()))

    @property
    def _strokes(self) -> dict[str, Stroke]:
        return {
            "kill": lambda: self._cluster.kill(self._rng.choice(self._awake())),
            "power cut": self._cut_power,
            "start": lambda: self._cluster.start(self._rng.choice(self._down()), wait=False),
            "pause": self._pause,
            "resume": self._resume,
            "cut": self._cut,
            "heal": self._cluster.heal,
        }

    def _possible(self) -> list[str]:
        """What ends a fault is the likelier, the more there is to end."""
        names = ["heal"]
        if self._awake():
            names += ["kill", "pause", "cut", "cut"] + ([] if self._power_cut else ["power cut"])
        return names + 2 * ["start"] * len(self._down()) + 2 * ["resume"] * len(self._asleep)

    def _cut_power(self) -> None:
        self._cluster.lose_unflushed(self._rng.choice(self._awake()))
        self._power_cut = True

    def _pause(self) -> None:
        node = self._rng.choice(self._awake())
        self._cluster.pause(node)
        self._asleep[node] = None

    def _resume(self) -> None:
        node = self._rng.choice(list(self._asleep))
        self._cluster.resume(node)
        del self._asleep[node]

    def _cut(self) -> None:
        nodes = list(self._cluster.nodes)
        self._rng.shuffle(nodes)
        at = self._rng.randint(1, len(nodes) - 1)
        self._cluster.partition(nodes[:at], nodes[at:], one_way=self._rng.random() < 0.4)

    def _awake(self) -> list[int]:
        return [node.id for node in self._cluster.nodes.values() if node.running and node.id not in self._asleep]

    def _down(self) -> list[int]:
        return [node.id for node in self._cluster.nodes.values() if not node.running]
