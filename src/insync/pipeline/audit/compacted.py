"""Compacted topics: replicas drop superseded records each in its own time, but a record that two of them still have at
one offset is the same on both. This is the one comparison that reads every record."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from insync.logdir.files import Replica
from insync.logdir.options import ReadOptions
from insync.pipeline.audit import compared_ranges as audit_marks
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import Finding
from insync.pipeline.report import progress as report_watch

COLUMNS = (
    "broker int, topic string, partition int, offset bigint, leader_epoch int, key binary, value binary, "
    "segment string, error string"
)
MOST = 1_000


def compare(
    spark: SparkSession,
    options: ReadOptions,
    replicas: Sequence[Replica],
    topics: Sequence[str],
    tell: report_watch.Tell = report_watch.silent,
) -> list[Finding]:
    options = committed(options, replicas)
    if not options.paths:
        return []
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


def committed(options: ReadOptions, replicas: Sequence[Replica]) -> ReadOptions:
    """Without the directories of which nobody knows what is committed."""
    unknown = audit_marks.without_marks(replicas)
    kept = [
        at
        for at, path in enumerate(options.paths)
        if not any(root == path or root.startswith(path + os.sep) for root in unknown)
    ]
    brokers = tuple(options.brokers[at] for at in kept) if options.brokers else ()
    return replace(options, paths=tuple(options.paths[at] for at in kept), brokers=brokers)


def _finding(topic: str, partition: int, offset: int, holders: Sequence[tuple[int, int, str]]) -> Finding:
    said = [each[1] for each in holders]
    odd = min(holders, key=lambda each: (said.count(each[1]), -each[0]))
    others = [str(each[0]) for each in holders if each[1] != odd[1]]
    who = f"broker{'s' if len(others) > 1 else ''} {', '.join(others)}"
    detail = f"holds another record there than {who}, in a compacted topic"
    return Finding(kinds.DIVERGED, "S2", odd[0], topic, partition, offset, odd[2], None, detail)
