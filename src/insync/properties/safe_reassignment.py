"""S14: a reassignment takes replicas away only when the others can do without them.

A completed one has copied everything to the replicas that it adds, and a cancelled one does not fall back on fewer
in-sync replicas than MinISR. Otherwise the last complete copy may be among those that leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.properties.violation import Property

PROPERTY = Property(
    "S14",
    "Safe Reassignment",
    "When replicas leave a partition, every added one that stays is in the ISR, and so are MinISR of those that stay.",
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
    """A change left `replicas` of `replicas_before`, with `adding` under way before it. `may_lose`: the topic permits
    unclean elections, and with them a cancellation that leaves fewer than MinISR in sync (R5)."""
    removed = [replica for replica in replicas_before if replica not in replicas]
    if not removed:
        return None
    missing = [replica for replica in adding if replica in replicas and replica not in isr]
    if missing:
        return f"replicas {removed} are removed while the added replicas {missing} are not in the ISR {sorted(isr)}"
    if len(isr) < min(min_isr, len(replicas)) and not may_lose:
        return f"replicas {removed} are removed, which leaves the ISR {sorted(isr)} below MinISR {min_isr}"
    return None
