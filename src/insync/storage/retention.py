"""Which of the oldest segments may go. Pure decisions; the log carries them out.

With cleanup.policy delete, a segment goes when its newest record is older than retention.ms or when the log without it
is still at least retention.bytes; with every policy, when the log start has moved past it. Nothing goes that is not
committed: a segment must end at or below the high watermark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from insync.storage.log import Log


def retention_limit(log: Log) -> int:
    """Safeguard: records above the high watermark may be the only copies of an acknowledged write."""
    return log.hwm


def deletable(log: Log, now: int) -> int:
    """How many of the oldest segments may go by time or size, the growing one not counted."""
    if not log.config.deletes:
        return below(log, log.log_start)  # a compacted log keeps the last value of each key for ever
    return max(_by_time(log, now), _by_size(log), below(log, log.log_start))


def below(log: Log, offset: int) -> int:
    """How many segments end at or below `offset`."""
    ends = [segment.base for segment in log.segments[1:]]
    return sum(1 for end in ends if end <= offset)


def active_expired(log: Log, now: int) -> bool:
    """The growing segment is as old as the others: it is closed, so that an idle log empties too."""
    config = log.config
    if not config.deletes or config.retention_ms < 0 or not log.active.size or log.leo > retention_limit(log):
        return False
    return deletable(log, now) == len(log.segments) - 1 and _is_expired(log, len(log.segments) - 1, now)


def _by_time(log: Log, now: int) -> int:
    if log.config.retention_ms < 0:
        return 0
    limit = below(log, retention_limit(log))
    n = 0
    while n < limit and _is_expired(log, n, now):
        n += 1
    return n


def _by_size(log: Log) -> int:
    if log.config.retention_bytes < 0:
        return 0
    limit = below(log, retention_limit(log))
    excess = log.size_bytes - log.config.retention_bytes
    n = 0
    while n < limit and excess >= log.segments[n].size:
        excess -= log.segments[n].size
        n += 1
    return n


def _is_expired(log: Log, n: int, now: int) -> bool:
    """D6: how old the newest record of a damaged segment is may not be known; the next segment's are not older."""
    timestamp = log.segments[n].max_timestamp
    if log.segments[n].broken and n + 1 < len(log.segments):
        timestamp = max(timestamp, log.segments[n + 1].max_timestamp)
    return timestamp >= 0 and now - timestamp > log.config.retention_ms
