"""What the driver tells an executor. Kept apart from the reading itself: the driver plans without the decoder, whose
compiled code takes a second to load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import InputPartition

from insync.spark.options import SourceOptions
from insync.spark.planning import OffsetRange

HEADERS = "headers"
COLUMNS = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}
"""Names and types, as Spark writes them."""


@dataclass
class Task(InputPartition):
    """Pickled to an executor. The id and the epoch are those under which the range was planned, if they are known."""

    range: OffsetRange
    options: SourceOptions
    columns: tuple[str, ...]
    topic_id: str = ""
    epoch: int = -1


def read(task: InputPartition) -> Iterator[Any]:
    """Arrow batches. Where there is nothing to be read, Spark asks for one task all the same, and that is None."""
    if not isinstance(task, Task):
        return
    from insync.spark import rows

    yield from rows.read(task)
