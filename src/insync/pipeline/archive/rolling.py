"""When new records become files: a following archive waits until a file is worth writing.

The log itself is the buffer. Nothing is held back in memory or in half-written files: records that wait are simply not
archived yet, so a kill at any moment loses nothing. A partition is due

1. if nothing of it is archived yet,
2. if the records that wait make a file of `roll_bytes` (estimated by the size of its last files) or `rows_per_file`,
3. if the oldest of them has waited for `roll_interval_s`. Partitions that have waited half as long go along: a round
   costs a ledger entry, whatever its size.

Retention must not overtake the archive: an interval or size above a quarter of the topic's own limits is lowered.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from insync.client.model import TopicPartition
from insync.lake.ledger import Ledger
from insync.pipeline.archive.plan import Plan

RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
RETENTION_SHARE = 4
_SAMPLE = 4
"""Ranges that an estimate of the bytes per offset is based on."""

TopicConfigs = Mapping[str, Mapping[str, str]]
"""By topic and name of the setting."""


@dataclass(frozen=True, slots=True)
class RollLimits:
    bytes: int
    interval_s: float
    rows: int

    def below_retention(self, configs: Mapping[str, str]) -> RollLimits:
        kept_ms, kept_bytes = (int(configs.get(name) or -1) for name in (RETENTION_MS, RETENTION_BYTES))
        return RollLimits(
            min(self.bytes, kept_bytes // RETENTION_SHARE) if kept_bytes >= 0 else self.bytes,
            min(self.interval_s, kept_ms / 1000 / RETENTION_SHARE) if kept_ms >= 0 else self.interval_s,
            self.rows,
        )


class Rolling:
    """Remembers since when each partition has had records that wait."""

    def __init__(
        self,
        limits: RollLimits,
        ledger: Ledger,
        *,
        monotonic_s: Callable[[], float] = time.monotonic,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._limits = limits
        self._ledger = ledger
        self._monotonic_s = monotonic_s
        self._wall_s = wall_s
        self._waiting: dict[TopicPartition, tuple[int, float]] = {}
        """By partition: the first offset that is not archived, and since when there may be a record."""
        self._last_look_s: float | None = None

    def find_due(self, plan: Plan, configs: TopicConfigs) -> list[TopicPartition]:
        """The partitions to archive now."""
        now = self._monotonic_s()
        pending = {key: start.start for key, start in plan.starts.items() if plan.ends[key] > start.start}
        self._waiting = {key: (start, self._find_since(key, start, now)) for key, start in pending.items()}
        self._last_look_s = now
        waited = {key: now - since for key, (_, since) in self._waiting.items()}
        limits = {key: self._limits.below_retention(configs.get(key[0], {})) for key in pending}
        late = [key for key in pending if waited[key] >= limits[key].interval_s]
        return [
            key
            for key, start in pending.items()
            if self._ledger.last(key) is None
            or self._is_large(key, plan.ends[key] - start, limits[key])
            or (late and waited[key] >= limits[key].interval_s / 2)
        ]

    def _find_since(self, key: TopicPartition, start: int, now: float) -> float:
        """Never later than the arrival of the record at `start`, or this process's start if that is unknown."""
        before = self._waiting.get(key)
        if before is not None and before[0] == start:
            return before[1]
        if self._last_look_s is not None:
            return self._last_look_s  # the log ended at `start` then, or in the round after it
        return now - max(0.0, self._wall_s() - self._ledger.committed_at_s(key))

    def _is_large(self, key: TopicPartition, offsets: int, limits: RollLimits) -> bool:
        sample = [archived for archived in self._ledger.ranges(key)[-_SAMPLE:] if archived.files]
        sampled = sum(archived.end - archived.start for archived in sample)
        size = sum(archived.bytes for archived in sample) * offsets / sampled if sampled else 0
        return offsets >= limits.rows or size >= limits.bytes
