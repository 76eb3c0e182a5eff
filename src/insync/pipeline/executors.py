"""Runs a list of tasks on Spark's executors and collects their results in the order of the tasks."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from insync.pipeline.report.progress import OnProgress, ignore_progress, run_with_progress
from insync.pipeline.spark_errors import SparkJobError, explain_job_failure
from insync.spark.worker import prepare_worker

T = TypeVar("T")
R = TypeVar("R")

TASKS_PER_CORE = 4
BYTES_PER_TASK = 256 << 20
_RESULT = "task int, result binary"


class RunTasks(Protocol):
    """Lets jobs run their tasks here or on Spark."""

    def __call__(self, tasks: Sequence[T], execute: Callable[[T], R], *, what: str, size: int) -> list[R]:
        """The results of all tasks, in their order. `what` names them for a progress bar; they read `size` bytes."""


def run_here(tasks: Sequence[T], execute: Callable[[T], R], *, what: str, size: int) -> list[R]:
    return [execute(task) for task in tasks]


def run_on(spark: SparkSession, on_progress: OnProgress) -> RunTasks:
    """Runs tasks on executors; small ones share a Spark task."""

    def run(tasks: Sequence[T], execute: Callable[[T], R], *, what: str, size: int) -> list[R]:
        slots = TASKS_PER_CORE * spark.sparkContext.defaultParallelism
        partitions = min(len(tasks), max(size // BYTES_PER_TASK, slots))
        return run_tasks(spark, tasks, execute, what=what, on_progress=on_progress, partitions=partitions)

    return run


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[T],
    execute: Callable[[T], R],
    *,
    what: str = "",
    on_progress: OnProgress = ignore_progress,
    partitions: int = 0,
) -> list[R]:
    """Run `execute` on every task. By default each is a Spark task of its own; with `partitions`, small ones share.

    Raises SparkJobError if the job fails. An `execute` that reports its failure in its result keeps the others' work.
    """
    if not tasks:
        return []

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for index in batch.column(0).to_pylist():
                result = pickle.dumps(execute(tasks[index]))
                yield pa.RecordBatch.from_pydict(
                    {"task": pa.array([index], pa.int32()), "result": pa.array([result], pa.binary())}
                )

    frame = spark.range(0, len(tasks), 1, partitions or len(tasks)).mapInArrow(run, _RESULT)
    try:
        rows = run_with_progress(spark, what, frame.collect, on_progress)
    except (PySparkException, Py4JError) as error:
        raise SparkJobError(f"Spark: {explain_job_failure(str(error))}") from error
    return [pickle.loads(bytes(row["result"])) for row in sorted(rows, key=lambda row: row["task"])]
