"""Compares replicas of compacted topics. Each drops superseded records in its own time, but a record that two replicas
have at the same offset must be the same. This is the only comparison that reads every record."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from insync.logdir.files import Replica
from insync.logdir.options import ReadOptions
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.compared_ranges import list_directories_without_hwm
from insync.pipeline.audit.findings import Finding
from insync.pipeline.report.progress import OnProgress, ignore_progress, run_with_progress

COLUMNS = (
    "broker int, topic string, partition int, offset bigint, leader_epoch int, key binary, value binary, "
    "segment string, error string"
)
MAX_FINDINGS = 1_000


def compare_compacted(
    spark: SparkSession,
    options: ReadOptions,
    replicas: Sequence[Replica],
    topics: Sequence[str],
    on_progress: OnProgress = ignore_progress,
) -> list[Finding]:
    options = _with_hwm_only(options, replicas)
    if not options.paths:
        return []
    reader = spark.read.format("insync-log").schema(COLUMNS).option("path", json.dumps(list(options.paths)))
    reader = reader.option("topics", ",".join(topics)).option("corrupt", "rows").option("includeControl", "true")
    if options.brokers:
        reader = reader.option("brokers", ",".join(map(str, options.brokers)))
    rows = reader.load().where(f.col("error").isNull())
    digest = f.xxhash64("key", "value", "leader_epoch")
    copies = f.collect_list(f.struct("broker", digest.alias("digest"), "segment"))
    offsets = rows.groupBy("topic", "partition", "offset").agg(
        f.min(digest).alias("low"), f.max(digest).alias("high"), copies
    )
    differing = offsets.where("low <> high").limit(MAX_FINDINGS)
    different = run_with_progress(spark, "records of compacted topics", differing.collect, on_progress)
    return [_finding(row[0], row[1], row[2], row[5]) for row in different]


def _with_hwm_only(options: ReadOptions, replicas: Sequence[Replica]) -> ReadOptions:
    """Without directories whose high watermarks, and so the committed records, are unknown."""
    unknown = list_directories_without_hwm(replicas)
    kept = [
        index
        for index, path in enumerate(options.paths)
        if not any(root == path or root.startswith(path + os.sep) for root in unknown)
    ]
    brokers = tuple(options.brokers[index] for index in kept) if options.brokers else ()
    return replace(options, paths=tuple(options.paths[index] for index in kept), brokers=brokers)


def _finding(topic: str, partition: int, offset: int, copies: Sequence[tuple[int, int, str]]) -> Finding:
    """`copies` are (broker, digest, segment); the one with the rarest digest is taken to be wrong."""
    digests = [digest for _, digest, _ in copies]
    broker, wrong, segment = min(copies, key=lambda copy: (digests.count(copy[1]), -copy[0]))
    others = [str(other) for other, digest, _ in copies if digest != wrong]
    detail = f"holds another record than broker{'s' if len(others) > 1 else ''} {', '.join(others)} (compacted topic)"
    return Finding(kinds.DIVERGED, "S2", broker, topic, partition, offset, segment, None, detail)
