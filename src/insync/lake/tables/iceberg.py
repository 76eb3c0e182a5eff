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
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
from pyiceberg.transforms import DayTransform

from insync.lake.directory import NO_DATE
from insync.lake.ledger import File, Range
from insync.lake.location import open_store, read_environment
from insync.lake.store import LakeError, LocalStore, Store
from insync.lake.tables.ledger import (
    CommitUnknownError,
    PartitionState,
    Table,
    TableChangedError,
    TableLedger,
    describe_range,
)
from insync.lake.writer import SCHEMA

ISOLATION = "insync.isolation"
STATE = "insync.partition."
RANGES = "insync.ranges"
NUM_RETRIES = "commit.retry.num-retries"
FILE = "file://"
CATALOG = "insync"
REST = ("http://", "https://")
_S3_SETTINGS = ("endpoint", "region", "access_key_id", "secret_access_key", "session_token")
_DAY_US = 86_400_000_000


def _is_unexpected(record: logging.LogRecord) -> bool:
    """False for a line per file and column that has no statistics: only offsets and times have them, by intention."""
    return not record.getMessage().startswith("PyArrow statistics missing")


logging.getLogger("pyiceberg.io.pyarrow").addFilter(_is_unexpected)


def open_iceberg_lake(root: Store, uri: str, namespace: str, settings: Mapping[str, str]) -> TableLedger:
    """The tables of a namespace that insync created. Without a URI, the catalog is a SQLite file in `root`."""
    if not uri and not isinstance(root, LocalStore):
        raise LakeError(f"{root} has no room for a SQLite file: name the Iceberg catalog with --catalog")
    if not uri.startswith(REST):
        root.prepare()
    catalog = load_catalog(CATALOG, **get_catalog_properties(root, uri))
    catalog.create_namespace_if_not_exists(namespace)
    existing = [catalog.load_table(name) for name in catalog.list_tables(namespace)]
    topics = [table.name()[-1] for table in existing if ISOLATION in table.properties]
    tables = [OpenIcebergTable(catalog, namespace, topic, settings) for topic in topics]
    return TableLedger(root, tables, lambda topic: OpenIcebergTable(catalog, namespace, topic, settings))


def get_catalog_properties(root: Store, uri: str) -> dict[str, str]:
    """A REST catalog chooses the places of its tables by itself: there, `warehouse` would be one of its own names."""
    properties = {"uri": uri or f"sqlite:///{root}/catalog.db"}
    if not uri.startswith(REST):
        properties["warehouse"] = f"{FILE}{root}" if isinstance(root, LocalStore) else str(root)
    settings = read_environment()
    return properties | {f"s3.{name.replace('_', '-')}": settings[name] for name in _S3_SETTINGS if name in settings}


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
        self.data = open_store(self._table.location()).child("data")
        self._prefix = FILE if isinstance(self.data, LocalStore) else ""

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
        except (CommitStateUnknownException, OSError) as error:  # requests' errors are of the latter kind
            raise CommitUnknownError(str(error)) from None
        self._table = self._catalog.load_table(self._name)

    def _list_paths(self, file: File) -> list[str]:
        """A file has the records of one day, as Iceberg demands it; those without a sensible date are divided."""
        if f"/date={NO_DATE}/" not in file.path:
            return [self._to_url(file.path)]
        with self.data.open_parquet(file.path) as parquet:
            table = parquet.read()
        days = table.column("timestamp").cast("int64").to_numpy() // _DAY_US
        parts = {day: f"{file.path.removesuffix('.parquet')}-day{day}.parquet" for day in np.unique(days).tolist()}
        for day, part in parts.items():
            output = self.data.open_output(part)
            pq.write_table(table.filter(pa.array(days == day)), output.stream)
            output.close()
            output.publish()
        return [self._to_url(part) for part in parts.values()]

    def _to_url(self, path: str) -> str:
        return f"{self._prefix}{self.data}/{path}"

    def _set_local_property(self, name: str, value: str) -> None:
        """For this object only: the table keeps its properties."""
        metadata: Any = self._table.metadata
        self._table.metadata = metadata.model_copy(update={"properties": {**metadata.properties, name: value}})
