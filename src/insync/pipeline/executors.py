"""Work that executors do for a driver: a list of tasks, and an answer to each, which travels as JSON.

A task that fails says so in its answer, so that the others' work is not lost; what breaks Spark itself is a
`SparkFailed`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from insync.spark.worker import prepare_worker

T = TypeVar("T")

ANSWER = "task int, answer string"


class SparkFailed(Exception):  # noqa: N818  says what happened
    """No answer of this round is known."""


def answers(spark: SparkSession, tasks: Sequence[T], execute: Callable[[T], Any]) -> dict[int, Any]:
    """By the task's index; `execute` returns a dataclass, and here are its fields."""
    try:
        rows = spark.range(0, len(tasks), 1, len(tasks)).mapInArrow(_executing(tasks, execute), ANSWER).collect()
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(f"Spark: {reason(str(error))}") from error
    return {row.task: json.loads(row.answer) for row in rows}


def reason(words: str) -> str:
    """Of what Spark says about a failure, with traces of Python and Java in any order: the cause, which comes last."""
    lines = [line.strip() for line in words.splitlines()]
    return next((line for line in reversed(lines) if line and not line.startswith(("at ", "... "))), "no reason given")


def _executing(
    tasks: Sequence[T], execute: Callable[[T], Any]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For mapInArrow over the indexes of the tasks."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            for index in batch.column(0).to_pylist():
                text = json.dumps(asdict(execute(tasks[index])))
                yield pa.RecordBatch.from_pydict({"task": pa.array([index], pa.int32()), "answer": [text]})

    return run
