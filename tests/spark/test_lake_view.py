"""A topic as one history: a lake and the tail of the log (option `lake`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from insync.client.model import Offset, Partition, Topic
from insync.client.offsets import EARLIEST, LATEST
from insync.lake import directory
from insync.lake.ledger import RANGES, REPLACE, Ledger, Range
from insync.lake.staging import STAGED, publish
from insync.lake.store import LakeError
from insync.lake.writer import RangeWriter
from insync.pipeline.archive import job as archive
from insync.pipeline.archive.job import ArchiveOptions
from insync.spark import lake_task as lake_task_module
from insync.spark.cluster_view import ClusterView
from insync.spark.data_loss import Cause, DataLossError, Loss, report_losses
from insync.spark.lake_task import read_lake, read_log_or_lake
from insync.spark.lake_view import LakeTask, LakeView, plan_lake_tasks
from insync.spark.option_values import OptionError
from insync.spark.planning import OffsetRange
from insync.spark.read_task import ReadTask
from insync.spark.source_options import READ_COMMITTED, SourceOptions, read_source_options
from insync.testing import Cluster
from tests.lake.lake_rows import make_rows
from tests.pipeline.lake_data import delete_records
from tests.spark.spark_data import numbered, produce, read

pytestmark = pytest.mark.xdist_group("spark")

A = UUID(int=1)
KEY = ("t", 0)


# --- planning --------------------------------------------------------------------------------------------------------


class FakeCluster(ClusterView):
    """A partition whose log has the offsets from `earliest` to `latest`."""

    def __init__(self, earliest: int, latest: int, ends: Mapping[int, tuple[int, int]] | None = None) -> None:
        self.earliest, self.latest, self.epoch = earliest, latest, 5 if ends else 0
        self._ends = ends or {}
        partition = Partition(index=0, leader=1, leader_epoch=self.epoch, replicas=(1,), isr=(1,))
        self._topic = Topic(name="t", id=A, partitions=(partition,))

    def describe_topics(self, *, must_exist: bool = True) -> dict[str, Topic]:
        return {"t": self._topic}

    def list_offsets_and_epochs(
        self, times: Mapping[tuple[str, int], int], described: Mapping[str, Topic] | None = None
    ) -> dict[tuple[str, int], Offset]:
        known = {EARLIEST: self.earliest, LATEST: self.latest}
        return {key: Offset(known.get(time, -1), leader_epoch=self.epoch) for key, time in times.items()}

    def find_epoch_end(self, key: tuple[str, int], epoch: int) -> tuple[int, int]:
        return self._ends[epoch]


class FakeView(LakeView, FakeCluster):
    def __init__(self, lake: Path, **log: Any) -> None:
        FakeCluster.__init__(self, **log)
        self._options = SourceOptions(bootstrap="b", lake=str(lake))


class Lake:
    def __init__(self, path: Path) -> None:
        directory.make_lake(path)
        self.path, self.ledger = path, Ledger.load(path)

    def append(self, start: int, end: int, **fields: Any) -> None:
        files = () if "lost" in fields else self.write(start, end)
        self.ledger.commit(RANGES, "me", ranges=[self.make_range(start, end, files=files, **fields)])

    def make_range(self, start: int, end: int, **fields: Any) -> Range:
        rows = sum(file.rows for file in fields["files"])
        return Range(topic="t", topic_id=str(A), partition=0, generation=0, start=start, end=end, rows=rows, **fields)

    def write(self, start: int, end: int, root: str = "") -> tuple[Any, ...]:
        writer = RangeWriter(
            self.path / root, topic="t", partition=0, start=start, end=end, attempt=f"ab-{end}", codec="lz4"
        )
        writer.add(make_rows(start, [1_000 + i for i in range(start, end)]))
        return tuple(writer.close())

    def merge(self) -> None:
        """Replace all ranges by one, and delete their files."""
        end = self.ledger.ranges()[-1].end
        self.ledger.commit(REPLACE, "me", ranges=[self.make_range(0, end, files=self.write(0, end, STAGED))])
        publish(self.ledger, 0.0)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Three ranges of ten rows."""
    made = Lake(tmp_path / "lake")
    for start in (0, 10, 20):
        made.append(start, start + 10, epoch=0, seen=start + 10)
    return made


Parts = list[tuple[int, int]]


def divide(
    lake: Lake, start: int, end: int, *, fail: bool = True, max_records: int | None = None, **log: Any
) -> tuple[Parts, Parts]:
    """(ranges from the lake, ranges from the log)."""
    options = SourceOptions(bootstrap="b", lake=str(lake.path), fail_on_data_loss=fail, max_records=max_records)
    view = FakeView(lake.path, **log)
    tasks, rest = plan_lake_tasks(view, [OffsetRange(*KEY, start, end)], options, ("offset",))
    ranges = [task.range for task in tasks if isinstance(task, LakeTask)]
    return [(part.start, part.end) for part in ranges], [(part.start, part.end) for part in rest]


def test_each_offset_is_read_from_one_of_the_two(lake: Lake) -> None:
    assert divide(lake, 0, 50, earliest=25, latest=50) == ([(0, 30)], [(30, 50)])
    assert divide(lake, 5, 15, earliest=25, latest=50) == ([(5, 15)], [])
    assert divide(lake, 35, 50, earliest=0, latest=50) == ([], [(35, 50)])
    assert divide(lake, 0, 30, earliest=0, latest=50, max_records=15) == ([(0, 15), (15, 30)], [])


def test_offsets_in_neither_are_lost(lake: Lake) -> None:
    with pytest.raises(
        DataLossError, match=r"offsets 30 to 39 missing .* the lake has offsets 0 to 29, .* at offset 40"
    ):
        divide(lake, 0, 50, earliest=40, latest=50)
    assert divide(lake, 0, 50, earliest=40, latest=50, fail=False) == ([(0, 30)], [(40, 50)])
    lake.append(30, 40, lost="retention took them")
    with pytest.raises(DataLossError, match=r"offsets 30 to 39 missing .*does not have them \(retention took them\)"):
        divide(lake, 0, 50, earliest=40, latest=50)


def test_what_the_lake_lost_may_be_in_the_log(lake: Lake) -> None:
    lake.append(30, 40, lost="a mistake")
    lake.append(40, 50)
    assert divide(lake, 0, 60, earliest=0, latest=60) == ([(0, 30), (40, 50)], [(30, 40), (50, 60)])


def test_a_history_that_was_cut_off_is_read_from_the_log(lake: Lake) -> None:
    """The lake has offsets 0 to 29 of epoch 0, which now ends at 22."""
    log: dict[str, Any] = {"earliest": 0, "latest": 50, "ends": {0: (0, 22)}}
    with pytest.raises(DataLossError, match=r"offsets 22 to 29 missing .truncation."):
        divide(lake, 0, 50, **log)
    assert divide(lake, 0, 50, fail=False, **log) == ([(0, 22)], [(22, 50)])


def test_the_earliest_offset_and_times_are_those_of_both(lake: Lake) -> None:
    view = FakeView(lake.path, earliest=25, latest=50)
    assert view.list_offsets({KEY: EARLIEST}) == {KEY: 0}
    assert view.list_offsets({KEY: LATEST}) == {KEY: 50}
    assert view.list_offsets({KEY: 1_012}) == {KEY: 12}
    assert view.list_offsets({KEY: 1_027}) == {KEY: -1}  # the log's answer: it has that part
    lake.ledger.commit(REPLACE, "me", ranges=[lake.make_range(0, 10, files=(), expired="old")])
    assert view.list_offsets({KEY: EARLIEST}) == {KEY: 10}  # the view notices new entries


# --- tasks -----------------------------------------------------------------------------------------------------------


def lake_task(lake: Lake, start: int, end: int, columns: tuple[str, ...] = ("offset",)) -> LakeTask:
    options = SourceOptions(bootstrap="b", lake=str(lake.path))
    view = FakeView(lake.path, earliest=0, latest=100)
    (task,), _ = plan_lake_tasks(view, [OffsetRange(*KEY, start, end)], options, columns)
    assert isinstance(task, LakeTask)
    return task


def offsets_of(batches: Iterable[Any]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_task_reads_its_range_and_its_columns(lake: Lake) -> None:
    (batch,) = read_lake(lake_task(lake, 13, 17, ("value", "topic", "partition", "offset", "headers")))
    assert batch.to_pylist()[0] == {"value": b"v13", "topic": "t", "partition": 0, "offset": 13, "headers": None}
    assert batch.column("offset").to_pylist() == [13, 14, 15, 16]
    assert sum(batch.num_rows for batch in read_lake(lake_task(lake, 3, 27, ()))) == 24


def test_a_compaction_while_a_task_reads_changes_nothing(lake: Lake) -> None:
    task = lake_task(lake, 5, 30)
    rows = read_lake(task)
    first = next(rows).column("offset").to_pylist()
    lake.merge()
    assert first + offsets_of(rows) == list(range(5, 30))
    assert offsets_of(read_lake(task)) == list(range(5, 30))  # an attempt from the start


def test_rows_that_are_gone_are_an_error(lake: Lake) -> None:
    task = lake_task(lake, 5, 30)
    lake.ledger.commit(REPLACE, "me", ranges=[lake.make_range(0, 10, files=(), expired="old")])
    publish(lake.ledger, 0.0)
    with pytest.raises(LakeError, match="offsets 5 to 29: rows were removed"):
        list(read_lake(task))
    missing = lake_task(lake, 10, 30)
    (lake.path / next(iter(lake.ledger.files()))).unlink()
    with pytest.raises(LakeError, match="is missing"):
        list(read_lake(missing))


class FakeTaskReader:
    """A log whose records below `log_start` were deleted after the plan was made."""

    log_start = 0

    def __init__(self, task: ReadTask, client: object) -> None:
        self._task, self.position = task, task.range.start

    def batches(self) -> Iterator[pa.RecordBatch]:
        while self.position < self._task.range.end:
            if self.position < self.log_start:
                loss = Loss(Cause.RETENTION, *KEY, self.position, self.log_start, self.log_start, "deleted")
                report_losses((loss,), fail=self._task.options.fail_on_data_loss)
                self.position = min(self.log_start, self._task.range.end)
                continue
            self.position += 1
            yield pa.RecordBatch.from_pydict({"offset": [self.position - 1]})


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> type[FakeTaskReader]:
    monkeypatch.setattr(lake_task_module, "TaskReader", FakeTaskReader)
    monkeypatch.setattr(lake_task_module, "client_for", lambda options: None)
    monkeypatch.setattr(lake_task_module, "read_task", lambda task: FakeTaskReader(task, None).batches())
    return FakeTaskReader


@pytest.mark.parametrize("fail", [True, False])
def test_what_the_log_lost_after_planning_comes_from_the_lake(
    lake: Lake, log: type[FakeTaskReader], monkeypatch: pytest.MonkeyPatch, *, fail: bool
) -> None:
    options = SourceOptions(bootstrap="b", lake=str(lake.path), fail_on_data_loss=fail)
    task = ReadTask(OffsetRange(*KEY, 15, 50), options, ("offset",), topic_id=str(A))
    monkeypatch.setattr(log, "log_start", 25)
    assert offsets_of(read_log_or_lake(task)) == list(range(15, 50))
    monkeypatch.setattr(log, "log_start", 40)  # the lake ends at 30
    if fail:
        with pytest.raises(DataLossError, match="offsets 30 to 39 missing"):
            list(read_log_or_lake(task))
    else:
        assert offsets_of(read_log_or_lake(task)) == [*range(15, 30), *range(40, 50)]


# --- options ---------------------------------------------------------------------------------------------------------


def test_the_isolation_level_is_the_lakes(lake: Lake, tmp_path: Path) -> None:
    given = {"kafka.bootstrap.servers": "h:1", "subscribe": "t", "lake": str(lake.path)}
    assert read_source_options(given, streaming=False).isolation == READ_COMMITTED
    with pytest.raises(OptionError, match=r"'kafka.isolation.level' is 'read_uncommitted': the lake was archived with"):
        read_source_options({**given, "kafka.isolation.level": "read_uncommitted"}, streaming=False)
    with pytest.raises(OptionError, match=r"option 'lake' is .*nothing.* is not a lake"):
        read_source_options({**given, "lake": str(tmp_path / "nothing")}, streaming=False)


# --- Spark -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def archived(spark: SparkSession, spark_cluster: Cluster, tmp_path: Path) -> Callable[[str], Path]:
    def run(topic: str) -> Path:
        options = ArchiveOptions(bootstrap=spark_cluster.bootstrap, lake=str(tmp_path / topic), topics=(topic,))
        archive.run(spark, options)
        return tmp_path / topic

    return run


def rows_of(frame: DataFrame) -> list[Row]:
    return frame.orderBy("partition", "offset").collect()


def test_a_batch_is_the_lake_and_the_tail_of_the_log(
    spark: SparkSession, spark_cluster: Cluster, archived: Callable[[str], Path]
) -> None:
    """Rows and schema are those that the source had before the log's beginning was deleted."""
    bootstrap = spark_cluster.bootstrap
    spark_cluster.create_topic("both")
    produce(bootstrap, "both", numbered(0, 300))
    path = archived("both")
    produce(bootstrap, "both", numbered(300, 500))
    options = {"subscribe": "both", "includeHeaders": "true"}
    whole = read(spark, bootstrap, options)
    before = rows_of(whole)
    delete_records(bootstrap, "both", before=250)
    frame = read(spark, bootstrap, {**options, "lake": str(path)})
    assert frame.schema == whole.schema
    assert rows_of(frame) == before
    assert len(before) == 500
    start = {**options, "lake": str(path), "startingOffsets": '{"both": {"0": 120}}'}
    assert frame.where("offset >= 120").count() == read(spark, bootstrap, start).count() == 380
    assert frame.select("offset").distinct().count() == 500
    delete_records(bootstrap, "both", before=400)
    with pytest.raises(Exception, match=r"offsets 300 to 399 missing .*the lake has offsets 0 to 299"):
        read(spark, bootstrap, {**options, "lake": str(path)}).count()
    rest = read(spark, bootstrap, {**options, "lake": str(path), "failOnDataLoss": "false"})
    assert [row.offset for row in rows_of(rest)] == [*range(300), *range(400, 500)]


def test_a_stream_begins_with_the_lake_and_goes_on_with_the_log(
    spark: SparkSession, spark_cluster: Cluster, archived: Callable[[str], Path], tmp_path: Path
) -> None:
    bootstrap = spark_cluster.bootstrap
    spark_cluster.create_topic("tail")
    produce(bootstrap, "tail", numbered(0, 300))
    path = archived("tail")
    delete_records(bootstrap, "tail", before=250)
    produce(bootstrap, "tail", numbered(300, 400))
    options = {
        "kafka.bootstrap.servers": bootstrap,
        "subscribe": "tail",
        "lake": str(path),
        "maxOffsetsPerTrigger": "150",
    }

    def run() -> list[bytes]:
        stream = spark.readStream.format("insync").options(**options).load()
        query = (
            stream.writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .option("path", str(tmp_path / "out"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return sorted(bytes(row.value) for row in spark.read.parquet(str(tmp_path / "out")).select("value").collect())

    assert run() == numbered(0, 400)
    produce(bootstrap, "tail", numbered(400, 450))
    archived("tail")
    delete_records(bootstrap, "tail", before=450)  # while the query was stopped: the lake has them
    produce(bootstrap, "tail", numbered(450, 460))
    assert run() == numbered(0, 460)
