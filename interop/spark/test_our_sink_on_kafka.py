"""Our sink on Apache Kafka's brokers, fence included; and `insync-log` on what they are just writing."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

import apache_kafka
from insync.logdir.files import plan_segments
from insync.logdir.options import END, ReadOptions
from insync.logdir.rows import read_segment
from insync.spark.sink import task_writer
from insync.spark.sink.fence import Fence
from insync.spark.sink.options import SinkOptions
from insync.spark.sink.stored_rows import FencedError
from insync.wire import compression
from tests.spark.sink_data import Planted, delete_records, failing, records, rows

COUNT = 6_000


@pytest.fixture
def options(apache: apache_kafka.ApacheCluster, request: pytest.FixtureRequest) -> SinkOptions:
    topic = request.node.originalname[:80]
    admin = AdminClient({"bootstrap.servers": apache.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(60)
    return SinkOptions(apache.bootstrap, topic=topic, batch_bytes=20_000)


def stored(options: SinkOptions) -> list[bytes]:
    return sorted(record.value for record in records(options.bootstrap, str(options.topic)))


def test_kafka_stores_each_row_once(options: SinkOptions) -> None:
    with pytest.raises(Planted):
        task_writer.write(failing(rows(COUNT), options.bootstrap, str(options.topic)), options, Fence("query", 3), 0)
    half = len(stored(options))
    assert 0 < half < COUNT
    assert task_writer.write(rows(COUNT), options, Fence("query", 3), 0).already_stored == half
    assert task_writer.write(rows(COUNT), options, Fence("query", 3), 0).already_stored == COUNT
    assert stored(options) == sorted(b"v%d" % i for i in range(COUNT))


def test_kafka_fences_earlier_micro_batches(options: SinkOptions) -> None:
    task_writer.write(rows(100), options, Fence("query", 4), 0)
    task_writer.write(rows(100), options, Fence("query", 5), 0)
    with pytest.raises(FencedError):
        task_writer.write(rows(200), options, Fence("query", 4), 0)
    assert len(stored(options)) == 200


def test_kafka_remembers_rows_that_are_deleted(options: SinkOptions) -> None:
    task_writer.write(rows(100), options, Fence("query"), 0)
    delete_records(options.bootstrap, str(options.topic))
    assert task_writer.write(rows(100), options, Fence("query"), 0).already_stored == 100


def test_our_batches_of_every_codec_lie_on_kafkas_disk_as_we_made_them(
    apache: apache_kafka.ApacheCluster, options: SinkOptions
) -> None:
    """The broker runs: its indexes end in zeros."""
    for codec, name in enumerate(compression.NAMES):
        made = SinkOptions(options.bootstrap, topic=options.topic, codec=codec)
        task_writer.write(rows(1_000), made, Fence(name), 0)
    path = str(apache.nodes[1].directory / "data")
    plan = plan_segments(ReadOptions(paths=(path,), topics=(str(options.topic),), bound=END))
    columns = ("codec", "value")
    found = [row for segment in plan for batch in read_segment(segment, columns) for row in batch.to_pylist()]
    for name in compression.NAMES:
        assert sorted(row["value"] for row in found if row["codec"] == name) == sorted(b"v%d" % i for i in range(1_000))
