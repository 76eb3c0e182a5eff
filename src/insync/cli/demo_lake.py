"""The demo's second half: Spark archives the topic while the cluster has its bad day, then checks everything.

The archive runs in this process, in a thread, from before the first record until after the last one. Then the ledger is
checked against the brokers and the files, every acknowledged record against the rows of the lake, the replicas' logs
against each other; and the metadata log tells what happened to whom.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from insync.columnar import decode
from insync.history import history_file
from insync.pipeline import lake
from insync.pipeline.archive import job as archive
from insync.pipeline.archive import verify as archive_verify
from insync.pipeline.archive.job import ArchiveError, ArchiveOptions, Progress
from insync.pipeline.audit import job as audit
from insync.pipeline.health import job as health
from insync.pipeline.health.page import render

EVERY_S = 0.5
PATIENCE_S = 120.0
Say = Callable[[str], None]


class Aftermath:
    """`start` it before the first record; `while_up` the cluster is, once all is written; and `when_stopped`."""

    def __init__(self, spark: SparkSession, directory: Path, topic: str, report: Path) -> None:
        self.report = report
        self.rows = 0
        """In the ledger."""
        self.twice = 0
        """Rows whose offset another row has too."""
        self.missing = 0
        """Acknowledged records that are not in the lake."""
        self.problems: list[str] = []
        self._spark = spark
        self._bootstrap = ""
        self._directory = directory
        self._lake = directory / "lake"
        self._topic = topic
        self._begun = threading.Event()
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._follow, name="archive", daemon=True)
        decode.warm()  # here, once, and not in every worker while records wait

    @property
    def ok(self) -> bool:
        return not (self.twice or self.missing or self.problems)

    def start(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._thread.start()

    def wait_for_rows(self) -> None:
        """Until the first ones are in the ledger."""
        if not self._begun.wait(PATIENCE_S) and self._error is None:
            raise ArchiveError(f"nothing was archived in {PATIENCE_S:.0f} s")
        self._raise()

    def while_up(self, say: Say) -> None:
        """Archive the rest, and ask the brokers whether that was all."""
        self._stop.set()
        self._thread.join()
        self._raise()
        self._archive(follow=False)
        verdict = archive_verify.verify(self._lake, self._bootstrap)
        self.problems += verdict.problems
        if verdict.ok:
            files = sum(each.files for each in verdict.partitions)
            say(f"Spark has archived {self.rows:,} records in {files} Parquet files; ledger, files and brokers agree")

    def when_stopped(self, say: Say) -> None:
        say("the cluster is stopped: what its three disks hold can be compared")
        self._compare()
        self._audit(say)
        self._tell()

    def figures(self) -> list[tuple[str, str]]:
        return [("archived by Spark", f"{self.rows:,}")]

    # --- the archive -------------------------------------------------------------------------------------------------

    def _follow(self) -> None:
        try:
            self._archive(follow=True)
        except Exception as error:
            self._error = error
            self._begun.set()

    def _raise(self) -> None:
        if self._error is not None:
            raise self._error

    def _archive(self, *, follow: bool) -> None:
        before = self.rows

        def progressed(progress: Progress) -> None:
            self.rows = before + progress.rows
            self._begun.set()

        options = ArchiveOptions(
            bootstrap=self._bootstrap, lake=str(self._lake), topics=(self._topic,), follow=follow, interval_s=EVERY_S
        )
        archive.run(self._spark, options, on_progress=progressed, stop=self._stop if follow else None)

    # --- the checks --------------------------------------------------------------------------------------------------

    def _compare(self) -> None:
        """By partition and offset, which is what an acknowledgement promises."""
        where = ["topic", "partition", "offset"]
        rows = lake.read(self._spark, self._lake).select(*where)
        events = self._spark.read.schema("kind string, topic string, partition int, offset long").json(
            str(self._directory / "history.jsonl")
        )
        acknowledged = events.where(f"kind = '{history_file.ACK}' and offset >= 0").select(*where)
        self.twice = rows.count() - rows.distinct().count()
        self.missing = acknowledged.join(rows, where, "left_anti").count()

    def _audit(self, say: Say) -> None:
        found = audit.run(self._spark, audit.Options(logs=self._disks()))
        self.problems += [str(each) for each in found.findings]
        if found.logs is not None and not found.findings:
            say(f"{found.logs.batches:,} batches on their replicas fit: offsets, epochs, checksums, indexes")

    def _tell(self) -> None:
        found = health.read(self._disks())
        self.report.parent.mkdir(parents=True, exist_ok=True)
        self.report.write_text(render(found), encoding="utf-8")

    def _disks(self) -> tuple[str, ...]:
        return tuple(audit.node_directories(str(self._directory / "cluster")))
