"""How fast partitions grow, and when a disk is full.

The rate is that of the records on disk, over a period that ends with the newest record. Retention is part of the
projection: whole segments are deleted once they are too old, so that a partition with retention.ms stops growing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from insync.pipeline.capacity.cluster_load import PartitionLoad
from insync.pipeline.capacity.segment_sizes import HOUR_MS

DAY_MS = 24 * HOUR_MS
YEARS = 5
TIMES_MS: Any = np.concatenate((np.arange(0, 14 * DAY_MS, HOUR_MS), np.arange(14, YEARS * 365 + 1) * DAY_MS))
"""When a projection is computed: hours for two weeks, then days."""
NEVER = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Of one replica, per hour."""

    size: float = 0.0
    records: float = 0.0
    span_ms: int = 0
    """The period that it was computed from."""


def measure_rate(partition: PartitionLoad, end_ms: int, window_ms: int) -> Rate:
    """Since the beginning of the window or the oldest record. A period is not shorter than an hour: from less, nothing
    can be concluded about a day."""
    first_ms = partition.first_ms
    if first_ms < 0 or first_ms > end_ms:
        return Rate(span_ms=HOUR_MS)
    start_ms = max(first_ms, (end_ms - window_ms) // HOUR_MS * HOUR_MS)
    span_ms = max(end_ms - start_ms, HOUR_MS)
    chosen = [both for hour, both in partition.hours.items() if start_ms // HOUR_MS <= hour <= end_ms // HOUR_MS]
    return Rate(
        size=sum(size for size, _ in chosen) * HOUR_MS / span_ms,
        records=sum(records for _, records in chosen) * HOUR_MS / span_ms,
        span_ms=span_ms,
    )


def project_size(partition: PartitionLoad, rate: Rate, end_ms: int) -> Any:
    """Bytes of one replica at each of TIMES_MS after `end_ms`."""
    settings = partition.settings
    written = rate.size / HOUR_MS * TIMES_MS
    if settings is None or not settings.deletes:
        return partition.size + written
    sizes = np.full(len(TIMES_MS), float(partition.size))
    if settings.retention_ms >= 0:
        dated = sorted((segment.max_timestamp, segment.size) for segment in partition.segments)
        ends_ms = np.array([time_ms if time_ms >= 0 else NEVER for time_ms, _ in dated], np.int64)
        gone = np.concatenate(([0], np.cumsum([size for _, size in dated])))
        expired = np.searchsorted(ends_ms, end_ms + TIMES_MS - settings.retention_ms, side="left")
        sizes = np.maximum(partition.size - gone[expired], 0.0)
        written = np.minimum(written, rate.size / HOUR_MS * settings.retention_ms)
    sizes = sizes + written
    if settings.retention_bytes >= 0:
        largest = max((segment.size for segment in partition.segments), default=0)
        sizes = np.minimum(sizes, settings.retention_bytes + largest)
    sizes[0] = partition.size  # what is about to be deleted is still there
    return sizes


def sum_projections(
    partitions: Sequence[PartitionLoad], rates: Sequence[Rate], end_ms: int, brokers: Sequence[int]
) -> dict[int, Any]:
    """Bytes of all replicas of each broker at each of TIMES_MS."""
    totals = {broker: np.zeros(len(TIMES_MS)) for broker in brokers}
    for partition, rate in zip(partitions, rates, strict=True):
        sizes = project_size(partition, rate, end_ms)
        for broker in partition.replicas:
            if broker in totals:
                totals[broker] += sizes + (partition.size_on(broker) - partition.size)
    return totals


def find_full_days(projection: Any, disk: int) -> float | None:
    """After how many days a disk is full; None if not within YEARS."""
    full = np.flatnonzero(projection >= disk)
    return float(TIMES_MS[full[0]]) / DAY_MS if len(full) else None
