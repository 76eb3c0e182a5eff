"""`insync pipeline mirror` between two clusters, on Spark; `--verify` names every planted difference once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from insync.cli.main import app
from insync.testing import Cluster
from tests.pipeline.lake_data import delete_records, produce

pytestmark = pytest.mark.xdist_group("spark")

FIRST_MS = 1_700_000_000_000
HEADERS = [("trace", b"\x00\xff"), ("none", None)]


@pytest.fixture(scope="module")
def source() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


@pytest.fixture(scope="module")
def target() -> Iterator[Cluster]:
    with Cluster(brokers=1) as running:
        yield running


def invoke(source: Cluster, target: Cluster, state: Path, *arguments: str) -> Result:
    options = ["--bootstrap", source.bootstrap, "--to", target.bootstrap, "--state", str(state), "--json"]
    return CliRunner().invoke(app, ["pipeline", "mirror", *arguments, *options])


def run(source: Cluster, target: Cluster, state: Path, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    result = invoke(source, target, state, *arguments)
    assert result.exit_code == exit_code, result.output
    output: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return output


def records(count: int, *, partitions: int = 1) -> list[dict[str, Any]]:
    made = [
        {"key": b"k%d" % i, "value": b"v%d" % i, "partition": i % partitions, "timestamp": FIRST_MS + i * 1_000}
        for i in range(count)
    ]
    for i in range(0, count, 10):
        made[i]["headers"] = HEADERS
    for i, changes in ((3, {"key": None}), (4, {"value": None}), (5, {"key": b"", "value": b""})):
        if i < count:
            made[i].update(changes)
    return made


def commit(cluster: Cluster, group: str, topic: str, offset: int, partition: int = 0) -> None:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, partition, offset)], asynchronous=False)
    consumer.close()


def read_committed(cluster: Cluster, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group})
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return committed.offset


def test_topics_records_and_group_offsets_are_mirrored(
    spark: SparkSession, source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    source.create_topic("orders", partitions=2, retention_ms=-1)
    produce(source.bootstrap, "orders", records(200, partitions=2))
    delete_records(source.bootstrap, "orders", before=30)
    produce(source.bootstrap, "orders", records(2_000, partitions=2), **{"compression.type": "lz4"})
    commit(source, "readers", "orders", 500)
    summary = run(source, target, tmp_path, "orders=copy")
    assert (summary["rows"], summary["finished"]) == (2_170, True)
    assert summary["groups"] == {"readers": {"copy-0": 470}}
    assert summary["notes"] == ["orders-0 begins at offset 30: what was before is no longer in the source"]
    assert read_committed(target, "readers", "copy") == 470
    compared = run(source, target, tmp_path, "orders=copy", "--verify")
    assert (compared["equal"], [partition["records"] for partition in compared["partitions"]]) == (True, [1_070, 1_100])

    produce(source.bootstrap, "orders", records(10, partitions=2))
    behind = run(source, target, tmp_path, "orders=copy", "--verify", exit_code=1)
    assert [difference["kind"] for difference in behind["differences"]] == ["missing", "missing"]
    assert run(source, target, tmp_path, "orders=copy")["rows"] == 10

    refused = invoke(source, target, tmp_path / "other", "orders=copy")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "copy-0 of the target has records already, and the state knows of no mirror into it" in refused.stderr


def test_every_planted_difference_is_named_once(
    spark: SparkSession, source: Cluster, target: Cluster, tmp_path: Path
) -> None:
    """One partition for each kind of difference between records."""
    plain = records(60)
    changed = {name: [dict(record) for record in plain] for name in ("key", "value", "headers", "timestamp")}
    changed["key"][30]["key"] = b"other"
    changed["value"][31]["value"] = None
    changed["headers"][40]["headers"] = [("trace", b"\x00\xff"), ("none", b"")]
    changed["timestamp"][33]["timestamp"] += 1
    planted = [
        plain,
        plain[:17] + plain[18:],
        [*plain[:25], plain[24], *plain[25:]],
        [*plain[:9], {**plain[9], "value": b"new"}, *plain[9:]],
        [*plain[:20], plain[21], plain[20], *plain[22:]],
        *changed.values(),
    ]
    source.create_topic("diff", partitions=len(planted))
    target.create_topic("diff", partitions=len(planted), retention_ms=5_000_000_000)
    partitions = range(len(planted))
    produce(source.bootstrap, "diff", [{**record, "partition": n} for n in partitions for record in plain])
    produce(target.bootstrap, "diff", [{**record, "partition": n} for n in partitions for record in planted[n]])
    source.create_topic("diff-absent")
    source.create_topic("diff-fewer", partitions=3)
    target.create_topic("diff-fewer", partitions=2)
    target.create_topic("diff-only-there")
    for group, partition, offset, target_offset in (
        ("equal", 0, 40, 40),
        ("shifted", 1, 40, 39),  # the same record: one before it is missing
        ("behind", 0, 40, 30),
        ("ahead", 0, 40, 50),
    ):
        commit(source, group, "diff", offset, partition)
        commit(target, group, "diff", target_offset, partition)
    commit(source, "absent", "diff", 12)

    compared = run(source, target, tmp_path, "--pattern", "diff.*", "--verify", exit_code=1)
    texts = [f"{difference['kind']}: {difference['text']}" for difference in compared["differences"]]
    expected = [
        "topic: topic 'diff-absent' is missing in the target",
        "topic: topic 'diff-only-there' is in the target only",
        "partitions: topic 'diff-fewer' has 3 partitions in the source and 2 in the target",
        "config: topic 'diff': retention.ms is '604800000' in the source and '5000000000' in the target",
        "missing: diff-1: offset 17 of the source is missing in the target",
        "doubled: diff-2: offset 25 of the target repeats a record of the source",
        "added: diff-3: offset 9 of the target is not in the source",
        "reordered: diff-4: offset 21 of the source is out of order: offset 20 of the target",
        "changed: diff-5: offset 30 of the source, offset 30 of the target: key changed",
        "changed: diff-6: offset 31 of the source, offset 31 of the target: value changed",
        "changed: diff-7: offset 40 of the source, offset 40 of the target: headers changed",
        "changed: diff-8: offset 33 of the source, offset 33 of the target: timestamp changed",
        "group: group 'absent' on diff-0: offset 12 of the source is 12 in the target, where none is committed",
        "group: group 'behind' on diff-0: offset 40 of the source is 40 in the target, where 30 is committed: "
        "10 offsets would be read again",
        "group: group 'ahead' on diff-0: offset 40 of the source is 40 in the target, where 50 is committed: "
        "10 offsets would be skipped",
    ]
    assert Counter(texts) == Counter(expected)
