"""Compacted topics: replicas drop superseded records each in its own time, but a record that two of them still have at
one offset is the same on both. This is the one comparison that reads every record."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from insync.pipeline import audit_findings as kinds
from insync.pipeline import report_watch
from insync.pipeline.audit_findings import Finding
from insync.spark.log_options import LogOptions

COLUMNS = (
    "broker int, topic string, partition int, offset bigint, leader_epoch int, key binary, value binary, "
    "segment string, error string"
)
MOST = 1_000


def compare(
    spark: SparkSession, options: LogOptions, topics: Sequence[str], tell: report_watch.Tell = report_watch.silent
) -> list[Finding]:
    reader = spark.read.format("insync-log").schema(COLUMNS).option("path", json.dumps(list(options.paths)))
    reader = reader.option("topics", ",".join(topics)).option("corrupt", "rows").option("includeControl", "true")
    if options.brokers:
        reader = reader.option("brokers", ",".join(map(str, options.brokers)))
    rows = reader.load().where(f.col("error").isNull())
    said = f.xxhash64("key", "value", "leader_epoch")
    holders = f.collect_list(f.struct("broker", said.alias("said"), "segment"))
    at = rows.groupBy("topic", "partition", "offset").agg(f.min(said).alias("low"), f.max(said).alias("high"), holders)
    differing = at.where("low <> high").limit(MOST)
    found = report_watch.watched(spark, "records of compacted topics", differing.collect, tell)
    return [_finding(row[0], row[1], row[2], row[5]) for row in found]


def _finding(topic: str, partition: int, offset: int, holders: Sequence[tuple[int, int, str]]) -> Finding:
    said = [each[1] for each in holders]
    odd = min(holders, key=lambda each: (said.count(each[1]), -each[0]))
    others = ", ".join(str(each[0]) for each in holders if each[1] != odd[1])
    detail = f"holds another record there than brokers {others}, in a compacted topic"
    return Finding(kinds.DIVERGED, "S2", odd[0], topic, partition, offset, odd[2], None, detail)
