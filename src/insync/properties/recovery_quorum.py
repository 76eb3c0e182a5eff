"""S10: when no candidate is left, the last-known ELR has enough members to contain a complete log.

Replicas that left the ELR by an unclean restart are in the last-known ELR. It has at least as many members as have to
lose data for a record to be lost: MinISR, as it was when records were last committed. It may have more: a change that
removes several members from the ISR moves all of them to the ELR.
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.properties.violation import Property

PROPERTY = Property(
    "S10",
    "MinISR Recovery Quorum",
    "With ISR and ELR empty, the last-known ELR has at least MinISR members.",
)


def check(
    isr: Sequence[int], elr: Sequence[int], last_known_elr: Sequence[int], min_isr: int, committed_end: int
) -> str | None:
    if isr or elr or committed_end == 0 or len(last_known_elr) >= min_isr:
        return None
    return f"ISR and ELR are empty, last-known ELR is {sorted(last_known_elr)}, MinISR is {min_isr}"
