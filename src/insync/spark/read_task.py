"""What the driver sends an executor to read, and the columns that come back.

A task carries what the driver knows of its partitions: the topic's id, and the leader with its address and epoch. So a
task asks no broker for metadata. If the leader has changed since, the broker that is asked for records says so (F3),
and the task looks up its own partitions only.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from insync.client.model import Broker
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


@dataclass(frozen=True, slots=True)
class PlannedLeader:
    """Of a partition, when its range was planned."""

    broker: Broker
    epoch: int


@dataclass
class ReadTask(InputPartition):
    """A range of one partition. Pickled to an executor."""

    range: OffsetRange
    options: SourceOptions
    columns: tuple[str, ...]
    topic_id: str = ""
    """The topic's id when the range was planned; empty if unknown."""
    epoch: int = -1
    """The leader epoch when the range was planned; -1 if unknown."""
    leader: PlannedLeader | None = None
    """Saves the task looking it up; None if unknown."""


@dataclass
class CombinedTask(InputPartition):
    """Small ranges that share a task, in the order in which their rows are returned. Pickled to an executor."""

    parts: tuple[ReadTask, ...]
