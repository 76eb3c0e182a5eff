"""What the data sources run in executors.

The codecs are imported here, on first use: their compiled code takes a second to load, and the driver does without.
For an empty plan Spark runs one task all the same, without a partition: the readers then yield nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition, WriterCommitMessage

from insync.logdir.files import Segment
from insync.spark.lake_view import LakeTask
from insync.spark.read_task import CombinedTask, ReadTask
from insync.spark.sink.fence import Fence
from insync.spark.sink.options import SinkOptions
from insync.spark.typed_options import TypedColumns
from insync.spark.worker import prepare_worker


@dataclass
class SegmentTask(InputPartition):
    """Pickled to an executor."""

    segment: Segment
    columns: tuple[str, ...]


def read_offsets(partition: InputPartition | None) -> Iterator[Any]:
    """The Arrow batches of a `ReadTask`, `CombinedTask` or `LakeTask`."""
    if isinstance(partition, LakeTask):
        from insync.spark.lake_task import read_lake

        prepare_worker()
        yield from read_lake(partition)
    elif isinstance(partition, ReadTask) and partition.options.lake:
        from insync.spark.lake_task import read_log_or_lake

        prepare_worker()
        yield from read_log_or_lake(partition)
    elif isinstance(partition, ReadTask):
        from insync.spark.task_reader import read_task

        prepare_worker()
        yield from read_task(partition)
    elif isinstance(partition, CombinedTask):
        from insync.spark.combined_reader import read_combined

        prepare_worker()
        yield from read_combined(partition)


def read_segment(partition: InputPartition | None) -> Iterator[Any]:
    """The Arrow batches of a `SegmentTask`."""
    if isinstance(partition, SegmentTask):
        from insync.logdir import rows

        prepare_worker()
        yield from rows.read_segment(partition.segment, partition.columns)


def decode_rows(batches: Iterator[Any], typed: TypedColumns | None) -> Iterator[Any]:
    """The batches with decoded keys and values."""
    if typed is None:
        return batches
    from insync.spark import typed_rows

    return typed_rows.decode_rows(batches, typed)


def write_rows(batches: Iterator[Any], options: SinkOptions, fence: Fence, task: int) -> WriterCommitMessage:
    from insync.spark.sink import task_writer

    prepare_worker()
    return task_writer.write(batches, options, fence, task)
