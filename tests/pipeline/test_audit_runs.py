"""Audits on Spark: replicas against each other, and histories of a million events."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from audit_data import a_batch, a_history, ten_batches, write_replica
from click.testing import Result
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from insync.cli.main import app
from insync.history.history_file import to_line
from insync.pipeline import outputs
from insync.pipeline.audit import job as audit
from insync.pipeline.audit.job import Audit, AuditOptions
from insync.pipeline.outputs import OutputError

pytestmark = pytest.mark.xdist_group("spark")


def audited(spark: SparkSession, root: Path) -> Audit:
    return audit.run(spark, AuditOptions(logs=(str(root / "broker-*"),)))


def test_replicas_that_differ_are_named_by_what_each_holds(spark: SparkSession, tmp_path: Path) -> None:
    """S2: below the lower of their high watermarks; what is above, and how segments are cut, does not matter."""
    batches = ten_batches()
    other, later = list(batches), list(batches)
    other[4] = a_batch(12, word="other", epoch=0)
    later[9] = a_batch(27, word="other", epoch=1)
    write_replica(tmp_path, 1, [batches[:5], batches[5:]])
    write_replica(tmp_path, 2, [other[:2], other[2:]])
    write_replica(tmp_path, 3, [later], hwm=27)
    found = audited(spark, tmp_path)
    [diverged] = found.findings
    assert (diverged.kind, diverged.property, diverged.broker, diverged.offset) == ("diverged", "S2", 2, 12)
    assert diverged.file == str(tmp_path / "broker-2/orders-0/00000000000000000006.log")
    assert "other records at 12, 13, 14" in diverged.detail
    assert found.logs is not None
    assert (found.logs.replicas, found.logs.partitions, found.logs.records) == (3, 1, 90)
    assert audit.to_frame(spark, found).first()["detail"] == diverged.detail


def test_a_replica_of_a_compacted_topic_may_have_dropped_records_but_not_changed_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """S2, record by record; Apache Kafka's cleaner leaves a list of what it compacts."""
    batches = ten_batches()
    changed = list(batches)
    changed[7] = a_batch(21, word="other", epoch=1)
    write_replica(tmp_path, 1, [batches])
    write_replica(tmp_path, 2, [changed[:2] + changed[4:]])
    (tmp_path / "broker-1/cleaner-offset-checkpoint").write_text("0\n1\norders 0 30\n")
    found = audited(spark, tmp_path)
    assert [(each.kind, each.offset) for each in found.findings] == [("diverged", at) for at in (21, 22, 23)]


def test_a_history_in_json_lines_is_judged_and_bad_lines_are_told(spark: SparkSession, tmp_path: Path) -> None:
    events = [*a_history(50), *a_history(40, partition=1)]
    lost = next(each for each in events if each.kind == "log" and each.partition == 1 and each.offset == 17)
    lines = [to_line(each) for each in events if each is not lost]
    file = tmp_path / "history.jsonl"
    file.write_text("".join([*lines, '{"kind": "ack", "time": \n']))
    found = audit.run(spark, AuditOptions(histories=(str(file),)))
    assert found.history is not None
    assert (found.history.partitions, found.history.sent) == (2, 90)
    assert found.counts == {"lost": 2, "inconsistent": 1, "malformed": 1}
    assert {(each.topic, each.partition, each.offset) for each in found.findings} == {("orders", 1, 17), ("", -1, -1)}
    [malformed] = [each for each in found.findings if each.kind == "malformed"]
    said = f'line {len(lines) + 1} is no event: {{"kind": "ack", "time": '
    assert (malformed.file, malformed.detail) == (str(file), said)


def test_what_is_no_event_is_told_by_file_and_line(spark: SparkSession, tmp_path: Path) -> None:
    """Of those that Spark could read as JSON, by file and content."""
    directory = tmp_path / "more than one"
    directory.mkdir()
    good = "".join(map(to_line, a_history(20)))
    (directory / "a.jsonl").write_text(f"not json\n{good}not json\n")
    (directory / "b.jsonl").write_text('{"kind": "ack", "time": 5}\n{"kind": "x", "topic": "orders", "partition": 0}\n')
    found = audit.run(spark, AuditOptions(histories=(str(directory),))).findings
    assert {each.kind for each in found} == {"malformed"}
    told = sorted((Path(each.file).name, each.topic, each.detail.partition(": ")[0]) for each in found)
    assert told == [
        ("a.jsonl", "", "line 1 is no event"),
        ("a.jsonl", "", f"line {len(good.splitlines()) + 2} is no event"),
        ("b.jsonl", "", "an event without a topic or a partition"),
        ("b.jsonl", "orders", "an event of an unknown kind"),
    ]
    assert str(found[0]).startswith("malformed: line 1 is no event: not json (")


def test_a_history_without_events_says_nothing_and_that_is_told(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "empty.jsonl"
    file.touch()
    [found] = audit.run(spark, AuditOptions(histories=(str(file),))).findings
    assert str(found) == f"empty: there is no event in it ({file})"


def test_findings_are_written_over_earlier_findings_and_over_nothing_else(spark: SparkSession, tmp_path: Path) -> None:
    write_replica(tmp_path, 1, [ten_batches()[:9]])
    out = tmp_path / "out put"

    def run(*more: str) -> Result:
        command = ["pipeline", "audit", str(tmp_path / "broker-1"), "--out", str(out), *more]
        return CliRunner().invoke(app, command)

    for _ in range(2):
        assert run().exit_code == 1
        assert [row["kind"] for row in spark.read.parquet(str(out)).collect()] == ["short"]
    assert "1 finding (" in run().stdout
    (out / "notes.txt").write_text("mine")
    refused = run()
    assert (refused.exit_code, "'notes.txt'" in refused.stderr) == (2, True)
    assert (out / "notes.txt").read_text() == "mine"


def test_what_only_spark_can_see_is_never_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    outputs.check_store(spark, "--out", str(tmp_path / "there"))
    with pytest.raises(OutputError, match="--out nowhere://cluster/x: Spark cannot look there: "):
        outputs.check_store(spark, "--out", "nowhere://cluster/x")


def test_a_compacted_topic_is_compared_among_those_whose_high_watermarks_are_known(
    spark: SparkSession, tmp_path: Path
) -> None:
    changed = ten_batches()
    changed[7] = a_batch(21, word="other", epoch=1)
    for broker, batches in ((1, ten_batches()), (2, changed), (3, ten_batches())):
        write_replica(tmp_path, broker, [batches])
    (tmp_path / "broker-3/replication-offset-checkpoint").write_text("garbage")
    found = audit.run(spark, AuditOptions(logs=(str(tmp_path / "broker-*"),), compacted=("orders",))).findings
    assert sorted({each.kind for each in found}) == ["checkpoint", "diverged"]
    assert {each.detail for each in found if each.kind == "diverged"} == {
        "holds another record there than broker 1, in a compacted topic"
    }


def test_one_loss_and_one_duplicate_in_a_million_events_are_named(spark: SparkSession, tmp_path: Path) -> None:
    """S9 and S13, in Parquet of the same columns."""
    write_large_history(tmp_path / "history", partitions=4, records=62_500)
    found = audit.run(spark, AuditOptions(histories=(str(tmp_path / "history"),)))
    assert found.history is not None
    assert found.history.events == 4 * (62_500 * 4 + 1) - 1
    told = sorted({(each.kind, each.partition, each.offset) for each in found.findings})
    assert ("lost", 1, 40_000) in told
    assert ("duplicated", 3, 50_001) in told
    assert {each[1:] for each in told} == {(1, 40_000), (3, 50_001)}


def write_large_history(directory: Path, *, partitions: int, records: int) -> None:
    """Of partition 1 the log lacks offset 40,000; of partition 3 it has offset 3 again at 50,001."""
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


def test_a_history_without_its_columns_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "x.parquet")
    with pytest.raises(ValueError, match="has no column 'kind'"):
        audit.run(spark, AuditOptions(histories=(str(tmp_path / "x.parquet"),)))


def test_a_summary_is_plain_json(spark: SparkSession, tmp_path: Path) -> None:
    write_replica(tmp_path, 1, [ten_batches()])
    found = audited(spark, tmp_path)
    assert json.loads(json.dumps(found.summary()))["logs"]["batches"] == 10
    assert found.findings == []
