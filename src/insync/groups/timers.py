"""Timers that are postponed far more often than they fire: every heartbeat postpones one.

Postponing a timer does not touch the heap. Its entry stays, and when that is due the timer is entered again for its
current time. Entries of timers that were cancelled or replaced are swept out now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

MIN_SWEEP_SIZE = 100


class Timer:
    __slots__ = ("_entered", "action", "at", "timers")

    def __init__(self, timers: Timers, action: Callable[[int], None]) -> None:
        self.timers = timers
        self.action = action
        self.at: int | None = None
        self._entered: int | None = None

    def set(self, at: int) -> None:
        self.at = at
        if self._entered is None or at < self._entered:
            self._entered = at
            self.timers.enter(at, self)

    def cancel(self) -> None:
        self.at = None

    def is_entry_current(self, entry: int) -> bool:
        """Whether the entry for `entry` is worth keeping; if not, it counts as removed."""
        if self._entered == entry and self.at is None:
            self._entered = None
        return self._entered == entry

    def on_entry_due(self, entry: int, now: int) -> None:
        """The entry for `entry` is due: fire, wait longer, or do nothing if the entry was replaced or cancelled."""
        if self._entered != entry:
            return
        self._entered = None
        if self.at is None:
            return
        if self.at > now:
            self.set(self.at)
            return
        self.at = None
        self.action(now)


class Timers:
    __slots__ = ("_heap", "_sequence", "_sweep_at")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._sequence = 0
        self._sweep_at = MIN_SWEEP_SIZE

    def __len__(self) -> int:
        return len(self._heap)

    def create(self, action: Callable[[int], None]) -> Timer:
        return Timer(self, action)

    def enter(self, at: int, timer: Timer) -> None:
        self._sequence += 1
        heappush(self._heap, (at, self._sequence, timer))
        if len(self._heap) > self._sweep_at:
            self._heap = [entry for entry in self._heap if entry[2].is_entry_current(entry[0])]
            heapify(self._heap)
            self._sweep_at = 2 * len(self._heap) + MIN_SWEEP_SIZE

    def run(self, now: int) -> None:
        """Fire all that are due. A timer that is set to `now` meanwhile fires in the next run."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heappop(self._heap))
        for at, _, timer in due:
            timer.on_entry_due(at, now)

    def next_deadline(self) -> int | None:
        """Never later than the first timer; sometimes earlier, for one that was postponed."""
        while self._heap and self._heap[0][2].at is None:
            at, _, timer = heappop(self._heap)
            timer.on_entry_due(at, at)
        return self._heap[0][0] if self._heap else None
