"""L8-L11: what stays available while faults go on.

Each is measured only while the cluster could do better: the metadata quorum has a leader that runs and commits, and the
replica in question is alive. Any interruption starts the time again.
"""

from __future__ import annotations

from collections.abc import Sequence

from insync.properties.violation import Property

L8 = Property(
    "L8",
    "Leaders In Time",
    "With a working quorum, a dead broker is fenced in time, and a partition with a live candidate gets a leader.",
)
L9 = Property(
    "L9",
    "Shutdowns Are Known",
    "A controlled shutdown ends when the broker leads nothing and every active broker knows its successors.",
)
L10 = Property(
    "L10",
    "Pre-votes Protect Leaders",
    "A voter that hears from its leader grants no pre-vote, and no voter stands for election without a majority.",
)
L11 = Property("L11", "Followers Rejoin", "A follower that has caught up and may join the ISR is proposed for it.")
PROPERTIES = (L8, L9, L10, L11)


def check_leaderless(name: str, candidates: Sequence[int], for_ms: int, bound_ms: int) -> str | None:
    """L8, E1: `candidates` could have been elected all the time."""
    if not candidates or for_ms <= bound_ms:
        return None
    return f"{name} has had no leader for {for_ms} ms, with candidates {list(candidates)} and a working controller"


def check_detection(broker: int, for_ms: int, bound_ms: int) -> str | None:
    """L8, B4: the registered incarnation does not run any more, and is not fenced."""
    if for_ms <= bound_ms:
        return None
    return f"broker {broker} has not run for {for_ms} ms and is not fenced, with a working controller"


def check_shutdown(broker: int, leads: Sequence[str], moved_at: int, unaware: Sequence[int]) -> str | None:
    """L9, B7: a broker stops by permission. `moved_at` is the metadata offset of its last change of leadership."""
    if leads:
        return f"broker {broker} stops by permission and still leads {list(leads)}"
    if unaware:
        return f"broker {broker} stops by permission, but {list(unaware)} have not read the metadata to {moved_at}"
    return None


def check_pre_vote(voter: int, candidate: int, silence_ms: int, timeout_ms: int) -> str | None:
    """L10, Q4: a pre-vote was granted `silence_ms` after the leader's last answer."""
    if silence_ms >= timeout_ms:
        return None
    return f"voter {voter} granted {candidate} a pre-vote {silence_ms} ms after its leader's last answer"


def check_candidate(voter: int, epoch: int, granted: Sequence[int], majority: int) -> str | None:
    """L10, Q4: `granted` voters, with itself, would vote for it."""
    if len(granted) >= majority:
        return None
    return f"voter {voter} stands for election in epoch {epoch} with the pre-votes of {sorted(granted)} only"


def check_rejoined(name: str, follower: int, for_ms: int, bound_ms: int) -> str | None:
    """L11, I2: the follower fulfils every condition, and its leader has proposed nothing."""
    if for_ms <= bound_ms:
        return None
    return f"{name}: replica {follower} could have joined the ISR for {for_ms} ms, and its leader has not proposed it"
