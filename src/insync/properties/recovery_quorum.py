"""S10: when nobody can be elected any more, enough former candidates are remembered to find a complete log among them.

Those who left the ELR by an unclean restart are remembered as last-known ELR. There are at least as many as replicas
must have lost data for a record to be lost: MinISR, as it was when records were last committed. There may be more: one
change that takes several members out of the ISR moves them all to the ELR.
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
