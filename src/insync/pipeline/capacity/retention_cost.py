"""What retention keeps, and what another setting would delete, by the rules by which brokers delete segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from insync.pipeline.capacity.cluster_load import PartitionLoad, RetentionSettings
from insync.pipeline.capacity.growth import Rate
from insync.pipeline.capacity.segment_sizes import HOUR_MS
from insync.storage import retention
from insync.storage.config import LogConfig

RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Another value of a setting; None: half of what it is."""

    name: str
    value: int | None = None

    def __str__(self) -> str:
        return f"half of {self.name}" if self.value is None else f"{self.name}={self.value}"

    def apply(self, settings: RetentionSettings) -> RetentionSettings | None:
        """None if there is nothing to halve."""
        before = settings.retention_ms if self.name == RETENTION_MS else settings.retention_bytes
        if self.value is None and before < 0:
            return None
        after = before // 2 if self.value is None else self.value
        return (
            replace(settings, retention_ms=after)
            if self.name == RETENTION_MS
            else replace(settings, retention_bytes=after)
        )


DEFAULT_CHANGES = (Change(name=RETENTION_MS), Change(name=RETENTION_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class Saving:
    change: Change
    freed: int
    """Bytes on all brokers, beyond what the present settings delete."""
    steady_size: int | None
    """Bytes on all brokers that it keeps at the present rate of writes; None if there is no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionCost:
    topic: str
    settings: RetentionSettings
    size: int
    """Bytes on all brokers."""
    oldest_ms: int | None
    """The age of the oldest record at the end."""
    expired: int
    """Bytes on all brokers that are about to be deleted."""
    steady_size: int | None
    savings: tuple[Saving, ...]
    """Only changes that this topic can have."""


def cost_of_topic(
    partitions: Sequence[PartitionLoad], rates: Sequence[Rate], end_ms: int, changes: Sequence[Change]
) -> RetentionCost | None:
    """Of all partitions of one topic; None if its settings are unknown."""
    settings = partitions[0].settings
    if settings is None:
        return None
    expired = sum_deletable(partitions, settings, end_ms)
    savings = []
    for change in changes if settings.deletes else ():
        changed = change.apply(settings)
        if changed is not None and changed != settings:
            freed = sum_deletable(partitions, changed, end_ms) - expired
            steady = _steady_size(partitions, rates, changed)
            savings.append(Saving(change=change, freed=max(freed, 0), steady_size=steady))
    first_ms = [partition.first_ms for partition in partitions if partition.first_ms >= 0]
    return RetentionCost(
        topic=partitions[0].topic,
        settings=settings,
        size=sum(partition.size_on(broker) for partition in partitions for broker in partition.replicas),
        oldest_ms=end_ms - min(first_ms) if first_ms else None,
        expired=expired,
        steady_size=_steady_size(partitions, rates, settings),
        savings=tuple(savings),
    )


def sum_deletable(partitions: Sequence[PartitionLoad], settings: RetentionSettings, end_ms: int) -> int:
    """Bytes on all brokers of the segments that brokers may delete; the active segment is closed first if all of its
    records are too old."""
    config = LogConfig(
        retention_ms=settings.retention_ms, retention_bytes=settings.retention_bytes, deletes=settings.deletes
    )
    total = 0
    for partition in partitions:
        segments = partition.segments
        if not segments:
            continue
        start, limit = partition.log_start, partition.hwm
        count = retention.count_deletable(segments, config, limit, start, end_ms)
        leo = segments[-1].base + segments[-1].records
        if retention.is_active_expired(segments, config, limit, start, leo, end_ms):
            count = len(segments)
        total += sum(segment.size for segment in segments[:count]) * len(partition.replicas)
    return total


def _steady_size(partitions: Sequence[PartitionLoad], rates: Sequence[Rate], settings: RetentionSettings) -> int | None:
    if not settings.deletes or (settings.retention_ms < 0 and settings.retention_bytes < 0):
        return None
    total = 0.0
    for partition, rate in zip(partitions, rates, strict=True):
        kept = [rate.size / HOUR_MS * settings.retention_ms] if settings.retention_ms >= 0 else []
        kept += [float(settings.retention_bytes)] if settings.retention_bytes >= 0 else []
        total += min(kept) * len(partition.replicas)
    return round(total)
