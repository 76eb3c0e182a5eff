"""S3: everyone who may be elected without asking anybody is complete.

It is asked of brokers that run under the broker epoch the controller knows. A member that died and lost data is still
listed until the controller notices; Unclean Exclusion (S5) sees to it that it is struck off before it can come back.
"""

from __future__ import annotations

from insync.properties.violation import Property

PROPERTY = Property(
    "S3",
    "Leader Candidate Completeness",
    "Every running member of the ISR and of the ELR holds the complete committed log.",
)


def check(member: int, where: str, verified_to: int, committed_end: int) -> str | None:
    """`where` is "ISR" or "ELR"."""
    if verified_to >= committed_end:
        return None
    return f"{where} member {member} agrees with the committed log only to {verified_to}, committed is {committed_end}"
