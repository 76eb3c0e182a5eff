"""The stream reader, called as Spark calls it but without Spark: real brokers, no JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable

from insync.client import groups, topics
from insync.client.sync_client import SyncClient
from insync.spark.data_loss import DataLossError
from insync.spark.executor import read_offsets
from insync.spark.option_values import OptionError
from insync.spark.progress import describe_progress
from insync.spark.source_options import read_source_options
from insync.spark.stream_offsets import StreamOffset, lag
from insync.spark.stream_reader import StreamReader, UnlimitedStreamReader
from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce

pytestmark = pytest.mark.xdist_group("spark-reader")

ALL = ReadAllAvailable()


@pytest.fixture
def client(spark_cluster: Cluster) -> Iterator[SyncClient]:
    with SyncClient(spark_cluster.bootstrap) as blocking:
        yield blocking


def reader_of(bootstrap: str, topic: str, **options: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest", **options}
    return StreamReader(read_source_options(given, streaming=True), ("value",))


class Query:
    """Calls a reader as Spark does. Offsets pass through text, as in a checkpoint."""

    def __init__(self, reader: StreamReader) -> None:
        self.reader = reader
        self.offset: dict[str, Any] = {}

    def next(self) -> list[bytes] | None:
        """The values of the next batch, by partition and offset; None if there is no batch now."""
        start = self.offset or through_text(self.reader.initialOffset())
        end = through_text(self.reader.latestOffset(start, self.reader.getDefaultReadLimit()))
        if end == start:
            return None
        self.offset = end
        return self.run_batch(start, end)

    def run_batch(self, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
        tasks = self.reader.partitions(start, end)
        return [value.as_py() for task in tasks for batch in self.reader.read(task) for value in batch.column(0)]

    def restart(self, reader: StreamReader) -> Query:
        self.reader.stop()
        restarted = Query(reader)
        restarted.offset = self.offset
        return restarted


def through_text(offsets: dict[str, Any]) -> dict[str, Any]:
    decoded: dict[str, Any] = json.loads(json.dumps(offsets))
    return decoded


def test_each_batch_starts_where_the_last_one_ended(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("onward")
    produce(spark_cluster.bootstrap, "onward", numbered(0, 5))
    query = Query(reader_of(spark_cluster.bootstrap, "onward"))
    assert query.next() == numbered(0, 5)
    assert query.next() is None
    produce(spark_cluster.bootstrap, "onward", numbered(5, 8))
    assert query.next() == numbered(5, 8)
    query.reader.stop()


def test_an_empty_first_batch_fixes_what_latest_is(spark_cluster: Cluster) -> None:
    """Records that arrive while the query is down are read after its restart."""
    spark_cluster.create_topic("lately")
    produce(spark_cluster.bootstrap, "lately", numbered(0, 5))
    query = Query(reader_of(spark_cluster.bootstrap, "lately", startingOffsets="latest"))
    assert query.next() == []
    produce(spark_cluster.bootstrap, "lately", numbered(5, 9))
    query = query.restart(reader_of(spark_cluster.bootstrap, "lately", startingOffsets="latest"))
    assert query.next() == numbered(5, 9)
    query.reader.stop()


def test_a_repeated_first_batch_reads_the_same(spark_cluster: Cluster) -> None:
    """After a crash before batch 0 is committed, Spark asks for the initial offsets again, and "latest" has moved."""
    spark_cluster.create_topic("repeated")
    reader = reader_of(spark_cluster.bootstrap, "repeated", startingOffsets="latest")
    start = reader.initialOffset()
    produce(spark_cluster.bootstrap, "repeated", numbered(0, 4))
    end = reader.latestOffset(start, ALL)
    reader.stop()
    produce(spark_cluster.bootstrap, "repeated", numbered(4, 9))
    query = Query(reader_of(spark_cluster.bootstrap, "repeated", startingOffsets="latest"))
    assert query.run_batch(query.reader.initialOffset(), through_text(end)) == numbered(0, 4)
    query.reader.stop()


def test_a_limited_batch_reads_partitions_in_proportion(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("shares", partitions=2)
    produce(spark_cluster.bootstrap, "shares", numbered(0, 90))
    produce(spark_cluster.bootstrap, "shares", numbered(100, 110), partition=1)
    query = Query(reader_of(spark_cluster.bootstrap, "shares", maxOffsetsPerTrigger="10"))
    assert query.next() == numbered(0, 9) + numbered(100, 101)
    shown = {"endOffset": json.dumps(query.offset), "latestOffset": json.dumps(query.reader.reportLatestOffset())}
    assert lag(shown) == {("shares", 0): 81, ("shares", 1): 9}
    source = describe_progress({"sources": [{"description": "class@1", **shown}]})["sources"][0]
    assert source["description"] == "insync[Subscribe[shares]]"
    estimate = int(source["metrics"].pop("estimatedTotalBytesBehindLatest"))
    assert 90 * 10 < estimate < 90 * 200
    assert source["metrics"] == {
        "minOffsetsBehindLatest": "9",
        "maxOffsetsBehindLatest": "81",
        "avgOffsetsBehindLatest": "45.0",
    }
    query.reader.stop()


def test_older_versions_of_spark_do_not_say_where_the_last_batch_ended(spark_cluster: Cluster) -> None:
    """PySpark 4.0 and 4.1: batches are the same, also the first one after a restart."""
    spark_cluster.create_topic("older", partitions=1)
    produce(spark_cluster.bootstrap, "older", numbered(0, 5))
    options = read_source_options(
        {"kafka.bootstrap.servers": spark_cluster.bootstrap, "subscribe": "older", "startingOffsets": "latest"},
        streaming=True,
    )
    reader = UnlimitedStreamReader(options, ("value",))
    start = through_text(reader.initialOffset())
    first = through_text(reader.latestOffset())
    assert first != start  # the start has to reach the checkpoint
    assert Query(reader).run_batch(start, first) == []
    produce(spark_cluster.bootstrap, "older", numbered(5, 7))
    second = through_text(reader.latestOffset())
    assert Query(reader).run_batch(first, second) == numbered(5, 7)
    assert through_text(reader.latestOffset()) == second
    reader.stop()
    produce(spark_cluster.bootstrap, "older", numbered(7, 9))
    reader = UnlimitedStreamReader(options, ("value",))
    third = through_text(reader.latestOffset())
    assert Query(reader).run_batch(second, third) == numbered(7, 9)
    reader.stop()
    reader = UnlimitedStreamReader(options, ("value",))
    too_far = {**second, "older": {"0": 99}}
    end = through_text(reader.latestOffset())
    with pytest.raises(DataLossError, match="missing"):
        reader.partitions(too_far, end)
    reader.stop()


def test_a_batch_waits_for_enough_records_up_to_the_delay(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("patient")
    options = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"}
    query = Query(reader_of(spark_cluster.bootstrap, "patient", **options))
    assert query.next() == []
    produce(spark_cluster.bootstrap, "patient", numbered(0, 4))
    assert query.next() is None
    produce(spark_cluster.bootstrap, "patient", numbered(4, 10))
    assert query.next() == numbered(0, 10)
    produce(spark_cluster.bootstrap, "patient", numbered(10, 12))
    query = query.restart(
        reader_of(spark_cluster.bootstrap, "patient", minOffsetsPerTrigger="10", maxTriggerDelay="0s")
    )
    assert query.next() == numbered(10, 12)
    query.reader.stop()


def test_available_now_ends_where_the_log_ended_at_its_start(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("enough")
    produce(spark_cluster.bootstrap, "enough", numbered(0, 7))
    query = Query(reader_of(spark_cluster.bootstrap, "enough", maxOffsetsPerTrigger="5", minOffsetsPerTrigger="5"))
    query.reader.prepareForTriggerAvailableNow()
    produce(spark_cluster.bootstrap, "enough", numbered(7, 20))
    assert query.next() == numbered(0, 5)
    assert query.next() == numbered(5, 7)
    assert query.next() is None
    query.reader.stop()


def test_available_now_from_latest_leaves_newer_records_to_the_next_run(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("between")
    produce(spark_cluster.bootstrap, "between", numbered(0, 3))
    query = Query(reader_of(spark_cluster.bootstrap, "between", startingOffsets="latest"))
    query.reader.prepareForTriggerAvailableNow()
    produce(spark_cluster.bootstrap, "between", numbered(3, 6))
    assert query.next() == []
    assert query.next() is None
    query = query.restart(reader_of(spark_cluster.bootstrap, "between", startingOffsets="latest"))
    assert query.next() == numbered(3, 6)
    query.reader.stop()


def test_new_partitions_are_read_from_the_start(spark_cluster: Cluster, client: SyncClient) -> None:
    spark_cluster.create_topic("growing")
    query = Query(reader_of(spark_cluster.bootstrap, "growing", startingOffsets="latest"))
    assert query.next() == []
    client.call(lambda cluster: topics.create_partitions(cluster, "growing", 2))
    spark_cluster.wait_for_leader("growing", 1)
    produce(spark_cluster.bootstrap, "growing", numbered(0, 3), partition=1)
    before = query.offset
    assert query.next() == numbered(0, 3)
    assert StreamOffset.from_dict(query.offset).origin == {("growing", 1): 0}
    assert query.run_batch(before, query.offset) == numbered(0, 3)
    query.reader.stop()


def test_new_topics_of_a_pattern_are_read_from_the_start(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("pat-1")
    given = {"kafka.bootstrap.servers": spark_cluster.bootstrap, "subscribePattern": "pat-.*"}
    query = Query(StreamReader(read_source_options(given, streaming=True), ("value",)))
    assert query.next() == []
    spark_cluster.create_topic("pat-2")
    produce(spark_cluster.bootstrap, "pat-2", numbered(0, 3))
    assert query.next() == numbered(0, 3)
    query.reader.stop()


def test_a_groups_committed_offsets_follow_the_batches(spark_cluster: Cluster, client: SyncClient) -> None:
    """A batch is committed when Spark asks for the next one, and at the end of an AvailableNow run too."""
    spark_cluster.create_topic("watched")
    produce(spark_cluster.bootstrap, "watched", numbered(0, 6))
    query = Query(reader_of(spark_cluster.bootstrap, "watched", groupId="spark-job"))
    query.reader.prepareForTriggerAvailableNow()
    query.next()
    assert query.next() is None
    committed = client.call(lambda cluster: groups.list_committed_offsets(cluster, "spark-job"))
    assert committed == {("watched", 0): 6}
    query.reader.stop()


def test_a_task_that_stopped_early_can_be_read_again(spark_cluster: Cluster) -> None:
    """`limit` and `show` stop early; the worker keeps its connections for the next task."""
    spark_cluster.create_topic("glanced")
    produce(spark_cluster.bootstrap, "glanced", [b"x" * 1_000] * 20_000)
    reader = reader_of(spark_cluster.bootstrap, "glanced")
    start = reader.initialOffset()
    (task,) = reader.partitions(start, reader.latestOffset(start, ALL))
    for _ in range(3):
        batches = read_offsets(task)
        assert next(batches).num_rows > 0
        batches.close()  # type: ignore[attr-defined]
    assert sum(batch.num_rows for batch in read_offsets(task)) == 20_000
    reader.stop()


def test_a_checkpoint_of_sparks_connector_can_be_continued(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("inherited")
    produce(spark_cluster.bootstrap, "inherited", numbered(0, 6))
    query = Query(reader_of(spark_cluster.bootstrap, "inherited"))
    query.offset = {"inherited": {"0": 4}}
    assert query.next() == numbered(4, 6)
    query.reader.stop()


def test_a_stream_of_a_missing_topic_is_an_error(spark_cluster: Cluster) -> None:
    reader = reader_of(spark_cluster.bootstrap, "never-made")
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(OptionError, match="'subscribe' is 'never-made': there is no topic 'never-made'"):
        reader.initialOffset()
    reader.stop()


def test_a_start_past_the_log_end_is_a_loss(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("too-far")
    produce(spark_cluster.bootstrap, "too-far", numbered(0, 3))
    query = Query(reader_of(spark_cluster.bootstrap, "too-far", startingOffsets='{"too-far":{"0":9}}'))
    with pytest.raises(DataLossError, match=r"offsets 3 to 8 missing .*the log ends at offset 3"):
        query.next()
    query.reader.stop()


# --- missing records -------------------------------------------------------------------------------------------------


def read_and_delete(cluster: Cluster, client: SyncClient, topic: str) -> Query:
    """A query that has read three records of a topic, which is then deleted."""
    cluster.create_topic(topic)
    produce(cluster.bootstrap, topic, numbered(0, 3))
    query = Query(reader_of(cluster.bootstrap, topic))
    query.next()
    client.call(lambda connected: topics.delete(connected, topic))
    return query


def test_a_deleted_topic_is_reported(spark_cluster: Cluster, client: SyncClient) -> None:
    query = read_and_delete(spark_cluster, client, "to-be-deleted")
    message = r"cannot continue to-be-deleted-0 from offset 3 \(deleted\): the topic no longer exists"
    with pytest.raises(DataLossError, match=message):
        _until_changed(query)
    lenient = query.restart(reader_of(spark_cluster.bootstrap, "to-be-deleted", failOnDataLoss="false"))
    assert lenient.next() == []
    assert StreamOffset.from_dict(lenient.offset).offsets == {}
    lenient.reader.stop()


def test_a_recreated_topic_is_reported_and_read_from_its_start(spark_cluster: Cluster, client: SyncClient) -> None:
    query = read_and_delete(spark_cluster, client, "reborn")
    with pytest.raises(DataLossError, match="deleted"):
        _until_changed(query)
    spark_cluster.create_topic("reborn")
    produce(spark_cluster.bootstrap, "reborn", numbered(10, 15))
    with pytest.raises(DataLossError, match=r"\(recreated\): the topic was deleted and recreated: its id was"):
        query.next()
    lenient = query.restart(reader_of(spark_cluster.bootstrap, "reborn", failOnDataLoss="false"))
    assert lenient.next() == numbered(10, 15)
    lenient.reader.stop()


def test_offsets_removed_by_retention_are_reported(spark_cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    spark_cluster.create_topic("short-lived")
    produce(spark_cluster.bootstrap, "short-lived", numbered(0, 3))
    query = Query(reader_of(spark_cluster.bootstrap, "short-lived"))
    query.next()
    produce(spark_cluster.bootstrap, "short-lived", numbered(3, 10))
    _delete_before(spark_cluster.bootstrap, "short-lived", 8)
    message = r"offsets 3 to 7 missing \(retention\): the log now begins at offset 8 and ends at 10 \(epoch 0\)"
    with pytest.raises(DataLossError, match=message):
        query.next()
    lenient = query.restart(reader_of(spark_cluster.bootstrap, "short-lived", failOnDataLoss="false"))
    with caplog.at_level("WARNING", "insync.spark"):
        assert lenient.next() == numbered(8, 10)
    assert "offsets 3 to 7 missing (retention)" in caplog.text
    lenient.reader.stop()


def test_a_task_reports_what_retention_removed_after_planning(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("fleeting")
    produce(spark_cluster.bootstrap, "fleeting", numbered(0, 10))
    strict, lenient = (
        reader_of(spark_cluster.bootstrap, "fleeting", failOnDataLoss=text) for text in ("true", "false")
    )
    start = strict.initialOffset()
    end = strict.latestOffset(start, ALL)
    _delete_before(spark_cluster.bootstrap, "fleeting", 6)
    (task,) = strict.partitions(start, end)
    with pytest.raises(DataLossError, match=r"offsets 0 to 5 missing \(retention\)"):
        list(read_offsets(task))
    (task,) = lenient.partitions(start, end)
    assert [value.as_py() for batch in read_offsets(task) for value in batch.column(0)] == numbered(6, 10)
    strict.stop()
    lenient.stop()


def _delete_before(bootstrap: str, topic: str, offset: int) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        future.result(60)


def _until_changed(query: Query) -> None:
    """Run batches until the change reaches the brokers."""
    while query.next() is None:
        pass
