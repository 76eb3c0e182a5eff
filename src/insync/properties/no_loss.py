"""S9: as long as fewer than MinISR replicas lose data, the cluster loses nothing.

With availability first more may be lost: an election from outside ISR and ELR may lose records if the topic's configs
or an operator permit it, or if too many replicas lost data (`may_lose`). A balanced recovery has to find a complete log
if one of the replicas that it asks has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from insync.properties.committed_log import CommittedLog
from insync.properties.violation import Property

PROPERTY = Property(
    "S9",
    "No Committed Record Lost",
    "A committed record is held by some replica as long as fewer than MinISR replicas lost data at once.",
)


def check(held: Mapping[int, int], committed_end: int, lost: int, min_isr: int) -> str | None:
    """`held`: how far each replica agrees with the committed log; `lost`: how many lost data and have not caught up."""
    if lost >= min_isr or not held or max(held.values()) >= committed_end:
        return None
    return f"no replica holds the committed log to {committed_end} (held: {dict(held)}), only {lost} lost data"


def check_acked(base_offset: int, count: int, crc: int, committed: CommittedLog) -> str | None:
    """An acks=all produce was acknowledged at `base_offset`; `crc` -1 when the sender cannot know it."""
    if base_offset < committed.start:
        return None
    batch = committed.at(base_offset)
    if batch is None or batch.last_offset < base_offset + count - 1:
        return f"{count} records acknowledged at {base_offset} are not committed (committed is {committed.end})"
    if batch.base_offset != base_offset or (crc >= 0 and batch.crc != crc):
        return f"another batch is committed where one was acknowledged: {batch} at {base_offset}, crc {crc:08x}"
    return None


def may_lose(*, unclean_enabled: bool, strategy: str, by_operator: bool, lost: int, min_isr: int) -> bool:
    """Whether an election outside ISR and ELR is permitted to lose committed records (E6)."""
    return unclean_enabled or by_operator or strategy == "proactive" or lost >= min_isr


def check_recovery(leader: int, verified_to: int, best: int, committed_end: int, permitted: bool) -> str | None:
    """An unclean election chose `leader`; `best` is how far the most complete of the replicas asked agrees."""
    if verified_to >= committed_end or (permitted and verified_to >= min(best, committed_end)):
        return None
    return (
        f"unclean election of {leader} keeps the committed log to {verified_to} of {committed_end}, "
        f"a replica that was asked holds it to {best}"
    )
