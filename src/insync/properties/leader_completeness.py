"""S1: the current leader has everything that was committed."""

from __future__ import annotations

from insync.properties.violation import Property

PROPERTY = Property(
    "S1", "Leader Completeness", "The leader's log contains every committed record up to the true high watermark."
)


def check(leader: int, verified_to: int, committed_end: int) -> str | None:
    """`verified_to`: how far the leader's log agrees with the committed one."""
    if verified_to >= committed_end:
        return None
    return f"leader {leader} agrees with the committed log only to {verified_to}, committed is {committed_end}"
