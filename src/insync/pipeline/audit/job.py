"""Checks the replicas' logs of a cluster, and the histories of its clients, against the protocol's properties.

audited = run(spark, AuditOptions(logs=("/data/node-*",), histories=("history.jsonl",)))
audited.causes              # worst first, each with the first place and the number of places
audited.findings            # the places, each with broker, topic, partition, offset and file
to_frame(spark, audited)    # the same as a DataFrame
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from insync.logdir.options import ReadOptions
from insync.pipeline.audit.findings import DDL, Cause, Finding, group_by_cause
from insync.pipeline.audit.history import HistoryAudit, audit_history, load_history
from insync.pipeline.audit.history_files import check_history
from insync.pipeline.audit.logs import LogAudit, audit_logs, list_all_replicas
from insync.pipeline.executors import run_on
from insync.pipeline.log_directories import check_broker_ids, to_read_options
from insync.pipeline.report.progress import OnProgress, ignore_progress
from insync.pipeline.session import run_command


@dataclass(frozen=True)
class AuditOptions:
    logs: tuple[str, ...] = ()
    """Log directories of brokers; may contain wildcards."""
    histories: tuple[str, ...] = ()
    """JSON lines or Parquet, files or directories."""
    topics: tuple[str, ...] = ()
    """Of the logs; if empty, all but the metadata log."""
    brokers: tuple[int, ...] = ()
    """Broker ids of the directories, if their meta.properties files are missing."""
    compacted: tuple[str, ...] = ()
    """Compacted topics, besides those that the files tell."""


@dataclass
class Audit:
    logs: LogAudit | None = None
    history: HistoryAudit | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def causes(self) -> list[Cause]:
        """The findings grouped by cause, worst first."""
        return group_by_cause(self.findings)

    @property
    def counts(self) -> dict[str, int]:
        """Places by kind."""
        counts: Counter[str] = Counter()
        for finding in self.findings:
            counts[finding.kind] += finding.places
        return dict(counts.most_common())

    def summary(self) -> dict[str, Any]:
        return {
            "logs": None if self.logs is None else self.logs.totals(),
            "history": None if self.history is None else self.history.totals(),
            "findings": self.counts,
        }


def _log_options(options: AuditOptions) -> ReadOptions:
    return to_read_options(options.logs, options.topics, options.brokers)


def check_options(options: AuditOptions) -> None:
    """Raise `OptionError` or `ValueError` for what can be seen without Spark."""
    if options.logs:
        check_broker_ids(options.logs, options.brokers)
        list_all_replicas(_log_options(options))
    for path in options.histories:
        check_history(path)


def run(spark: SparkSession, options: AuditOptions, on_progress: OnProgress = ignore_progress) -> Audit:
    audited = Audit()
    if options.logs:
        audited.logs = audit_logs(_log_options(options), options.compacted, run_on(spark, on_progress))
        audited.findings += audited.logs.findings
    for path in options.histories:
        checked = audit_history(spark, load_history(spark, path), on_progress, name=path)
        audited.history = checked if audited.history is None else audited.history + checked
        audited.findings += checked.findings
    return audited


def to_frame(spark: SparkSession, audited: Audit) -> DataFrame:
    return spark.createDataFrame([tuple(finding) for finding in audited.findings], DDL)


def main(argv: Sequence[str] | None = None) -> None:
    run_command("audit", argv)


if __name__ == "__main__":
    main()
