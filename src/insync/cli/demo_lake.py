"""The Spark part of the demo: archives the topic while the cluster has its bad day, then checks everything.

The archive runs in a thread of this process until the last record is written. Then the ledger is checked against the
brokers and the files, every acknowledged record against the rows of the lake, and the replicas' logs against each
other. The report is made from the metadata log.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from insync import lake
from insync.columnar import decode
from insync.history import history_file
from insync.pipeline.archive import job as archive
from insync.pipeline.archive.job import ArchiveError, ArchiveOptions, Progress
from insync.pipeline.archive.verify import verify_lake
from insync.pipeline.audit import job as audit
from insync.pipeline.health import job as health
from insync.pipeline.health.page import render_page
from insync.pipeline.log_directories import list_log_directories

INTERVAL_S = 0.5
TIMEOUT_S = 120.0
Say = Callable[[str], None]


class DemoLake:
    """Call `start` before the first record, `finish` after the last one, and `check` once the cluster is stopped."""

    def __init__(self, spark: SparkSession, directory: Path, topic: str, report: Path) -> None:
        self.report = report
        self.rows = 0
        """Rows in the ledger."""
        self.duplicated = 0
        """Rows with the offset of another row."""
        self.missing = 0
        """Acknowledged records that are not in the lake."""
        self.problems: list[str] = []
        self._spark = spark
        self._bootstrap = ""
        self._directory = directory
        self._lake = directory / "lake"
        self._topic = topic
        self._has_rows = threading.Event()
        self._stop = threading.Event()
        self._finished_ms = 0
        """The wall clock before the cluster was stopped, which is no trouble and not reported."""
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name="archive", daemon=True)
        decode.warm_up()  # compile once here instead of in every worker

    @property
    def ok(self) -> bool:
        return not (self.duplicated or self.missing or self.problems)

    def start(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._thread.start()

    def wait_for_rows(self) -> None:
        """Wait until the first rows are in the ledger."""
        if not self._has_rows.wait(TIMEOUT_S) and self._error is None:
            raise ArchiveError(f"nothing was archived in {TIMEOUT_S:.0f} s")
        self._raise_error()

    def finish(self, say: Say) -> None:
        """Archive the rest and verify the archive against the brokers, which are still up."""
        self._stop.set()
        self._thread.join()
        self._raise_error()
        self._archive(follow=False)
        verdict = verify_lake(self._lake, self._bootstrap)
        self.problems += verdict.problems
        if verdict.ok:
            files = sum(partition.files for partition in verdict.partitions)
            say(f"Spark has archived {self.rows:,} records in {files} Parquet files; ledger, files and brokers agree")
        self._finished_ms = int(time.time() * 1_000)

    def check(self, say: Say) -> None:
        """Compare the lake with the history and the disks with each other, and write the report."""
        say("the cluster is stopped, so the contents of its three disks can be compared")
        self._compare_with_history()
        self._audit_disks(say)
        self._write_report()

    # --- the archive -------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        try:
            self._archive(follow=True)
        except Exception as error:
            self._error = error
            self._has_rows.set()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def _archive(self, *, follow: bool) -> None:
        before = self.rows

        def on_progress(progress: Progress) -> None:
            self.rows = before + progress.rows
            self._has_rows.set()

        options = ArchiveOptions(
            bootstrap=self._bootstrap,
            lake=str(self._lake),
            topics=(self._topic,),
            follow=follow,
            interval_s=INTERVAL_S,
            roll_interval_s=INTERVAL_S,
        )
        archive.run(self._spark, options, on_progress=on_progress, stop=self._stop if follow else None)

    # --- the checks --------------------------------------------------------------------------------------------------

    def _compare_with_history(self) -> None:
        """By partition and offset, which is what an acknowledgement promises."""
        where = ["topic", "partition", "offset"]
        rows = lake.read(self._spark, self._lake).select(*where)
        events = self._spark.read.schema("kind string, topic string, partition int, offset long").json(
            str(self._directory / "history.jsonl")
        )
        acknowledged = events.where(f"kind = '{history_file.ACK}' and offset >= 0").select(*where)
        self.duplicated = rows.count() - rows.distinct().count()
        self.missing = acknowledged.join(rows, where, "left_anti").count()

    def _audit_disks(self, say: Say) -> None:
        result = audit.run(self._spark, audit.AuditOptions(logs=self._disks()))
        self.problems += [str(cause) for cause in result.causes]
        if result.logs is not None and not result.findings:
            say(f"{result.logs.batches:,} batches agree across replicas: offsets, epochs, checksums, indexes")

    def _write_report(self) -> None:
        self.report.parent.mkdir(parents=True, exist_ok=True)
        self.report.write_text(
            render_page(health.read_health(self._disks(), until_ms=self._finished_ms)), encoding="utf-8"
        )

    def _disks(self) -> tuple[str, ...]:
        return tuple(list_log_directories(str(self._directory / "cluster")))
