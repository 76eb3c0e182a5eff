"""Everything that is measured of one topic: our source, Spark's connector, Parquet, a plain consumer, the archive, the
files of the log."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import spark_topics
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.types import StructType
from spark_measure import Sample, emptied, measure
from spark_topics import Load

from insync.pipeline.archive import job as archive
from insync.testing import Cluster


class Queries:
    """`connector`: whether Spark has its own Kafka connector. `runs` of each are measured after `warm` others."""

    def __init__(
        self, spark: SparkSession, cluster: Cluster, directory: Path, *, connector: bool, warm: int, runs: int
    ) -> None:
        self._spark = spark
        self._cluster = cluster
        self._directory = directory
        self._connector = connector
        self._warm, self._runs = warm, runs

    def of(self, load: Load) -> dict[str, Sample]:
        parquet = self._directory / "parquet"
        found = {
            "insync → noop": self._measured(lambda: noop(self._source("insync", load))),
            "insync → count": self._measured(lambda: self._counted(load)),
            "insync → Parquet": self._measured(lambda: to_parquet(self._source("insync", load), parquet)),
        }
        found["Parquet → noop"] = self._measured(lambda: noop(self._spark.read.parquet(str(parquet))))
        if self._connector:
            found["connector → noop"] = self._measured(lambda: noop(self._source("kafka", load)))
            found["connector → Parquet"] = self._measured(lambda: to_parquet(self._source("kafka", load), parquet))
        found["archive"] = self._measured(lambda: self.archived(load))
        seconds = spark_topics.consume(self._cluster, load)
        found["confluent-kafka consumer"] = Sample(seconds, 0.0)
        return found

    def files(self, load: Load, log_dir: Path, columns: str = "") -> Sample:
        """`insync-log` of one topic to nowhere; without a schema, all columns."""
        reader = self._spark.read.format("insync-log").option("topics", load.topic).option("bound", "end")
        reader = reader.schema(columns) if columns else reader
        return self._measured(lambda: noop(reader.load(str(log_dir))))

    def noop(self, load: Load) -> Sample:
        return self._measured(lambda: noop(self._source("insync", load)))

    def archived(self, load: Load) -> None:
        lake = emptied(self._directory / "lake")
        options = archive.ArchiveOptions(bootstrap=self._cluster.bootstrap, lake=str(lake), topics=(load.topic,))
        if archive.run(self._spark, options).rows != load.rows:
            raise RuntimeError(f"the archive of {load.topic} is not whole")

    def _counted(self, load: Load) -> None:
        reader = self._reader("insync", load).schema(StructType([]))
        if (found := reader.load().count()) != load.rows:
            raise RuntimeError(f"{found} rows of {load.topic} instead of {load.rows}")

    def _source(self, form: str, load: Load) -> DataFrame:
        return self._reader(form, load).load()

    def _reader(self, form: str, load: Load) -> DataFrameReader:
        reader = self._spark.read.format(form).option("kafka.bootstrap.servers", self._cluster.bootstrap)
        return reader.option("subscribe", load.topic).option("startingOffsets", "earliest")

    def _measured(self, work: Callable[[], object]) -> Sample:
        return measure(work, warm=self._warm, runs=self._runs)


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("append").save()


def to_parquet(frame: DataFrame, path: Path) -> None:
    frame.write.mode("overwrite").parquet(str(path))
