"""Alarms that are put off far more often than they ring: every heartbeat moves one.

Moving an alarm to a later time touches no heap. Its entry stays where it is, and when that time comes the alarm is
entered again for the time it has by then. Entries of alarms that were cancelled or replaced are swept out now and then.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

FEW = 100


class Alarm:
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

    def stands(self, entry: int) -> bool:
        """Whether the entry for `entry` is worth keeping; if not, it counts as gone."""
        if self._entered == entry and self.at is None:
            self._entered = None
        return self._entered == entry

    def came(self, entry: int, now: int) -> None:
        """Its entry for `entry` has come up: ring, wait on, or nothing, if a later call replaced or cancelled it."""
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
        self._heap: list[tuple[int, int, Alarm]] = []
        self._sequence = 0
        self._sweep_at = FEW

    def __len__(self) -> int:
        return len(self._heap)

    def alarm(self, action: Callable[[int], None]) -> Alarm:
        return Alarm(self, action)

    def enter(self, at: int, alarm: Alarm) -> None:
        self._sequence += 1
        heappush(self._heap, (at, self._sequence, alarm))
        if len(self._heap) > self._sweep_at:
            self._heap = [entry for entry in self._heap if entry[2].stands(entry[0])]
            heapify(self._heap)
            self._sweep_at = 2 * len(self._heap) + FEW

    def run(self, now: int) -> None:
        """Ring all that is due. What an alarm sets for `now` itself rings in the next run."""
        due = []
        while self._heap and self._heap[0][0] <= now:
            due.append(heappop(self._heap))
        for at, _, alarm in due:
            alarm.came(at, now)

    def next_deadline(self) -> int | None:
        """Never later than the first alarm; now and then earlier, for one that was put off."""
        while self._heap and self._heap[0][2].at is None:
            at, _, alarm = heappop(self._heap)
            alarm.came(at, at)
        return self._heap[0][0] if self._heap else None
