"""Every record is archived once, however often the archive runs and whatever happens to the topic."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from insync import lake
from insync.client import topics
from insync.client.errors import ClientError, UnknownTopicError
from insync.client.sync_client import SyncClient
from insync.lake.ledger import Ledger
from insync.lake.store import LakeError
from insync.pipeline.archive import job as archive
from insync.pipeline.archive.job import ArchiveError, ArchiveOptions
from insync.pipeline.archive.plan import UnarchivedLossError
from insync.pipeline.archive.verify import verify_lake
from insync.testing import Cluster
from tests.pipeline.lake_data import delete_records, follow_options, numbered, produce, table, values

pytestmark = pytest.mark.xdist_group("spark")

DAY_MS = 86_400_000
RunArchive = Callable[..., archive.ArchiveSummary]
"""(topic, changed options as keywords)."""


@pytest.fixture(scope="module")
def client(cluster: Cluster) -> Iterator[SyncClient]:
    with SyncClient(cluster.bootstrap) as connected:
        yield connected


@pytest.fixture
def run(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> RunArchive:
    def run_archive(topic: str, **changes: Any) -> archive.ArchiveSummary:
        options = {"bootstrap": cluster.bootstrap, "lake": str(tmp_path), "topics": (topic,)} | changes
        return archive.run(spark, ArchiveOptions(**options))

    return run_archive


def test_each_run_archives_the_new_records(run: RunArchive, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("runs", partitions=2)
    produce(cluster.bootstrap, "runs", numbered(0, 1000, partitions=2))
    assert run("runs").rows == 1000
    assert run("runs").rows == 0
    produce(cluster.bootstrap, "runs", numbered(1000, 1500, partitions=2))
    assert run("runs").rows == 500
    expected = [b"v%06d" % i for p in range(2) for i in range(p, 1500, 2)]
    assert values(tmp_path, "runs") == expected
    assert verify_lake(tmp_path, cluster.bootstrap).ok


def test_rows_are_complete_and_partitioned_by_date(
    run: RunArchive, spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("dates")
    headers = [("trace", b"\x00\xff"), ("empty", None), ("trace", b"again")]
    first = 20_000 * DAY_MS - 5
    records: list[dict[str, Any]] = [
        {"value": None if i % 3 == 0 else b"v%d" % i, "key": None if i % 5 == 0 else b"", "timestamp": first + i}
        for i in range(10)
    ]
    records += [{"value": b"late", "key": b"k", "timestamp": first, "headers": headers}]
    produce(cluster.bootstrap, "dates", records)
    run("dates")
    directories = sorted(path.name for path in (tmp_path / "topic=dates").iterdir())
    assert directories == ["date=2024-10-03", "date=2024-10-04"]
    rows = table(tmp_path, "dates").to_pylist()
    assert [(row["offset"], row["value"], row["key"]) for row in rows] == [
        (i, record["value"], record["key"]) for i, record in enumerate(records)
    ]
    assert [row["timestamp"].timestamp() * 1000 for row in rows] == [record["timestamp"] for record in records]
    assert rows[-1]["headers"] == [{"key": name, "value": value} for name, value in headers]
    assert {row["timestampType"] for row in rows} == {0}
    frame = lake.read(spark, tmp_path, ["dates"])
    assert frame.groupBy("topic", "date").count().count() == 2
    assert frame.where("date = '2024-10-03'").count() == 6


def test_files_have_at_most_the_given_rows_and_are_sorted(run: RunArchive, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("cut")
    produce(cluster.bootstrap, "cut", numbered(0, 1000))
    summary = run("cut", rows_per_file=300)
    assert [(part.start, part.end) for part in summary.committed] == [(0, 250), (250, 500), (500, 750), (750, 1000)]
    for part in summary.committed:
        (file,) = part.files
        offsets = pq.read_table(tmp_path / file.path, columns=["offset"], partitioning=None).column(0).to_pylist()
        assert offsets == list(range(part.start, part.end))
        assert (file.first, file.last, file.rows) == (part.start, part.end - 1, 250)


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd"])
def test_spark_reads_files_of_every_codec(
    run: RunArchive, spark: SparkSession, cluster: Cluster, tmp_path: Path, codec: str
) -> None:
    cluster.create_topic(f"codec-{codec}")
    produce(cluster.bootstrap, f"codec-{codec}", numbered(0, 100), **{"compression.type": codec})
    run(f"codec-{codec}", codec=codec)
    rows = lake.read(spark, tmp_path).orderBy("offset").select("value").collect()
    assert [bytes(row.value) for row in rows] == [b"v%06d" % i for i in range(100)]


def archive_ten(run: RunArchive, cluster: Cluster, topic: str) -> None:
    """Create the topic and archive its first ten records."""
    cluster.create_topic(topic)
    produce(cluster.bootstrap, topic, numbered(0, 10))
    run(topic)


def test_new_partitions_are_archived_from_their_start(
    run: RunArchive, cluster: Cluster, client: SyncClient, tmp_path: Path
) -> None:
    archive_ten(run, cluster, "grows")
    client.call(lambda cluster: topics.create_partitions(cluster, "grows", 3))
    produce(cluster.bootstrap, "grows", numbered(10, 40, partitions=3))
    run("grows")
    assert sorted(values(tmp_path, "grows")) == [b"v%06d" % i for i in range(40)]
    assert Ledger.load(tmp_path).partitions() == [("grows", 0), ("grows", 1), ("grows", 2)]


def test_a_recreated_topic_is_a_new_generation(
    run: RunArchive, cluster: Cluster, client: SyncClient, tmp_path: Path
) -> None:
    archive_ten(run, cluster, "anew")
    client.call(lambda cluster: topics.delete(cluster, "anew"))
    cluster.create_topic("anew")
    produce(cluster.bootstrap, "anew", numbered(100, 104))
    before = verify_lake(tmp_path, cluster.bootstrap)
    assert not before.ok
    assert "the topic was deleted and recreated" in before.problems[0]
    summary = run("anew")
    assert "the topic was deleted and recreated" in summary.notes[0]
    assert values(tmp_path, "anew", generation=0) == [b"v%06d" % i for i in range(10)]
    assert values(tmp_path, "anew", generation=1) == [b"v%06d" % i for i in range(100, 104)]
    report = verify_lake(tmp_path, cluster.bootstrap)
    assert report.ok
    assert [(part.generation, part.start, part.end) for part in report.partitions] == [(0, 0, 10), (1, 0, 4)]


def test_records_deleted_before_they_were_archived_are_an_error_unless_allowed(
    run: RunArchive, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("lossy")
    produce(cluster.bootstrap, "lossy", numbered(0, 10))
    run("lossy")
    produce(cluster.bootstrap, "lossy", numbered(10, 30))
    delete_records(cluster.bootstrap, "lossy", before=25)
    with pytest.raises(UnarchivedLossError, match=r"offsets 10 to 24 missing.*retention.*--allow-loss"):
        run("lossy")
    assert not verify_lake(tmp_path, cluster.bootstrap).ok
    summary = run("lossy", allow_loss=True)
    assert [(part.start, part.end, bool(part.lost)) for part in summary.committed] == [(10, 25, True), (25, 30, False)]
    report = verify_lake(tmp_path, cluster.bootstrap)
    assert report.ok
    assert report.partitions[0].lost == 15
    assert "retention" in report.notes[0]


def test_the_first_run_starts_where_the_log_starts(run: RunArchive, cluster: Cluster) -> None:
    cluster.create_topic("middle")
    produce(cluster.bootstrap, "middle", numbered(0, 10))
    delete_records(cluster.bootstrap, "middle", before=4)
    summary = run("middle")
    assert [(part.start, part.end, part.lost) for part in summary.committed] == [(4, 10, "")]


def test_follow_continues_until_it_is_stopped(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("follow")
    produce(cluster.bootstrap, "follow", numbered(0, 10))
    stop = threading.Event()
    rows: list[int] = []

    def on_progress(progress: archive.Progress) -> None:
        rows.append(progress.rows)
        if progress.rows == 10:
            produce(cluster.bootstrap, "follow", numbered(10, 25))
        else:
            stop.set()

    options = follow_options(cluster, tmp_path, "follow")
    assert archive.run(spark, options, on_progress=on_progress, stop=stop).rows == 25
    assert rows == [10, 25]


def test_topics_that_match_a_pattern_share_a_lake(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> None:
    for name in ("shop-a", "shop-b", "other"):
        cluster.create_topic(name)
        produce(cluster.bootstrap, name, numbered(0, 5))
    options = ArchiveOptions(bootstrap=cluster.bootstrap, lake=str(tmp_path), pattern="shop-.*")
    assert archive.run(spark, options).rows == 10
    assert [topic for topic, _ in Ledger.load(tmp_path).partitions()] == ["shop-a", "shop-b"]


# --- errors ---------------------------------------------------------------------------------------------------------


def test_wrong_options_are_reported_before_anything_is_written(
    run: RunArchive, spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    with pytest.raises(UnknownTopicError, match="there is no topic 'nowhere'"):
        run("nowhere")
    with pytest.raises(ArchiveError, match="unknown codec 'rar'"):
        run("nowhere", codec="rar")
    with pytest.raises(ArchiveError, match="name topics, or a regular expression"):
        run("nowhere", topics=())
    with pytest.raises(ArchiveError, match="isolation is 'dirty'"):
        run("nowhere", isolation="dirty")
    assert list(tmp_path.iterdir()) == []


def test_brokers_that_do_not_answer_are_reported(run: RunArchive, tmp_path: Path) -> None:
    with pytest.raises(ClientError, match=r"no connection to 127\.0\.0\.1:1"):
        run("any", bootstrap="127.0.0.1:1", timeout_s=1.0)
    assert list(tmp_path.iterdir()) == []


def test_a_lake_that_is_a_file_stays_a_file(run: RunArchive, cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("nofile")
    taken = tmp_path / "taken"
    taken.write_text("mine")
    with pytest.raises(LakeError, match="is a file"):
        run("nofile", lake=str(taken))
    assert taken.read_text() == "mine"


def test_a_failing_round_is_retried_and_then_reported(
    run: RunArchive, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "PAUSE_S", 0.0)
    cluster.create_topic("full")
    produce(cluster.bootstrap, "full", numbered(0, 10))
    (tmp_path / "topic=full").write_text("in the way of the directory")
    with pytest.raises(ArchiveError, match="What was archived before is in the ledger"):
        run("full")
    (tmp_path / "topic=full").unlink()
    assert run("full").rows == 10
