"""A lower bound that rises over time, by leader epoch: a later response must not have a lower value.

Kafka's leaders hold no lease. A leader that was replaced and does not know it yet may return an old value, but only to
requests in its own epoch. Hence a response bounds later responses of the same and of higher epochs.
"""

from __future__ import annotations

from bisect import bisect_left

MAX_KEPT = 512


class Floor:
    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: dict[int, tuple[list[int], list[int]]] = {}

    def raise_to(self, value: int, *, time: int, epoch: int) -> None:
        times, values = self._steps.setdefault(epoch, ([], []))
        if values and value <= values[-1]:
            return
        times.append(time)
        values.append(value)
        if len(times) > MAX_KEPT:
            del times[: MAX_KEPT // 2], values[: MAX_KEPT // 2]

    def before(self, *, time: int, epoch: int) -> int:
        """The highest value that was known strictly before `time` in `epoch` or an earlier one; -1 if none was."""
        return max((self.within(time=time, epoch=known) for known in self._steps if known <= epoch), default=-1)

    def within(self, *, time: int, epoch: int) -> int:
        """The highest value that was known strictly before `time` in `epoch` itself; -1 if none was."""
        times, values = self._steps.get(epoch, ((), ()))
        step = bisect_left(times, time) - 1
        return values[step] if step >= 0 else -1

    def forget_below(self, epoch: int) -> None:
        """An unclean election in `epoch`: bounds of earlier epochs no longer hold."""
        self._steps = {e: steps for e, steps in self._steps.items() if e >= epoch}
