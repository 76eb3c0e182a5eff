"""An audit: the replicas' logs of a cluster, and what its clients wrote down, held against the protocol's properties.

found = run(spark, Options(logs=("/data/node-*",), histories=("history.jsonl",)))
found.findings                     # what may not be, with broker, topic, partition, offset and file
frame(spark, found)                # the same as a DataFrame
"""

from __future__ import annotations

import glob
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from insync.logdir.options import ReadOptions
from insync.pipeline.audit import findings as audit_findings
from insync.pipeline.audit import history as audit_history
from insync.pipeline.audit import history_files as audit_lines
from insync.pipeline.audit import logs as audit_logs
from insync.pipeline.audit.findings import Finding
from insync.pipeline.audit.history import HistoryAudit
from insync.pipeline.audit.logs import LogAudit
from insync.pipeline.report import progress as report_watch
from insync.pipeline.session import submitted
from insync.pipeline.wording import counted
from insync.spark.log_options import read_log_options


@dataclass(frozen=True)
class Options:
    logs: tuple[str, ...] = ()
    """Log directories of brokers; globs are allowed."""
    histories: tuple[str, ...] = ()
    """JSON lines or Parquet, files or directories."""
    topics: tuple[str, ...] = ()
    """Of the logs; all but the metadata log, if none is named."""
    brokers: tuple[int, ...] = ()
    """Whose the directories are, where no meta.properties says."""
    compacted: tuple[str, ...] = ()
    """Topics that are compacted, beside those of which the files say so."""


@dataclass
class Audit:
    logs: LogAudit | None = None
    history: HistoryAudit | None = None
    findings: list[Finding] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(each.kind for each in self.findings).most_common())

    def summary(self) -> dict[str, Any]:
        logs, history = self.logs, self.history
        return {
            "logs": None if logs is None else {name: value for name, value in vars(logs).items() if name != "findings"},
            "history": None
            if history is None
            else {name: value for name, value in vars(history).items() if name != "findings"},
            "findings": self.counts,
        }


def log_options(options: Options) -> ReadOptions:
    values = {"path": json.dumps(list(options.logs)), "topics": ",".join(options.topics)}
    if options.brokers:
        values["brokers"] = ",".join(map(str, options.brokers))
    return read_log_options(values)


def check(options: Options) -> None:
    """What can be seen without Spark: an `OptionError` or a `ValueError` that names what is wrong."""
    if options.logs:
        _an_id_each(options)
        audit_logs.replicas_of(log_options(options))
    for path in options.histories:
        audit_lines.check(path)


def _an_id_each(options: Options) -> None:
    directories = len(log_options(replace(options, brokers=())).paths)
    if options.brokers and len(options.brokers) != directories:
        ids, places = counted(len(options.brokers), "id"), counted(directories, "directory", "directories")
        raise ValueError(f"--brokers {','.join(map(str, options.brokers))}: {ids} for {places}; name one for each")


def run(spark: SparkSession, options: Options, tell: report_watch.Tell = report_watch.silent) -> Audit:
    found = Audit()
    if options.logs:
        found.logs = audit_logs.audit(spark, log_options(options), options.compacted, tell)
        found.findings += found.logs.findings
    for path in options.histories:
        judged = audit_history.audit(spark, audit_history.load(spark, path), tell, name=path)
        found.history = judged if found.history is None else _both(found.history, judged)
        found.findings += judged.findings
    return found


def frame(spark: SparkSession, found: Audit) -> DataFrame:
    return spark.createDataFrame([tuple(each) for each in found.findings], audit_findings.DDL)


def node_directories(path: str) -> list[str]:
    """`path` itself, or the log directories of all nodes of a cluster that `insync` or a test left in it."""
    found = sorted(glob.glob(os.path.join(path, "node-*", "data")))
    return found or [path]


def main(argv: Sequence[str] | None = None) -> None:
    submitted("audit", argv)


def _both(one: HistoryAudit, other: HistoryAudit) -> HistoryAudit:
    return HistoryAudit(**{name: getattr(one, name) + getattr(other, name) for name in vars(one)})


if __name__ == "__main__":
    main()
