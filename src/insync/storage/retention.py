"""How many of the oldest segments may be deleted. Pure decisions; the log carries them out.

With cleanup.policy delete, a segment goes when its newest record is older than retention.ms, or when the log without it
is still at least retention.bytes; with every policy, when the log start has moved past it. Nothing goes that is not
committed: a segment must end at or below `limit`, which is the high watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from insync.storage.config import LogConfig


class Segment(Protocol):
    """What decides about a segment."""

    @property
    def base(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def max_timestamp(self) -> int: ...

    @property
    def broken(self) -> bool: ...


def count_deletable(segments: Sequence[Segment], config: LogConfig, limit: int, log_start: int, now: int) -> int:
    """By time, size or log start; the active segment is never counted."""
    count = count_below(segments, log_start)
    if not config.deletes:
        return count  # a compacted log keeps the last value of each key
    return max(_count_by_time(segments, config, limit, now), _count_by_size(segments, config, limit), count)


def count_below(segments: Sequence[Segment], offset: int) -> int:
    """How many segments end at or below `offset`."""
    return sum(1 for segment in segments[1:] if segment.base <= offset)


def is_active_expired(
    segments: Sequence[Segment], config: LogConfig, limit: int, log_start: int, leo: int, now: int
) -> bool:
    """Whether the active segment is as old as the others, and is closed so that an idle log becomes empty too."""
    if not config.deletes or config.retention_ms < 0 or not segments[-1].size or leo > limit:
        return False
    last = len(segments) - 1
    return count_deletable(segments, config, limit, log_start, now) == last and _is_expired(segments, last, config, now)


def _count_by_time(segments: Sequence[Segment], config: LogConfig, limit: int, now: int) -> int:
    if config.retention_ms < 0:
        return 0
    most = count_below(segments, limit)
    count = 0
    while count < most and _is_expired(segments, count, config, now):
        count += 1
    return count


def _count_by_size(segments: Sequence[Segment], config: LogConfig, limit: int) -> int:
    if config.retention_bytes < 0:
        return 0
    most = count_below(segments, limit)
    excess = sum(segment.size for segment in segments) - config.retention_bytes
    count = 0
    while count < most and excess >= segments[count].size:
        excess -= segments[count].size
        count += 1
    return count


def _is_expired(segments: Sequence[Segment], number: int, config: LogConfig, now: int) -> bool:
    """D6: the newest timestamp of a damaged segment may be unknown; those of the next segment are not older."""
    timestamp = segments[number].max_timestamp
    if segments[number].broken and number + 1 < len(segments):
        timestamp = max(timestamp, segments[number + 1].max_timestamp)
    return timestamp >= 0 and now - timestamp > config.retention_ms
