"""`insync pipeline compact` on a lake that is being archived to and read."""

from __future__ import annotations

import threading
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from insync import lake
from insync.cli.main import app
from insync.lake.directory import load_ledger
from insync.lake.journal import EntryRemovedError
from insync.pipeline.archive import job as archive
from insync.pipeline.archive.job import ArchiveOptions
from insync.pipeline.archive.verify import verify_lake
from insync.pipeline.compact import job as compact
from insync.pipeline.compact.job import CompactOptions
from insync.pipeline.replay import job as replay
from insync.pipeline.replay.job import ReplayOptions
from insync.pipeline.replay.plan import ReplayError
from insync.testing import Cluster
from tests.pipeline.lake_data import follow_options, numbered, produce, table, values
from tests.polling import wait_until

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def small_files(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Path:
    """A lake with 20 files of 50 rows."""
    path = tmp_path / "lake"
    name = tmp_path.name.replace("_", "-")[:40]
    cluster.create_topic(name)
    produce(cluster.bootstrap, name, numbered(0, 1000))
    options = ArchiveOptions(bootstrap=cluster.bootstrap, lake=str(path), topics=(name,), rows_per_file=50)
    archive.run(spark, options)
    return path


def topic_of(path: Path) -> str:
    return load_ledger(path).partitions()[0][0]


def test_small_files_become_one_and_every_reader_has_every_row_once(
    small_files: Path, spark: SparkSession, cluster: Cluster
) -> None:
    """With a grace period, a frame of before can be read, one of after too, and Spark's own listing shows no row
    twice."""
    before = lake.read(spark, small_files)
    expected = table(small_files, topic_of(small_files))
    summary = compact.run(spark, CompactOptions(lake=str(small_files), grace_s=3600.0))
    assert (summary.merged_files, summary.new_files, summary.rows, summary.deleted) == (20, 1, 1000, [])
    for frame in (before, lake.read(spark, small_files), spark.read.parquet(str(small_files))):
        assert (frame.count(), frame.select("offset").distinct().count()) == (1000, 1000)
    assert before.schema == lake.read(spark, small_files).schema
    assert verify_lake(small_files, cluster.bootstrap).ok
    later = CliRunner().invoke(app, ["pipeline", "compact", "--lake", str(small_files)])
    assert later.exit_code == 0, later.output
    assert "20 replaced files deleted" in later.stdout
    assert spark.read.parquet(str(small_files)).count() == lake.read(spark, small_files).count() == 1000
    report = verify_lake(small_files, cluster.bootstrap)
    assert (report.problems, report.notes, report.partitions[0].files) == ([], [], 1)
    assert table(small_files, topic_of(small_files)).equals(expected)


def test_archiving_and_compaction_at_the_same_time_lose_and_double_nothing(
    spark: SparkSession, cluster: Cluster, tmp_path: Path
) -> None:
    cluster.create_topic("busy", partitions=2)
    produce(cluster.bootstrap, "busy", numbered(0, 100, partitions=2))
    stop = threading.Event()
    options = follow_options(cluster, tmp_path, "busy", rows_per_file=20)
    errors: list[BaseException] = []

    def follow() -> None:
        try:
            archive.run(spark, options, stop=stop)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=follow)
    thread.start()
    merged = 0
    try:
        for n in range(1, 6):
            produce(cluster.bootstrap, "busy", numbered(100 * n, 100 * n + 100, partitions=2))
            wait_until(partial(_has_rows, tmp_path, 100 * n + 1, errors), "rows are archived")
            compacted = CompactOptions(lake=str(tmp_path), min_ranges=2, checkpoint_entries=1, history_s=0.0)
            merged += compact.run(spark, compacted).merged_files
        wait_until(partial(_has_rows, tmp_path, 600, errors), "everything is archived")
    finally:
        stop.set()
        thread.join(60)
    assert errors == []
    assert merged > 20
    assert sorted(values(tmp_path, "busy")) == [b"v%06d" % i for i in range(600)]
    assert verify_lake(tmp_path, cluster.bootstrap).ok


def _has_rows(path: Path, rows: int, errors: list[BaseException]) -> bool:
    """True also once the archiver has failed."""
    try:
        archived = sum(archived.rows for archived in load_ledger(path).ranges())
    except lake.LakeError:
        archived = 0
    return archived >= rows or bool(errors)


@pytest.fixture
def begun_replay(
    small_files: Path, spark: SparkSession, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> ReplayOptions:
    """The options of a replay that was stopped after 300 of 1,000 rows."""
    topic = topic_of(small_files)
    monkeypatch.setattr(replay, "ROWS_PER_ROUND", 300)
    stop = threading.Event()
    options = ReplayOptions(
        bootstrap=cluster.bootstrap, lake=str(small_files), topics={topic: f"{topic}-again"}, create=True
    )
    first = replay.run(spark, options, on_progress=lambda done, total: stop.set(), stop=stop)
    assert (first.rows, first.finished) == (300, False)
    return options


def test_a_replay_continues_after_its_files_were_merged(
    small_files: Path, begun_replay: ReplayOptions, spark: SparkSession, cluster: Cluster
) -> None:
    """What is archived after it began is not replayed, although it is in the same file now."""
    topic = topic_of(small_files)
    produce(cluster.bootstrap, topic, numbered(1000, 1100))
    archived = ArchiveOptions(bootstrap=cluster.bootstrap, lake=str(small_files), topics=(topic,))
    archive.run(spark, archived)
    assert compact.run(spark, CompactOptions(lake=str(small_files))).new_files == 1
    second = replay.run(spark, begun_replay)
    assert (second.rows, second.finished) == (700, True)
    archive.run(spark, ArchiveOptions(bootstrap=cluster.bootstrap, lake=str(small_files), topics=(f"{topic}-again",)))
    assert values(small_files, f"{topic}-again") == [b"v%06d" % i for i in range(1000)]


def test_a_replay_whose_rows_were_removed_says_so(
    small_files: Path, begun_replay: ReplayOptions, spark: SparkSession
) -> None:
    compact.run(spark, CompactOptions(lake=str(small_files), keep_bytes=0))
    with pytest.raises(ReplayError, match=r"offsets 0 to 999 were removed .* --again replays what is left"):
        replay.run(spark, begun_replay)
    compact.run(spark, CompactOptions(lake=str(small_files), checkpoint_entries=1, history_s=0.0))
    with pytest.raises(EntryRemovedError, match="the state before it can no longer be read"):
        replay.run(spark, begun_replay)


def test_mistakes_are_reported_before_spark_starts(small_files: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(app, ["pipeline", "compact", *arguments])
        assert result.exit_code == 2
        return result.stderr

    assert "is not a lake" in run("--lake", str(tmp_path / "nothing"))
    assert "topic 'nowhere' is not in" in run("nowhere", "--lake", str(small_files))
    assert "unknown codec 'rar'" in run("--codec", "rar", "--lake", str(small_files))
    assert "is not a duration" in run("--keep", "soon", "--lake", str(small_files))
