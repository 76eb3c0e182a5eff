"""Our sink on Apache Kafka's brokers, fence included, and our reader of log directories that they are writing."""

from __future__ import annotations

import pytest

import apache_kafka
from insync.logdir.files import plan_segments
from insync.logdir.options import END, ReadOptions
from insync.logdir.rows import read_segment
from insync.spark.sink import task_writer
from insync.spark.sink.fence import Fence
from insync.spark.sink.options import SinkOptions
from insync.spark.sink.stored_rows import FencedError
from insync.wire import compression
from interop.spark.kafka_topics import create_topic
from tests.spark.sink_data import InjectedError, delete_records, fail_midway, read_records, rows

COUNT = 6_000


@pytest.fixture
def options(apache: apache_kafka.ApacheCluster, request: pytest.FixtureRequest) -> SinkOptions:
    topic = request.node.originalname[:80]
    create_topic(apache.bootstrap, topic, 2)
    return SinkOptions(apache.bootstrap, topic=topic, batch_bytes=20_000)


def stored_values(options: SinkOptions) -> list[bytes]:
    return sorted(record.value or b"" for record in read_records(options.bootstrap, str(options.topic)))


def test_kafka_stores_each_row_once(options: SinkOptions) -> None:
    with pytest.raises(InjectedError):
        task_writer.write(
            fail_midway(rows(COUNT), options.bootstrap, str(options.topic)), options, Fence("query", 3), 0
        )
    half = len(stored_values(options))
    assert 0 < half < COUNT
    assert task_writer.write(rows(COUNT), options, Fence("query", 3), 0).already_stored == half
    assert task_writer.write(rows(COUNT), options, Fence("query", 3), 0).already_stored == COUNT
    assert stored_values(options) == sorted(b"v%d" % i for i in range(COUNT))


def test_kafka_fences_earlier_micro_batches(options: SinkOptions) -> None:
    task_writer.write(rows(100), options, Fence("query", 4), 0)
    task_writer.write(rows(100), options, Fence("query", 5), 0)
    with pytest.raises(FencedError):
        task_writer.write(rows(200), options, Fence("query", 4), 0)
    assert len(stored_values(options)) == 200


def test_kafka_recognizes_rows_that_were_deleted(options: SinkOptions) -> None:
    task_writer.write(rows(100), options, Fence("query"), 0)
    delete_records(options.bootstrap, str(options.topic))
    assert task_writer.write(rows(100), options, Fence("query"), 0).already_stored == 100


def test_kafka_stores_our_batches_of_every_codec_unchanged(
    apache: apache_kafka.ApacheCluster, options: SinkOptions
) -> None:
    """The broker is running, so its indexes end in zeros."""
    for codec, name in enumerate(compression.NAMES):
        with_codec = SinkOptions(options.bootstrap, topic=options.topic, codec=codec)
        task_writer.write(rows(1_000), with_codec, Fence(name), 0)
    path = str(apache.nodes[1].directory / "data")
    plan = plan_segments(ReadOptions(paths=(path,), topics=(str(options.topic),), bound=END))
    columns = ("codec", "value")
    stored = [row for segment in plan for batch in read_segment(segment, columns) for row in batch.to_pylist()]
    for name in compression.NAMES:
        values = sorted(row["value"] for row in stored if row["codec"] == name)
        assert values == sorted(b"v%d" % i for i in range(1_000))
