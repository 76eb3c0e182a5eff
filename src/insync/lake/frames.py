"""A lake as a DataFrame of Spark.

Spark reads the files of a directory itself. For those of an object store it would need further jars: its Python workers
read them, a task for each file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from insync.lake.directory import NO_DATE, load_ledger
from insync.lake.ledger import File
from insync.lake.location import Location
from insync.lake.staging import find_path, open_file
from insync.lake.store import LakeError, LocalStore, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH_ROWS = 40_000
HEADERS = "array<struct<key: string, value: binary>>"
COLUMNS = (
    "partition int, offset long, timestamp timestamp, timestampType int, key binary, value binary, "
    f"headers {HEADERS}, leader_epoch int, producer_id long, producer_epoch short, sequence int, "
    "transactional boolean, topic string, date date"
)


def read(spark: SparkSession, path: Location, topics: Iterable[str] = ()) -> DataFrame:
    """The archived rows, with the columns `topic` and `date` from the paths.

    The frame names the files that count now. A compaction deletes files that it has replaced after its `--grace`: load
    a frame again that is older.
    """
    ledger = load_ledger(path)
    names = set(topics)
    files = [file for archived in ledger.ranges() if not names or archived.topic in names for file in archived.files]
    if not files:
        raise LakeError(f"nothing is archived in {path}" + (f" of {', '.join(sorted(names))}" if names else ""))
    if isinstance(ledger.lake, LocalStore):
        return _read_with_spark(spark, ledger.lake, files)
    return _read_with_workers(spark, ledger.lake, [file.path for file in files])


def _read_with_spark(spark: SparkSession, lake: LocalStore, files: Sequence[File]) -> DataFrame:
    by_root: dict[Path, list[str]] = {}
    for file in files:
        path = lake.root / find_path(lake, file.path)
        root = path.parents[2]
        by_root.setdefault(root, []).append(str(path))
    frames = [spark.read.option("basePath", str(root)).parquet(*paths) for root, paths in by_root.items()]
    return reduce(lambda left, right: left.unionByName(right), frames)


def _read_with_workers(spark: SparkSession, lake: Store, paths: Sequence[str]) -> DataFrame:
    rows = spark.sparkContext.parallelize([(path,) for path in paths], len(paths))
    return spark.createDataFrame(rows, "path string").mapInArrow(partial(_read_batches, lake), COLUMNS)


def _read_batches(lake: Store, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for path in batch.column("path").to_pylist():
            constants = _read_constants(path)
            with open_file(lake, path) as parquet:
                for rows in parquet.iter_batches(BATCH_ROWS):
                    columns = [pa.repeat(value, rows.num_rows) for value in constants.values()]
                    yield pa.RecordBatch.from_arrays([*rows.columns, *columns], [*rows.schema.names, *constants])


def _read_constants(path: str) -> dict[str, pa.Scalar]:
    """The columns that the path says."""
    topic, day, _ = path.split("/")
    text = day.removeprefix("date=")
    parsed = None if text == NO_DATE else date.fromisoformat(text)
    return {"topic": pa.scalar(topic.removeprefix("topic=")), "date": pa.scalar(parsed, pa.date32())}
