"""The health of a cluster's replication, from its metadata log: who was in sync when, and why not.

    found = read(["/var/lib/kafka/kraft-logs"])         # no Spark needed
    found.tables.spans                                    # Arrow; `frames(spark, found)` for DataFrames
    page(found, "health.html")

Everything is told by the log of one node, controller or broker: it is the same on all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from insync.pipeline.health import history as kinds
from insync.pipeline.health import metadata_log as health_log
from insync.pipeline.health.history import Replay
from insync.pipeline.health.metadata_log import Decision
from insync.pipeline.health.tables import FLAGS, Tables, tables
from insync.pipeline.report import progress as report_watch
from insync.pipeline.wording import counted, when

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TELL_EVERY = 20_000


class TooEarly(Exception):  # noqa: N818  says what happened
    """The history should end before it begins."""


@dataclass(frozen=True)
class Options:
    paths: tuple[str, ...]
    min_isr: int | None = None
    """What the brokers' own settings say; the metadata log knows only what was set in it. Kafka's default is 1."""
    until_ms: int | None = None
    """When the history ends, sooner or later than the last record; without it, with that."""


@dataclass(frozen=True)
class Health:
    path: Path
    start_ms: int
    end_ms: int
    records: int
    skipped: int
    from_snapshot: bool
    tables: Tables
    lasting: int
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
    def judged_ms(self) -> int:
        """The end; or, where every broker was stopped at the end, just before the first of them began to."""
        brokers = self.tables.brokers.to_pylist()
        if any(each["state"] == kinds.UP and to_ms(each["to"]) == self.end_ms for each in brokers):
            return self.end_ms
        last_start = max((to_ms(each["from"]) for each in brokers if each["state"] == kinds.UP), default=self.end_ms)
        ends = [to_ms(each["to"]) for each in brokers if each["state"] == kinds.UP]
        return min((end for end in ends if end >= last_start), default=self.end_ms)

    def now(self, flag: str) -> int:
        """How many partitions are so at the end."""
        spans, at = self.tables.spans, self.judged_ms
        if at == self.end_ms:
            return int(pc.sum(spans[flag].slice(spans.num_rows - self.lasting)).as_py() or 0)
        begun = pc.less(spans["from"].cast("int64"), at)
        lasting = pc.greater_equal(spans["to"].cast("int64"), at)
        return int(pc.sum(pc.and_(pc.and_(begun, lasting), spans[flag])).as_py() or 0)

    @property
    def sound(self) -> bool:
        """No unclean election, and nothing is wrong at the end."""
        return not self.count(kinds.ELECTION, "unclean") and not any(map(self.now, FLAGS))

    @property
    def verdict(self) -> str:
        unclean = self.count(kinds.ELECTION, "unclean")
        elections = counted(unclean, "unclean election")
        wrong = [f"{elections}, which may have lost acknowledged records"] if unclean else []
        for flag, words in zip(FLAGS, ("under-replicated", "under MinISR", "without a leader"), strict=True):
            if self.now(flag):
                wrong.append(f"{counted(self.now(flag), 'partition')} {words} at the end")
        if wrong:
            return "; ".join(wrong)
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
            "under_replicated_now": self.now("under_replicated"),
            "under_min_isr_now": self.now("under_min_isr"),
            "offline_now": self.now("offline"),
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


def read(
    paths: Sequence[str | Path],
    *,
    min_isr: int | None = None,
    until_ms: int | None = None,
    tell: report_watch.Tell = report_watch.silent,
) -> Health:
    """Replay the longest of the metadata logs in `paths`."""
    log = health_log.find(paths)
    replay = Replay(None if min_isr is None else {"min.insync.replicas": str(min_isr)})
    base = log.base()
    if base is not None:
        _not_before(base, until_ms)
        replay.begin(base)
    told = 0
    for decision in log.decisions(0 if base is None else base.offset):
        if replay.start_ms < 0:
            _not_before(decision, until_ms)
        if until_ms is not None and decision.time_ms > until_ms:
            break
        replay.apply(decision)
        if replay.applied >= told + TELL_EVERY:
            told = replay.applied
            tell("records", told, 0)
    if replay.start_ms < 0:
        raise health_log.NoMetadataLog(f"{log.path} holds no records")
    replay.finish(until_ms)
    tell("records", replay.applied, replay.applied)
    return Health(
        log.path,
        replay.start_ms,
        replay.end_ms,
        replay.applied,
        replay.skipped,
        base is not None,
        tables(replay),
        replay.lasting,
    )


def _not_before(first: Decision, until_ms: int | None) -> None:
    if until_ms is not None and until_ms < first.time_ms:
        raise TooEarly(f"the log begins at {when(first.time_ms)}; name a time after that")


def frames(spark: SparkSession, found: Health) -> dict[str, DataFrame]:
    """`events`, `spans`, `brokers`, `partitions` and `causes`, as in `Tables`."""
    return {name: spark.createDataFrame(table) for name, table in found.tables._asdict().items()}


def run(spark: SparkSession, options: Options, tell: report_watch.Tell = report_watch.silent) -> dict[str, DataFrame]:
    return frames(spark, read(options.paths, min_isr=options.min_isr, until_ms=options.until_ms, tell=tell))


def to_ms(when: datetime) -> int:
    return round(when.timestamp() * 1_000)


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def main(argv: Sequence[str] | None = None) -> None:
    from insync.pipeline.session import submitted

    submitted("health", argv)


if __name__ == "__main__":
    main()
