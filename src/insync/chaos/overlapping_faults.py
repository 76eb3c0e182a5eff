"""Faults that overlap: nodes are killed, paused, cut off and lose unflushed writes at the same time.

Clients need not make progress meanwhile: there may be no majority, or fewer than MinISR replicas. But whatever they are
answered has to stay true. At most one node loses unflushed data until all replicas are in sync again; beyond that
nothing is promised (S9).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

from insync.cluster.cluster import Cluster

MAX_PAUSE_S = 0.8
"""The longest pause between two actions."""


class OverlappingFaults:
    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._paused: dict[int, None] = {}
        self._power_was_cut = False
        self._actions: dict[str, Callable[[], None]] = {
            "kill": lambda: self._cluster.kill(self._rng.choice(self._running())),
            "power cut": self._cut_power,
            "start": lambda: self._cluster.start(self._rng.choice(self._down()), wait=False),
            "pause": self._pause,
            "resume": self._resume,
            "cut": self._cut,
            "heal": self._cluster.heal,
        }

    def run(self, seconds: float) -> str:
        """Leaves the cluster mended; returns what was done to it."""
        counts: Counter[str] = Counter()
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            name = self._rng.choice(self._possible_actions())
            self._actions[name]()
            counts[name] += 1
            time.sleep(self._rng.uniform(0.0, MAX_PAUSE_S))
        self._cluster.mend()
        return ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))

    def _possible_actions(self) -> list[str]:
        """Repeated names are more likely: the more faults are active, the likelier is an action that ends one."""
        names = ["heal"]
        if self._running():
            names += ["kill", "pause", "cut", "cut"] + ([] if self._power_was_cut else ["power cut"])
        return names + 2 * ["start"] * len(self._down()) + 2 * ["resume"] * len(self._paused)

    def _cut_power(self) -> None:
        self._cluster.lose_unflushed(self._rng.choice(self._running()))
        self._power_was_cut = True

    def _pause(self) -> None:
        node = self._rng.choice(self._running())
        self._cluster.pause(node)
        self._paused[node] = None

    def _resume(self) -> None:
        node = self._rng.choice(list(self._paused))
        self._cluster.resume(node)
        del self._paused[node]

    def _cut(self) -> None:
        nodes = list(self._cluster.nodes)
        self._rng.shuffle(nodes)
        at = self._rng.randint(1, len(nodes) - 1)
        self._cluster.partition(nodes[:at], nodes[at:], one_way=self._rng.random() < 0.4)

    def _running(self) -> list[int]:
        return [node.id for node in self._cluster.nodes.values() if node.is_running and node.id not in self._paused]

    def _down(self) -> list[int]:
        return [node.id for node in self._cluster.nodes.values() if not node.is_running]
