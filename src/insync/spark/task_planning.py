"""The driver's last step: tasks for ranges of offsets, with what the driver knows of their partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from pyspark.sql.datasource import InputPartition

from insync.client.model import TopicPartition
from insync.spark.planning import OffsetRange, combine_ranges, split_ranges
from insync.spark.read_task import CombinedTask, PlannedLeader, ReadTask
from insync.spark.source_options import SourceOptions


@dataclass(frozen=True, slots=True)
class PlannedPartitions:
    """What the driver knows; what it does not know is left out."""

    ids: Mapping[str, str] = field(default_factory=dict)
    """The topics' ids, by name."""
    epochs: Mapping[TopicPartition, int] = field(default_factory=dict)
    """The leader epochs under which the ends of the ranges were seen."""
    leaders: Mapping[TopicPartition, PlannedLeader] = field(default_factory=dict)


def plan_tasks(
    ranges: Iterable[OffsetRange], options: SourceOptions, columns: tuple[str, ...], known: PlannedPartitions
) -> list[InputPartition]:
    limits = {"min_partitions": options.min_partitions, "max_records": options.max_records}
    parts = split_ranges(ranges, **limits)
    groups = [[offsets] for offsets in parts] if options.lake else combine_ranges(parts, **limits)
    tasks: list[InputPartition] = []
    for group in groups:
        reads = tuple(
            ReadTask(
                offsets,
                options,
                columns,
                topic_id=known.ids.get(offsets.topic, ""),
                epoch=known.epochs.get(offsets.key, -1),
                leader=known.leaders.get(offsets.key),
            )
            for offsets in group
        )
        tasks.append(reads[0] if len(reads) == 1 else CombinedTask(reads))
    return tasks
