"""S3: every replica that may be elected without a recovery is complete.

It is checked for brokers that run under the broker epoch that the controller knows. A member that died and lost data
stays in ISR or ELR until the controller notices; by Unclean Exclusion (S5) it is removed before it comes back.
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
