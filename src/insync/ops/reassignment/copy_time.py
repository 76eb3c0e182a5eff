"""How fast copies of a reassignment should be, and how long they take.

Records that are written meanwhile are copied too, so a throttle below the rate of writes never ends (R6).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10

from insync.client.model import TopicPartition
from insync.ops.reassignment.plan import Move

MIN_THROTTLE = 1_000_000
"""Bytes per second: less only prolongs the time in which disks hold both copies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEstimate:
    copies: int
    copied: int
    """Bytes."""
    throttle: int
    """Bytes per second, for `insync reassign start --throttle`."""
    seconds: float


@dataclass(slots=True)
class _Traffic:
    size: int = 0
    rate: float = 0.0
    """Of writes, bytes per second."""


def estimate_copies(
    moves: Sequence[Move],
    sizes: Mapping[TopicPartition, int],
    leaders: Mapping[TopicPartition, int],
    write_rates: Mapping[TopicPartition, float],
    within_s: float,
) -> CopyEstimate:
    """The smallest throttle with which the copies end within the given time, and their duration with it."""
    traffic: dict[tuple[str, int], _Traffic] = {}
    for move in moves:
        key = (move.topic, move.partition)
        for broker in move.copies:
            leader = leaders.get(key, move.before[0])
            for direction in (("out", leader), ("in", broker)):
                entry = traffic.setdefault(direction, _Traffic())
                entry.size += sizes.get(key, 0)
                entry.rate += write_rates.get(key, 0.0)
    needed = [max(entry.size / within_s + entry.rate, 2 * entry.rate) for entry in traffic.values()]
    throttle = round_up(max([MIN_THROTTLE, *needed])) if traffic else 0
    copies = [(move, broker) for move in moves for broker in move.copies]
    return CopyEstimate(
        copies=len(copies),
        copied=sum(sizes.get((move.topic, move.partition), 0) for move, _ in copies),
        throttle=throttle,
        seconds=max((entry.size / (throttle - entry.rate) for entry in traffic.values()), default=0.0),
    )


def round_up(value: float) -> int:
    """To two significant digits."""
    unit: int = 10 ** max(floor(log10(value)) - 1, 0)
    return ceil(value / unit) * unit
