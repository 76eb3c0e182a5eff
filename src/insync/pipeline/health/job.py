"""The health of a cluster's replication, from its metadata log: when replicas were out of sync, and why.

    health = read_health(["/var/lib/kafka/kraft-logs"])   # no Spark needed
    health.tables.spans                                   # Arrow; `to_frames(spark, health)` for DataFrames
    render_page(health)                                   # HTML

The log of one node, controller or broker, is enough: it is the same on all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from insync.pipeline.health import history as kinds
from insync.pipeline.health.history import HistoryBuilder
from insync.pipeline.health.metadata_log import Decision, MetadataLogError, find_metadata_log
from insync.pipeline.health.tables import FLAGS, Tables, make_tables
from insync.pipeline.report.progress import OnProgress, ignore_progress
from insync.pipeline.session import run_command
from insync.pipeline.text import format_time, pluralize

PROGRESS_EVERY = 20_000


class EmptyPeriodError(Exception):
    """The period ends before the log begins."""


@dataclass(frozen=True)
class HealthOptions:
    paths: tuple[str, ...]
    min_isr: int | None = None
    """min.insync.replicas in the brokers' static settings, which the metadata log does not have. The default is 1."""
    until_ms: int | None = None
    """The end of the period; None is the time of the last record."""


@dataclass(frozen=True)
class Health:
    path: Path
    start_ms: int
    end_ms: int
    records: int
    skipped: int
    from_snapshot: bool
    tables: Tables
    open_spans: int
    """How many of the last spans had no end."""

    @property
    def seconds(self) -> float:
        return (self.end_ms - self.start_ms) / 1_000

    def count(self, kind: str, how: str | None = None) -> int:
        events = self.tables.events
        mask = pc.equal(events["kind"], kind)
        if how is not None:
            mask = pc.and_(mask, pc.fill_null(pc.equal(events["how"], how), False))
        return int(pc.sum(mask).as_py() or 0)

    def total(self, column: str) -> float:
        return float(pc.sum(self.tables.partitions[column]).as_py() or 0)

    @cached_property
    def verdict_ms(self) -> int:
        """The end; but if all brokers were stopped at the end, just before the first of them stopped."""
        brokers = self.tables.brokers.to_pylist()
        if any(span["state"] == kinds.UP and to_ms(span["to"]) == self.end_ms for span in brokers):
            return self.end_ms
        last_start = max((to_ms(span["from"]) for span in brokers if span["state"] == kinds.UP), default=self.end_ms)
        ends = [to_ms(span["to"]) for span in brokers if span["state"] == kinds.UP]
        return min((end for end in ends if end >= last_start), default=self.end_ms)

    def count_at_end(self, flag: str) -> int:
        """How many partitions are in that state at the end."""
        spans, at = self.tables.spans, self.verdict_ms
        if at == self.end_ms:
            return int(pc.sum(spans[flag].slice(spans.num_rows - self.open_spans)).as_py() or 0)
        begun = pc.less(spans["from"].cast("int64"), at)
        lasting = pc.greater_equal(spans["to"].cast("int64"), at)
        return int(pc.sum(pc.and_(pc.and_(begun, lasting), spans[flag])).as_py() or 0)

    @property
    def is_sound(self) -> bool:
        """No unclean election, and all partitions are well at the end."""
        return not self.count(kinds.ELECTION, "unclean") and not any(map(self.count_at_end, FLAGS))

    @property
    def verdict(self) -> str:
        unclean = self.count(kinds.ELECTION, "unclean")
        elections = pluralize(unclean, "unclean election")
        problems = [f"{elections}, which may have lost acknowledged records"] if unclean else []
        for flag, state in zip(FLAGS, ("under-replicated", "under MinISR", "without a leader"), strict=True):
            if self.count_at_end(flag):
                problems.append(f"{pluralize(self.count_at_end(flag), 'partition')} {state} at the end")
        if problems:
            return "; ".join(problems)
        return "No unclean election, and at the end every partition has a leader and all its replicas in sync."

    def summary(self) -> dict[str, Any]:
        minutes = max(self.seconds / 60, 1e-9)
        changes = self.count(kinds.SHRINK) + self.count(kinds.EXPAND)
        return {
            "path": str(self.path),
            "from_ms": self.start_ms,
            "to_ms": self.end_ms,
            "records": self.records,
            "partitions": self.tables.partitions.num_rows,
            "under_replicated_s": round(self.total("under_replicated_s"), 3),
            "under_min_isr_s": round(self.total("under_min_isr_s"), 3),
            "offline_s": round(self.total("offline_s"), 3),
            "under_replicated_now": self.count_at_end("under_replicated"),
            "under_min_isr_now": self.count_at_end("under_min_isr"),
            "offline_now": self.count_at_end("offline"),
            "isr_shrinks": self.count(kinds.SHRINK),
            "isr_expands": self.count(kinds.EXPAND),
            "isr_changes_per_minute": round(changes / minutes, 3),
            "elections": self.count(kinds.ELECTION),
            "unclean_elections": self.count(kinds.ELECTION, "unclean"),
            "fencings": self.count(kinds.FENCED),
            "controlled_shutdowns": self.count(kinds.STOPPING),
            "controller_elections": self.count(kinds.CONTROLLER),
            "reassignments": self.count(kinds.MOVE),
        }


def read_health(
    paths: Sequence[str | Path],
    *,
    min_isr: int | None = None,
    until_ms: int | None = None,
    on_progress: OnProgress = ignore_progress,
) -> Health:
    """Replay the longest of the metadata logs in `paths`."""
    log = find_metadata_log(paths)
    history = HistoryBuilder(None if min_isr is None else {"min.insync.replicas": str(min_isr)})
    base = log.read_base()
    if base is not None:
        _check_period(base, until_ms)
        history.begin(base)
    reported = 0
    for decision in log.decisions(0 if base is None else base.offset):
        if history.start_ms < 0:
            _check_period(decision, until_ms)
        if until_ms is not None and decision.time_ms > until_ms:
            break
        history.apply(decision)
        if history.applied >= reported + PROGRESS_EVERY:
            reported = history.applied
            on_progress("records", reported, 0)
    if history.start_ms < 0:
        raise MetadataLogError(f"{log.path} holds no records")
    history.finish(until_ms)
    on_progress("records", history.applied, history.applied)
    return Health(
        log.path,
        history.start_ms,
        history.end_ms,
        history.applied,
        history.skipped,
        base is not None,
        make_tables(history),
        history.open_spans,
    )


def _check_period(first: Decision, until_ms: int | None) -> None:
    if until_ms is not None and until_ms < first.time_ms:
        raise EmptyPeriodError(f"the log begins at {format_time(first.time_ms)}; name a later time")


def to_frames(spark: SparkSession, health: Health) -> dict[str, DataFrame]:
    """`events`, `spans`, `brokers`, `partitions` and `causes`, as in `Tables`."""
    return {name: spark.createDataFrame(table) for name, table in health.tables._asdict().items()}


def run(spark: SparkSession, options: HealthOptions, on_progress: OnProgress = ignore_progress) -> dict[str, DataFrame]:
    health = read_health(options.paths, min_isr=options.min_isr, until_ms=options.until_ms, on_progress=on_progress)
    return to_frames(spark, health)


def to_ms(when: datetime) -> int:
    return round(when.timestamp() * 1_000)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def main(argv: Sequence[str] | None = None) -> None:
    run_command("health", argv)


if __name__ == "__main__":
    main()
