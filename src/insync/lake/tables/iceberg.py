"""An Apache Iceberg table of one topic, written with `pyiceberg`, without Java.

How far a partition is archived is a property of the table (`insync.partition.<n>`) that the same commit changes which
adds the files; the snapshot's own properties say which ranges it added. Tables are partitioned by the day of the
records' timestamps. Any catalog that pyiceberg knows will do, by its URI.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.transforms import DayTransform

from insync.lake.directory import NO_DATE, LakeError
from insync.lake.journal import sync_file
from insync.lake.ledger import File, Range
from insync.lake.tables.ledger import PartitionState, Table, TableChangedError, TableLedger, describe_range
from insync.lake.writer import SCHEMA

ISOLATION = "insync.isolation"
STATE = "insync.partition."
RANGES = "insync.ranges"
NUM_RETRIES = "commit.retry.num-retries"
FILE = "file://"
_DAY_US = 86_400_000_000


def _is_unexpected(record: logging.LogRecord) -> bool:
    """False for a line per file and column that has no statistics: only offsets and times have them, by intention."""
    return not record.getMessage().startswith("PyArrow statistics missing")


logging.getLogger("pyiceberg.io.pyarrow").addFilter(_is_unexpected)


def open_iceberg_lake(root: Path, uri: str, namespace: str, settings: Mapping[str, str]) -> TableLedger:
    """The tables of a namespace that insync created. Without a URI, the catalog is a SQLite file in `root`."""
    root.mkdir(parents=True, exist_ok=True)
    catalog = load_catalog("insync", uri=uri or f"sqlite:///{root}/catalog.db", warehouse=f"{FILE}{root}")
    catalog.create_namespace_if_not_exists(namespace)
    existing = [catalog.load_table(name) for name in catalog.list_tables(namespace)]
    topics = [table.name()[-1] for table in existing if ISOLATION in table.properties]
    tables = [OpenIcebergTable(catalog, namespace, topic, settings) for topic in topics]
    return TableLedger(root, tables, lambda topic: OpenIcebergTable(catalog, namespace, topic, settings))


class OpenIcebergTable(Table):
    def __init__(self, catalog: Catalog, namespace: str, topic: str, settings: Mapping[str, str]) -> None:
        self.topic = topic
        self._catalog = catalog
        self._name = (namespace, topic)
        if not catalog.table_exists(self._name):
            table = catalog.create_table(self._name, schema=SCHEMA, properties={ISOLATION: settings["isolation"]})
            with table.update_spec() as spec:
                spec.add_field("timestamp", DayTransform(), "day")
        self._table = catalog.load_table(self._name)
        isolation = self._table.properties.get(ISOLATION)
        if isolation is None:
            raise LakeError(f"{namespace}.{topic} is a table that insync did not create: name another namespace")
        if isolation != settings["isolation"]:
            raise LakeError(
                f"{namespace}.{topic} was created with isolation {isolation}; it cannot change to "
                f"{settings['isolation']}"
            )
        if not self._table.location().startswith(FILE):
            raise LakeError(f"{namespace}.{topic} is in {self._table.location()}: only local directories are supported")
        self.data = Path(self._table.location().removeprefix(FILE)) / "data"

    def load(self) -> dict[int, PartitionState]:
        self._table = self._catalog.load_table(self._name)
        states = [
            PartitionState(**json.loads(value))
            for name, value in self._table.properties.items()
            if name.startswith(STATE)
        ]
        return {state.partition: state for state in states}

    def commit(self, ranges: Sequence[Range], states: Sequence[PartitionState]) -> None:
        files = [file for added in ranges for file in added.files]
        paths = [path for file in files for path in self._list_paths(file)]
        described = {RANGES: json.dumps([describe_range(added) for added in ranges])}
        # pyiceberg would repeat a failed commit on a version whose state was not read.
        self._set_local_property(NUM_RETRIES, "0")
        try:
            with self._table.transaction() as transaction:
                transaction.set_properties({f"{STATE}{state.partition}": json.dumps(asdict(state)) for state in states})
                if paths:
                    transaction.add_files(paths, snapshot_properties=described, check_duplicate_files=False)
                else:  # a snapshot all the same: it makes concurrent commits conflict
                    transaction.append(SCHEMA.empty_table(), snapshot_properties=described)
        except CommitFailedException as error:
            raise TableChangedError(str(error)) from None
        self._table = self._catalog.load_table(self._name)

    def _list_paths(self, file: File) -> list[str]:
        """A file has the records of one day, as Iceberg demands it; those without a sensible date are divided."""
        path = self.data / file.path
        if path.parent.name != f"date={NO_DATE}":
            return [f"{FILE}{path}"]
        table = pq.read_table(path, partitioning=None)
        days = table.column("timestamp").cast("int64").to_numpy() // _DAY_US
        parts = []
        for day in np.unique(days).tolist():
            part = path.with_name(f"{path.stem}-day{day}.parquet")
            pq.write_table(table.filter(pa.array(days == day)), part)
            sync_file(part)
            parts.append(f"{FILE}{part}")
        return parts

    def _set_local_property(self, name: str, value: str) -> None:
        """For this object only: the table keeps its properties."""
        metadata: Any = self._table.metadata
        self._table.metadata = metadata.model_copy(update={"properties": {**metadata.properties, name: value}})
