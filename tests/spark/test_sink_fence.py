"""The sink without Spark, on real brokers: each row is stored once, however often its task runs."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest
from sink_data import Planted, delete_records, failing, records, rows

from insync.client.errors import ClientError, UnknownTopicError
from insync.spark import sink_task
from insync.spark.sink_fence import Fenced
from insync.spark.sink_identity import EPOCHS, Fence
from insync.spark.sink_options import SinkOptions
from insync.testing import Cluster

COUNT = 6_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics={"three": 3}) as cluster:
        yield cluster


@pytest.fixture
def options(cluster: Cluster, request: pytest.FixtureRequest) -> SinkOptions:
    topic = re.sub(r"[^a-z_]+", "-", request.node.name)[:100]
    cluster.create_topic(topic, partitions=3)
    return SinkOptions(cluster.bootstrap, topic=topic, batch_bytes=20_000)


def write(options: SinkOptions, batches: Iterator[pa.RecordBatch], batch: int = 0, task: int = 0) -> sink_task.Report:
    return sink_task.write(batches, options, Fence("query", batch), task)


def stored(options: SinkOptions) -> list[bytes]:
    return sorted(record.value for record in records(options.bootstrap, str(options.topic)))


def test_a_task_that_runs_again_writes_nothing(options: SinkOptions) -> None:
    assert write(options, rows(COUNT)).found == 0
    again = write(options, rows(COUNT))
    assert (again.rows, again.found, again.batches) == (COUNT, COUNT, 0)
    assert stored(options) == sorted(b"v%d" % i for i in range(COUNT))


def test_arrow_batches_of_another_size_are_the_same_rows(options: SinkOptions) -> None:
    write(options, rows(COUNT, step=1_000))
    assert write(options, rows(COUNT, step=777)).found == COUNT


def test_a_task_goes_on_where_the_one_before_it_failed(options: SinkOptions) -> None:
    with pytest.raises(Planted):
        write(options, failing(rows(COUNT), options.bootstrap, str(options.topic)))
    half = len(stored(options))
    assert 0 < half < COUNT
    assert write(options, rows(COUNT)).found == half
    assert stored(options) == sorted(b"v%d" % i for i in range(COUNT))


def test_rows_of_other_tasks_and_micro_batches_are_other_rows(options: SinkOptions) -> None:
    write(options, rows(100), batch=0, task=0)
    write(options, rows(100), batch=0, task=1)
    write(options, rows(100), batch=1, task=0)
    write(options, rows(100), batch=EPOCHS + 1, task=0)
    assert len(stored(options)) == 400


def test_a_remnant_of_an_earlier_micro_batch_writes_nothing(options: SinkOptions) -> None:
    write(options, rows(100), batch=4)
    write(options, rows(100), batch=5)
    with pytest.raises(Fenced, match="later micro-batch"):
        write(options, rows(200), batch=4)
    assert len(stored(options)) == 200


def test_rows_that_changed_between_two_runs_are_written_rather_than_lost(options: SinkOptions) -> None:
    with pytest.raises(Planted):
        write(options, failing(rows(COUNT), options.bootstrap, str(options.topic)))
    write(options, rows(COUNT, changed_from=2_000))
    wanted = {b"v%d%s" % (i, b"!" if i >= 2_000 else b"") for i in range(COUNT)}
    once = stored(options)
    assert wanted <= set(once)
    write(options, rows(COUNT, changed_from=2_000))  # and the changed ones are fenced as well
    assert stored(options) == once


def test_what_others_wrote_in_between_does_not_hide_what_is_stored(options: SinkOptions) -> None:
    write(options, rows(50))
    for other in range(3):
        write(options, rows(20_000), task=1 + other)
    assert write(options, rows(50)).found == 50


def test_attempts_that_write_at_the_same_time_store_each_row_once(options: SinkOptions) -> None:
    """As a task on a lost executor and the one that Spark starts in its place."""

    def attempt(step: int) -> None:
        with contextlib.suppress(ClientError):  # whoever finds the other's rows in its way gives up
            write(options, rows(COUNT, step=step))

    attempts = [threading.Thread(target=attempt, args=(step,)) for step in (1_000, 1_000, 700)]
    for each in attempts:
        each.start()
    for each in attempts:
        each.join()
    assert write(options, rows(COUNT)).rows == COUNT
    assert stored(options) == sorted(b"v%d" % i for i in range(COUNT))


def test_rows_that_retention_took_were_there(cluster: Cluster, options: SinkOptions) -> None:
    write(options, rows(100))
    delete_records(options.bootstrap, str(options.topic))
    assert stored(options) == []
    assert write(options, rows(100)).found == 100


def test_a_batch_that_the_topic_does_not_take_is_cut_into_smaller_ones(cluster: Cluster) -> None:
    cluster.create_topic("small-batches", partitions=1, **{"max.message.bytes": "2000"})
    options = SinkOptions(cluster.bootstrap, topic="small-batches")
    assert write(options, rows(1_000)).batches == 1
    assert stored(options) == sorted(b"v%d" % i for i in range(1_000))
    assert write(options, rows(1_000)).found == 1_000


def test_a_record_that_the_topic_does_not_take_names_the_limit(cluster: Cluster) -> None:
    cluster.create_topic("small-records", partitions=1, **{"max.message.bytes": "2000"})
    large = pa.RecordBatch.from_arrays([pa.array([b"x" * 5_000])], ["value"])
    with pytest.raises(ClientError, match="small-records-0 is larger than the topic's max"):
        write(SinkOptions(cluster.bootstrap, topic="small-records"), iter([large]))


def test_a_topic_that_does_not_exist_is_named(cluster: Cluster) -> None:
    with pytest.raises(UnknownTopicError, match="nowhere"):
        write(SinkOptions(cluster.bootstrap, topic="nowhere"), rows(1))


def test_rows_go_where_their_columns_say(cluster: Cluster) -> None:
    cluster.create_topic("column-a", partitions=2)
    cluster.create_topic("column-b", partitions=2)
    table = pa.RecordBatch.from_pydict(
        {
            "topic": ["column-a", "column-b", "column-a"],
            "partition": pa.array([1, 0, None], pa.int32()),
            "key": [b"k", None, None],
            "value": pa.array(["1", "2", None]),
        }
    )
    write(SinkOptions(cluster.bootstrap), iter([table]))
    found = [(r.partition, r.key, r.value) for r in records(cluster.bootstrap, "column-a")]
    assert sorted(found, key=str) == [(0, None, None), (1, b"k", b"1")]
    assert [(r.partition, r.key, r.value) for r in records(cluster.bootstrap, "column-b")] == [(0, None, b"2")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": [b"v"], "partition": pa.array([3], pa.int32())}, "column 'partition' is 3: .* partitions 0 to 2"),
        ({"value": [b"v"], "partition": pa.array([-1], pa.int32())}, "column 'partition' is -1"),
        ({"value": [b"v"], "headers": [[{"key": None, "value": b""}]]}, "column 'headers': a header without a key"),
    ],
)
def test_rows_that_cannot_be_written_name_their_column(
    cluster: Cluster, columns: dict[str, pa.Array], message: str
) -> None:
    options = SinkOptions(cluster.bootstrap, topic="three")
    with pytest.raises(ValueError, match=message):
        write(options, iter([pa.RecordBatch.from_pydict(columns)]))


def test_a_row_without_a_topic_is_refused(cluster: Cluster) -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"v"], "topic": pa.array([None], pa.string())})
    with pytest.raises(ValueError, match="column 'topic' is null"):
        write(SinkOptions(cluster.bootstrap), iter([batch]))
