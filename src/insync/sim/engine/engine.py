"""Simulated time: a heap of scheduled calls, and the clocks by which nodes see the time.

The engine always takes the entry with the least (time, sequence), so that calls at equal times run in the order in
which they were scheduled and a run is one fixed list of steps. Time is whole microseconds, computed with integers: a
float that rounds differently on another machine would give another run.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

US_PER_MS = 1_000
PPM = 1_000_000


class Engine:
    """The simulated clock and its scheduled calls."""

    __slots__ = ("_calls", "_sequence", "events", "now", "stopped")

    def __init__(self) -> None:
        self.now = 0
        self.events = 0
        self.stopped = False
        self._calls: list[tuple[int, int, Callable[..., None], tuple[Any, ...]]] = []
        self._sequence = 0

    def call_at(self, time_us: int, action: Callable[..., None], *args: Any) -> None:
        """Schedule `action(*args)` for that time, or for now if that time has passed."""
        self._sequence += 1
        heappush(self._calls, (time_us if time_us > self.now else self.now, self._sequence, action, args))

    def call_later(self, delay_us: int, action: Callable[..., None], *args: Any) -> None:
        self._sequence += 1
        heappush(self._calls, (self.now + delay_us, self._sequence, action, args))

    def run_until(self, time_us: int) -> None:
        """Run every call that is due up to that time; the clock then shows that time, unless `stop` was called."""
        calls = self._calls
        while calls and calls[0][0] <= time_us and not self.stopped:
            self.now, _, action, args = heappop(calls)
            self.events += 1
            action(*args)
        if not self.stopped and self.now < time_us:
            self.now = time_us

    def stop(self) -> None:
        self.stopped = True

    @property
    def pending(self) -> int:
        return len(self._calls)


class NodeClock:
    """A node's monotonic clock: it has its own zero, runs a little fast or slow, and may jump forward, never back.

    Drift is in parts per million.
    """

    __slots__ = ("_base_sim_us", "_base_us", "_rate")

    def __init__(self, skew_ms: int = 0, drift_ppm: int = 0) -> None:
        self._base_sim_us = 0
        self._base_us = skew_ms * US_PER_MS
        self._rate = PPM + drift_ppm

    def now_us(self, sim_us: int) -> int:
        return self._base_us + (sim_us - self._base_sim_us) * self._rate // PPM

    def now_ms(self, sim_us: int) -> int:
        return (self._base_us + (sim_us - self._base_sim_us) * self._rate // PPM) // US_PER_MS

    def sim_time_of(self, deadline_ms: int) -> int:
        """The first simulated microsecond at which this clock shows `deadline_ms` or more."""
        missing = deadline_ms * US_PER_MS - self._base_us
        return self._base_sim_us - (-missing * PPM // self._rate)

    def set_drift(self, sim_us: int, drift_ppm: int) -> None:
        self._base_us = self.now_us(sim_us)
        self._base_sim_us = sim_us
        self._rate = PPM + drift_ppm

    def jump(self, by_ms: int) -> None:
        """The machine was suspended: its clock is ahead at once."""
        self._base_us += by_ms * US_PER_MS
