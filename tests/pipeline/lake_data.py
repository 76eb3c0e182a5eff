"""Reads lakes as tables, in the order of the log, and writes records to archive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from insync.lake import directory
from insync.lake.location import Location
from insync.lake.staging import open_file
from insync.pipeline.archive.job import ArchiveOptions
from insync.testing import Cluster

RECORD = ["partition", "offset", "timestamp", "timestampType", "key", "value", "headers"]
"""The columns that make a record."""


def table(path: Location, topic: str, columns: Sequence[str] = RECORD, generation: int | None = None) -> pa.Table:
    ledger = directory.load_ledger(path)
    ranges = [
        archived
        for archived in ledger.ranges()
        if archived.topic == topic and generation in (None, archived.generation)
    ]
    files = [open_file(ledger.lake, file.path) for archived in ranges for file in archived.files]
    tables = [file.read(columns=list(columns)) for file in files]
    return pa.concat_tables(tables).sort_by([("partition", "ascending"), ("offset", "ascending")])


def values(path: Location, topic: str, generation: int | None = None) -> list[bytes]:
    columns = ["partition", "offset", "value"]
    column: list[bytes] = table(path, topic, columns, generation).column("value").to_pylist()
    return column


def produce(bootstrap: str, topic: str, records: Sequence[Mapping[str, Any]], **settings: Any) -> None:
    """Returns once all records are acknowledged."""
    failures: list[Any] = []
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True, **settings})
    for record in records:
        producer.produce(topic, **record, on_delivery=lambda error, _: failures.append(error) if error else None)
        producer.poll(0)
    assert (producer.flush(60), failures) == (0, [])


def numbered(first: int, end: int, *, partitions: int = 1) -> list[dict[str, Any]]:
    return [{"value": b"v%06d" % i, "key": b"k%d" % i, "partition": i % partitions} for i in range(first, end)]


def delete_records(bootstrap: str, topic: str, *, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})  # must live until there is a result
    (deletion,) = admin.delete_records([TopicPartition(topic, 0, before)]).values()
    deletion.result(30)


def follow_options(cluster: Cluster, lake: Path, topic: str, **changes: Any) -> ArchiveOptions:
    """The options of an archiver that follows a topic and writes what is new at once."""
    return ArchiveOptions(
        bootstrap=cluster.bootstrap,
        lake=str(lake),
        topics=(topic,),
        follow=True,
        interval_s=0.05,
        roll_interval_s=0.0,
        **changes,
    )
