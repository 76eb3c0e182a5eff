"""S5: a broker that may have lost data has to catch up before it counts again.

Fencing comes first: a broker loses leadership and ISR membership while it is away, so that nothing depends on the data
with which it comes back.
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.properties.violation import Property

PROPERTY = Property(
    "S5",
    "Unclean Exclusion",
    "A replica whose broker is fenced, or restarted uncleanly and did not catch up yet, is neither leader nor in sync.",
)


def check(
    broker: int, *, complete: bool, leader: int, isr: Sequence[int], elr: Sequence[int], moment: str
) -> str | None:
    """`complete`: the replica holds all that is committed and has fetched since its restart."""
    if complete:
        return None
    if broker == leader:
        return f"broker {broker} restarted uncleanly and is leader {moment}"
    if broker in isr:
        return f"broker {broker} restarted uncleanly and is in the ISR {sorted(isr)} {moment}"
    if broker in elr:
        return f"broker {broker} restarted uncleanly and is in the ELR {sorted(elr)} {moment}"
    return None


def check_fenced(broker: int, *, leader: int, isr: Sequence[int]) -> str | None:
    """B4: `broker` is fenced or not registered: it may come back without its data."""
    if broker == leader:
        return f"broker {broker} is fenced and is leader"
    return f"broker {broker} is fenced and is in the ISR {sorted(isr)}" if broker in isr else None
