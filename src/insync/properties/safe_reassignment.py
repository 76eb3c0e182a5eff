"""S14: a reassignment takes replicas away only when the others can do without them.

A completed one has copied everything to the replicas that it adds, and a cancelled one does not fall back on fewer
in-sync replicas than MinISR. Otherwise the last complete copy may be among those that leave. One that goes on, also
with another target, takes nothing away.
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.properties.violation import Property

PROPERTY = Property(
    "S14",
    "Safe Reassignment",
    "When a reassignment ends, every added replica that stays is in the ISR, and so are MinISR of those that stay; "
    "until then no replica leaves.",
)


def check(
    *,
    replicas_before: Sequence[int],
    adding: Sequence[int],
    replicas: Sequence[int],
    isr: Sequence[int],
    min_isr: int,
    may_lose: bool,
) -> str | None:
    """A change ended a reassignment and left `replicas` of `replicas_before`, with `adding` under way before it.
    `may_lose`: the topic permits unclean elections, and with them a cancellation that leaves fewer than MinISR in sync
    (R5)."""
    removed = [replica for replica in replicas_before if replica not in replicas]
    added = [replica for replica in replicas if replica in adding or replica not in replicas_before]
    missing = [replica for replica in added if replica not in isr]
    if missing:
        return f"a reassignment ends while the added replicas {missing} are not in the ISR {sorted(isr)}"
    is_below = len(isr) < min(min_isr, len(replicas)) and not may_lose
    if is_below and (removed or added):
        return f"a reassignment that removes {removed} leaves the ISR {sorted(isr)} below MinISR {min_isr}"
    return None


def check_under_way(
    *,
    replicas_before: Sequence[int],
    isr_before: Sequence[int],
    replicas: Sequence[int],
    isr: Sequence[int],
    has_elected: bool,
) -> str | None:
    """R1, R4, R5: a reassignment begins, or gets another target. `has_elected`: the same change made a leader (E2)."""
    left = [replica for replica in replicas_before if replica not in replicas]
    if left:
        return f"replicas {left} leave while the reassignment to {list(replicas)} is under way"
    if sorted(isr) != sorted(isr_before) and not has_elected:
        return f"a new target changed the ISR from {sorted(isr_before)} to {sorted(isr)}"
    return None
