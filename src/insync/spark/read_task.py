"""What the driver sends an executor to read, and the columns that come back."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from insync.spark.planning import OffsetRange
from insync.spark.source_options import SourceOptions

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
class ReadTask(InputPartition):
    """Pickled to an executor."""

    range: OffsetRange
    options: SourceOptions
    columns: tuple[str, ...]
    topic_id: str = ""
    """The topic's id when the range was planned; empty if unknown."""
    epoch: int = -1
    """The leader epoch when the range was planned; -1 if unknown."""
