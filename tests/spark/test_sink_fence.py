"""The sink without Spark, on real brokers: each row is stored once, however often its task runs."""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator

import pyarrow as pa
import pytest

from insync.client.errors import ClientError, UnknownTopicError
from insync.spark.sink import task_writer
from insync.spark.sink.fence import EPOCHS, Fence
from insync.spark.sink.options import SinkOptions
from insync.spark.sink.stored_rows import FencedError
from insync.testing import Cluster
from tests.spark.sink_data import InjectedError, delete_records, fail_midway, read_records, rows

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


def write(
    options: SinkOptions, batches: Iterator[pa.RecordBatch], batch: int = 0, task: int = 0
) -> task_writer.WriteReport:
    return task_writer.write(batches, options, Fence("query", batch), task)


def stored(options: SinkOptions) -> list[bytes]:
    return sorted(record.value or b"" for record in read_records(options.bootstrap, str(options.topic)))


def test_a_repeated_task_writes_nothing(options: SinkOptions) -> None:
    assert write(options, rows(COUNT)).already_stored == 0
    repeated = write(options, rows(COUNT))
    assert (repeated.rows, repeated.already_stored, repeated.batches) == (COUNT, COUNT, 0)
    assert stored(options) == sorted(b"v%d" % i for i in range(COUNT))


def test_rows_are_recognised_in_arrow_batches_of_another_size(options: SinkOptions) -> None:
    write(options, rows(COUNT, step=1_000))
    assert write(options, rows(COUNT, step=777)).already_stored == COUNT


def test_a_retried_task_continues_where_the_failed_attempt_stopped(options: SinkOptions) -> None:
    with pytest.raises(InjectedError):
        write(options, fail_midway(rows(COUNT), options.bootstrap, str(options.topic)))
    half = len(stored(options))
    assert 0 < half < COUNT
    assert write(options, rows(COUNT)).already_stored == half
    assert stored(options) == sorted(b"v%d" % i for i in range(COUNT))


def test_rows_of_other_tasks_and_micro_batches_are_stored_too(options: SinkOptions) -> None:
    write(options, rows(100), batch=0, task=0)
    write(options, rows(100), batch=0, task=1)
    write(options, rows(100), batch=1, task=0)
    write(options, rows(100), batch=EPOCHS + 1, task=0)
    assert len(stored(options)) == 400


def test_a_leftover_task_of_an_earlier_micro_batch_is_fenced(options: SinkOptions) -> None:
    write(options, rows(100), batch=4)
    write(options, rows(100), batch=5)
    with pytest.raises(FencedError, match="later micro-batch"):
        write(options, rows(200), batch=4)
    assert len(stored(options)) == 200


def test_rows_that_changed_between_attempts_are_stored_again_rather_than_lost(options: SinkOptions) -> None:
    with pytest.raises(InjectedError):
        write(options, fail_midway(rows(COUNT), options.bootstrap, str(options.topic)))
    write(options, rows(COUNT, changed_from=2_000))
    expected = {b"v%d%s" % (i, b"!" if i >= 2_000 else b"") for i in range(COUNT)}
    once = stored(options)
    assert expected <= set(once)
    write(options, rows(COUNT, changed_from=2_000))  # the changed rows are fenced too
    assert stored(options) == once


def test_stored_rows_are_found_behind_rows_of_other_tasks(options: SinkOptions) -> None:
    write(options, rows(50))
    for other in range(3):
        write(options, rows(20_000), task=1 + other)
    assert write(options, rows(50)).already_stored == 50


def test_concurrent_attempts_store_each_row_once(options: SinkOptions) -> None:
    """Such as a task on a lost executor and its replacement."""

    def attempt(step: int) -> None:
        with contextlib.suppress(ClientError):  # an attempt that meets another's rows gives up
            write(options, rows(COUNT, step=step))

    attempts = [threading.Thread(target=attempt, args=(step,)) for step in (1_000, 1_000, 700)]
    for thread in attempts:
        thread.start()
    for thread in attempts:
        thread.join()
    assert write(options, rows(COUNT)).rows == COUNT
    assert stored(options) == sorted(b"v%d" % i for i in range(COUNT))


def test_rows_removed_by_retention_count_as_stored(cluster: Cluster, options: SinkOptions) -> None:
    write(options, rows(100))
    delete_records(options.bootstrap, str(options.topic))
    assert stored(options) == []
    assert write(options, rows(100)).already_stored == 100


def test_a_batch_above_max_message_bytes_is_split(cluster: Cluster) -> None:
    cluster.create_topic("small-batches", partitions=1, max_message_bytes=2_000)
    options = SinkOptions(cluster.bootstrap, topic="small-batches")
    assert write(options, rows(1_000)).batches == 1
    assert stored(options) == sorted(b"v%d" % i for i in range(1_000))
    assert write(options, rows(1_000)).already_stored == 1_000


def test_the_error_for_a_record_above_max_message_bytes_names_the_limit(cluster: Cluster) -> None:
    cluster.create_topic("small-records", partitions=1, max_message_bytes=2_000)
    large = pa.RecordBatch.from_arrays([pa.array([b"x" * 5_000])], ["value"])
    with pytest.raises(ClientError, match="small-records-0 is larger than the topic's max"):
        write(SinkOptions(cluster.bootstrap, topic="small-records"), iter([large]))


def test_the_error_for_a_missing_topic_names_it(cluster: Cluster) -> None:
    with pytest.raises(UnknownTopicError, match="nowhere"):
        write(SinkOptions(cluster.bootstrap, topic="nowhere"), rows(1))


def test_columns_topic_and_partition_direct_the_rows(cluster: Cluster) -> None:
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
    stored_rows = [(r.partition, r.key, r.value) for r in read_records(cluster.bootstrap, "column-a")]
    assert sorted(stored_rows, key=str) == [(0, None, None), (1, b"k", b"1")]
    assert [(r.partition, r.key, r.value) for r in read_records(cluster.bootstrap, "column-b")] == [(0, None, b"2")]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"value": [b"v"], "partition": pa.array([3], pa.int32())}, "column 'partition' is 3: .* partitions 0 to 2"),
        ({"value": [b"v"], "partition": pa.array([-1], pa.int32())}, "column 'partition' is -1"),
        ({"value": [b"v"], "headers": [[{"key": None, "value": b""}]]}, "column 'headers' has a header without a key"),
    ],
)
def test_the_error_for_an_invalid_row_names_its_column(
    cluster: Cluster, columns: dict[str, pa.Array], message: str
) -> None:
    options = SinkOptions(cluster.bootstrap, topic="three")
    with pytest.raises(ValueError, match=message):
        write(options, iter([pa.RecordBatch.from_pydict(columns)]))


def test_a_row_without_a_topic_is_an_error(cluster: Cluster) -> None:
    batch = pa.RecordBatch.from_pydict({"value": [b"v"], "topic": pa.array([None], pa.string())})
    with pytest.raises(ValueError, match="column 'topic' is null"):
        write(SinkOptions(cluster.bootstrap), iter([batch]))
