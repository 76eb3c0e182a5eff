"""Audits on Spark: comparing replicas, and checking histories of a million events."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from insync.cli.main import app
from insync.history.history_file import to_line
from insync.pipeline import outputs
from insync.pipeline.audit import history, logs
from insync.pipeline.audit import job as audit
from insync.pipeline.audit.job import Audit, AuditOptions
from insync.pipeline.outputs import OutputError
from tests.pipeline.audit_data import make_batch, make_history, ten_batches, write_replica
from tests.pipeline.cluster_directories import make_cluster, overwrite, read_batches
from tests.pipeline.planted_damage.catalogue import DAMAGES

pytestmark = pytest.mark.xdist_group("spark")


def audit_logs(spark: SparkSession, root: Path) -> Audit:
    return audit.run(spark, AuditOptions(logs=(str(root / "broker-*"),)))


def test_the_finding_says_what_differing_replicas_hold(spark: SparkSession, tmp_path: Path) -> None:
    """S2: only below the lower of their high watermarks, and wherever segments begin."""
    batches = ten_batches()
    other, later = list(batches), list(batches)
    other[4] = make_batch(12, word="other", epoch=0)
    later[9] = make_batch(27, word="other", epoch=1)
    write_replica(tmp_path, 1, [batches[:5], batches[5:]])
    write_replica(tmp_path, 2, [other[:2], other[2:]])
    write_replica(tmp_path, 3, [later], hwm=27)
    report = audit_logs(spark, tmp_path)
    [diverged] = report.findings
    assert (diverged.kind, diverged.property, diverged.broker, diverged.offset) == ("diverged", "S2", 2, 12)
    assert diverged.file == str(tmp_path / "broker-2/orders-0/00000000000000000006.log")
    assert "different records at 12, 13, 14" in diverged.detail
    assert report.logs is not None
    assert (report.logs.replicas, report.logs.partitions, report.logs.records) == (3, 1, 90)
    assert [row.detail for row in audit.to_frame(spark, report).collect()] == [diverged.detail]


def test_replicas_of_a_compacted_topic_may_drop_records_but_not_change_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """S2, record by record. Apache Kafka's cleaner lists what it compacts."""
    batches = ten_batches()
    changed = list(batches)
    changed[7] = make_batch(21, word="other", epoch=1)
    write_replica(tmp_path, 1, [batches])
    write_replica(tmp_path, 2, [changed[:2] + changed[4:]])
    (tmp_path / "broker-1/cleaner-offset-checkpoint").write_text("0\n1\norders 0 30\n")
    report = audit_logs(spark, tmp_path)
    assert [(finding.kind, finding.offset) for finding in report.findings] == [
        ("diverged", offset) for offset in (21, 22, 23)
    ]


def test_a_history_in_json_lines_is_checked_and_malformed_lines_are_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    events = [*make_history(50), *make_history(40, partition=1)]
    lost = next(event for event in events if event.kind == "log" and event.partition == 1 and event.offset == 17)
    lines = [to_line(event) for event in events if event is not lost]
    file = tmp_path / "history.jsonl"
    file.write_text("".join([*lines, '{"kind": "ack", "time": \n']))
    report = audit.run(spark, AuditOptions(histories=(str(file),)))
    assert report.history is not None
    assert (report.history.partitions, report.history.sent) == (2, 90)
    assert report.counts == {"lost": 2, "inconsistent": 1, "malformed": 1}
    assert {(finding.topic, finding.partition, finding.offset) for finding in report.findings} == {
        ("orders", 1, 17),
        ("", -1, -1),
    }
    [malformed] = [finding for finding in report.findings if finding.kind == "malformed"]
    detail = f'line {len(lines) + 1} is not an event: {{"kind": "ack", "time": '
    assert (malformed.file, malformed.detail) == (str(file), detail)


def test_malformed_lines_are_reported_with_file_and_line(spark: SparkSession, tmp_path: Path) -> None:
    """Lines that Spark could read as JSON are reported with file and content."""
    directory = tmp_path / "more than one"
    directory.mkdir()
    good = "".join(map(to_line, make_history(20)))
    (directory / "a.jsonl").write_text(f"not json\n{good}not json\n")
    (directory / "b.jsonl").write_text('{"kind": "ack", "time": 5}\n{"kind": "x", "topic": "orders", "partition": 0}\n')
    findings = audit.run(spark, AuditOptions(histories=(str(directory),))).findings
    assert {finding.kind for finding in findings} == {"malformed"}
    reported = sorted(
        (Path(finding.file).name, finding.topic, finding.detail.partition(": ")[0]) for finding in findings
    )
    assert reported == [
        ("a.jsonl", "", "line 1 is not an event"),
        ("a.jsonl", "", f"line {len(good.splitlines()) + 2} is not an event"),
        ("b.jsonl", "", "an event without a topic or a partition"),
        ("b.jsonl", "orders", "an event of an unknown kind"),
    ]
    assert str(findings[0]).startswith("malformed: line 1 is not an event: not json (")


def test_a_history_without_events_is_a_finding(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.touch()
    [finding] = audit.run(spark, AuditOptions(histories=(str(file),))).findings
    assert str(finding) == f"empty: there is no event in it ({file})"


def test_findings_overwrite_earlier_findings_and_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    write_replica(tmp_path, 1, [ten_batches()[:9]])
    out = tmp_path / "out put"

    def run() -> Result:
        return CliRunner().invoke(app, ["pipeline", "audit", str(tmp_path / "broker-1"), "--out", str(out)])

    for _ in range(2):
        assert run().exit_code == 1
        assert [row["kind"] for row in spark.read.parquet(str(out)).collect()] == ["short"]
    assert "1 finding (" in run().stdout
    (out / "notes.txt").write_text("mine")
    refused = run()
    assert (refused.exit_code, "'notes.txt'" in refused.stderr) == (2, True)
    assert (out / "notes.txt").read_text() == "mine"


def test_a_store_that_spark_cannot_access_is_reported(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    outputs.check_store(spark, "--out", str(tmp_path / "there"))
    with pytest.raises(OutputError, match="--out nowhere://cluster/x: Spark cannot access it: "):
        outputs.check_store(spark, "--out", "nowhere://cluster/x")


def test_compacted_replicas_are_compared_if_their_high_watermarks_are_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    changed = ten_batches()
    changed[7] = make_batch(21, word="other", epoch=1)
    for broker, batches in ((1, ten_batches()), (2, changed), (3, ten_batches())):
        write_replica(tmp_path, broker, [batches])
    (tmp_path / "broker-3/replication-offset-checkpoint").write_text("garbage")
    findings = audit.run(spark, AuditOptions(logs=(str(tmp_path / "broker-*"),), compacted=("orders",))).findings
    assert sorted({finding.kind for finding in findings}) == ["checkpoint", "diverged"]
    assert {finding.detail for finding in findings if finding.kind == "diverged"} == {
        "holds another record than broker 1 (compacted topic)"
    }


def test_one_loss_and_one_duplicate_in_a_million_events_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """S9 and S13, in Parquet of the same columns."""
    write_large_history(tmp_path / "history", partitions=4, records=62_500)
    report = audit.run(spark, AuditOptions(histories=(str(tmp_path / "history"),)))
    assert report.history is not None
    assert report.history.events == 4 * (62_500 * 4 + 1) - 1
    reported = sorted({(finding.kind, finding.partition, finding.offset) for finding in report.findings})
    assert ("lost", 1, 40_000) in reported
    assert ("duplicated", 3, 50_001) in reported
    assert {finding[1:] for finding in reported} == {(1, 40_000), (3, 50_001)}


def test_partitions_that_are_divided_have_the_same_findings(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S9 and S13: a task has a part of a partition, and what spans parts is known from their summaries."""
    write_large_history(tmp_path / "history", partitions=4, records=62_500)
    monkeypatch.setattr(history, "PART_EVENTS", 1_000)
    monkeypatch.setattr(history, "PART_OFFSETS", 20_000)
    report = audit.run(spark, AuditOptions(histories=(str(tmp_path / "history"),)))
    assert report.history is not None
    assert (report.history.events, report.history.partitions) == (4 * (62_500 * 4 + 1) - 1, 4)
    assert report.history.sent == report.history.acked == 4 * 62_500
    reported = {(finding.kind, finding.partition, finding.offset) for finding in report.findings}
    assert {("lost", 1, 40_000), ("duplicated", 3, 50_001)} <= reported
    assert {finding[1:] for finding in reported} == {(1, 40_000), (3, 50_001)}


def write_large_history(directory: Path, *, partitions: int, records: int) -> None:
    """The log of partition 1 lacks offset 40,000; that of partition 3 has offset 3 again at 50,001."""
    directory.mkdir()
    for partition in range(partitions):
        offset = np.arange(records, dtype=np.int64)
        columns = {"producer": offset % 2, "sequence": offset // 2, "crc": offset * 2_654_435_761 % 2**32}
        parts = []
        for kind, time, own in (
            ("send", offset * 10, {"offset": np.full(records, -1)}),
            ("ack", offset * 10 + 1, {"offset": offset}),
            ("read", offset * 10 + 2, {"offset": offset, "epoch": np.full(records, 1)}),
            ("log", offset + records * 20, {"offset": offset, "epoch": np.full(records, 1)}),
        ):
            values = {"epoch": np.full(records, -1)} | columns | own
            if kind == "log" and partition == 3:
                values = {name: np.where(offset == 50_001, column[3], column) for name, column in values.items()}
                values["offset"] = offset
            parts.append(_events(kind, time, values, partition))
        if partition == 1:
            parts[-1] = parts[-1].filter(pa.array(offset != 40_000))
        parts.append(_events("end", np.array([records * 30]), {"offset": np.array([records])}, partition))
        pq.write_table(pa.concat_tables(parts, promote_options="default"), directory / f"{partition}.parquet")


def _events(kind: str, time: np.ndarray, values: dict[str, np.ndarray], partition: int) -> pa.Table:
    rows = len(time)
    same = {"kind": kind, "client": "c", "topic": "orders"}
    columns = {name: pa.repeat(value, rows) for name, value in same.items()}
    columns["partition"] = pa.repeat(pa.scalar(partition, pa.int32()), rows)
    return pa.table(columns | {"time": time} | {"epoch": np.full(rows, 1)} | values)


def test_a_history_without_a_required_column_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="has no column 'kind'"):
        audit.run(spark, AuditOptions(histories=(str(tmp_path / "x.parquet"),)))


def test_the_summary_can_be_written_as_json(spark: SparkSession, tmp_path: Path) -> None:
    write_replica(tmp_path, 1, [ten_batches()])
    report = audit_logs(spark, tmp_path)
    assert json.loads(json.dumps(report.summary()))["logs"]["batches"] == 10
    assert report.findings == []


def test_findings_on_spark_are_those_of_an_audit_without_it(spark: SparkSession, tmp_path: Path) -> None:
    """Damage of several kinds at once, in directories of our nodes and Apache Kafka's."""
    cluster = make_cluster(tmp_path / "cluster", seed=1)
    assert set(cluster.layouts.values()) == {"ours", "apache"}
    names = ("a flipped bit in a record", "a removed replica directory that checkpoints name", "an old quorum-state")
    for number, name in enumerate(names):
        DAMAGES[name](cluster, random.Random(number))
    changed = read_batches(cluster.segments(1, "compacted")[-1])
    changed[-1][-1] ^= 1
    overwrite(cluster.segments(1, "compacted")[-1], b"".join(changed))
    on_spark = audit.run(spark, AuditOptions(logs=cluster.options().paths))
    assert on_spark.findings == logs.audit_logs(cluster.options()).findings
    assert [cause.kind for cause in on_spark.causes] == ["missing", "crc", "crc", "quorum"]
