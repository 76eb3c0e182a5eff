"""S4: a leader commits only with every replica that may be elected.

A leader below MinISR does not see the ELR that the controller keeps, but it cannot advance its high watermark either.
Members of the maximal ISR hold what is committed, those that are only proposed included: the controller may have
accepted them already.
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.properties.violation import Property

PROPERTY = Property(
    "S4",
    "Replication Quorum Superset",
    "The maximal ISR of the current leader holds what it commits, and at MinISR contains the controller's ISR and ELR.",
)


def check(
    leader: int,
    leader_isr: Sequence[int],
    maximal_isr: Sequence[int],
    min_isr: int,
    isr: Sequence[int],
    elr: Sequence[int],
) -> str | None:
    if len(leader_isr) < min_isr:
        return None
    for member in (*isr, *elr):
        if member not in maximal_isr:
            return (
                f"leader {leader} commits with {sorted(maximal_isr)}, without electable {member} "
                f"(ISR {sorted(isr)}, ELR {sorted(elr)})"
            )
    return None


def check_member(leader: int, member: int, verified_to: int, committed_end: int) -> str | None:
    """`member` of the current leader's maximal ISR runs in the incarnation in which it joined."""
    if verified_to >= committed_end:
        return None
    return f"{member} of leader {leader}'s maximal ISR holds only {verified_to} of {committed_end} committed"
