"""The stream's decisions, asked as Spark asks them but without Spark: real brokers, no JVM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable
from spark_data import numbered, produce

from insync.client import groups, topics
from insync.client.sync_client import SyncClient
from insync.spark.data_loss import DataLossError
from insync.spark.executor import read_offsets
from insync.spark.option_values import OptionError
from insync.spark.source_options import read_source_options
from insync.spark.stream_offsets import StreamOffset, lag
from insync.spark.stream_reader import StreamReader
from insync.testing import Cluster

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
    """What Spark does with a source: the offsets go through text, as through a checkpoint."""

    def __init__(self, reader: StreamReader) -> None:
        self.reader = reader
        self.at: dict[str, Any] = {}

    def next(self) -> list[bytes] | None:
        """The values of a batch, by partition and offset; None if there is none now."""
        start = self.at or _through_text(self.reader.initialOffset())
        end = _through_text(self.reader.latestOffset(start, self.reader.getDefaultReadLimit()))
        if end == start:
            return None
        self.at = end
        return self.again(start, end)

    def again(self, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
        tasks = self.reader.partitions(start, end)
        return [value.as_py() for task in tasks for batch in self.reader.read(task) for value in batch.column(0)]

    def restart(self, reader: StreamReader) -> Query:
        self.reader.stop()
        again = Query(reader)
        again.at = self.at
        return again


def _through_text(offsets: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(offsets))
    return found


def test_each_batch_goes_on_where_the_last_one_ended(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("onward")
    produce(spark_cluster.bootstrap, "onward", numbered(0, 5))
    query = Query(reader_of(spark_cluster.bootstrap, "onward"))
    assert query.next() == numbered(0, 5)
    assert query.next() is None
    produce(spark_cluster.bootstrap, "onward", numbered(5, 8))
    assert query.next() == numbered(5, 8)
    query.reader.stop()


def test_latest_is_settled_by_an_empty_first_batch(spark_cluster: Cluster) -> None:
    """What comes while the query is down is read when it is back."""
    spark_cluster.create_topic("lately")
    produce(spark_cluster.bootstrap, "lately", numbered(0, 5))
    query = Query(reader_of(spark_cluster.bootstrap, "lately", startingOffsets="latest"))
    assert query.next() == []
    produce(spark_cluster.bootstrap, "lately", numbered(5, 9))
    query = query.restart(reader_of(spark_cluster.bootstrap, "lately", startingOffsets="latest"))
    assert query.next() == numbered(5, 9)
    query.reader.stop()


def test_a_first_batch_that_is_run_again_reads_the_same(spark_cluster: Cluster) -> None:
    """After a crash before batch 0 is committed Spark asks for the initial offsets again, and "latest" has moved on."""
    spark_cluster.create_topic("repeated")
    reader = reader_of(spark_cluster.bootstrap, "repeated", startingOffsets="latest")
    start = reader.initialOffset()
    produce(spark_cluster.bootstrap, "repeated", numbered(0, 4))
    end = reader.latestOffset(start, ALL)
    reader.stop()
    produce(spark_cluster.bootstrap, "repeated", numbered(4, 9))
    query = Query(reader_of(spark_cluster.bootstrap, "repeated", startingOffsets="latest"))
    assert query.again(query.reader.initialOffset(), _through_text(end)) == numbered(0, 4)
    query.reader.stop()


def test_a_batch_takes_from_each_partition_in_proportion(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("shares", partitions=2)
    produce(spark_cluster.bootstrap, "shares", numbered(0, 90))
    produce(spark_cluster.bootstrap, "shares", numbered(100, 110), partition=1)
    query = Query(reader_of(spark_cluster.bootstrap, "shares", maxOffsetsPerTrigger="10"))
    assert query.next() == numbered(0, 9) + numbered(100, 101)
    shown = {"endOffset": json.dumps(query.at), "latestOffset": json.dumps(query.reader.reportLatestOffset())}
    assert lag(shown) == {("shares", 0): 81, ("shares", 1): 9}
    query.reader.stop()


def test_a_batch_waits_for_enough_records_but_not_for_ever(spark_cluster: Cluster) -> None:
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


def test_available_now_ends_at_what_was_there_when_it_began(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("enough")
    produce(spark_cluster.bootstrap, "enough", numbered(0, 7))
    query = Query(reader_of(spark_cluster.bootstrap, "enough", maxOffsetsPerTrigger="5", minOffsetsPerTrigger="5"))
    query.reader.prepareForTriggerAvailableNow()
    produce(spark_cluster.bootstrap, "enough", numbered(7, 20))
    assert query.next() == numbered(0, 5)
    assert query.next() == numbered(5, 7)
    assert query.next() is None
    query.reader.stop()


def test_available_now_from_latest_reads_what_comes_after_it_was_prepared_next_time(spark_cluster: Cluster) -> None:
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


def test_new_partitions_are_read_from_their_beginning(spark_cluster: Cluster, client: SyncClient) -> None:
    spark_cluster.create_topic("growing")
    query = Query(reader_of(spark_cluster.bootstrap, "growing", startingOffsets="latest"))
    assert query.next() == []
    client.call(lambda cluster: topics.create_partitions(cluster, "growing", 2))
    spark_cluster.wait_for_leader("growing", 1)
    produce(spark_cluster.bootstrap, "growing", numbered(0, 3), partition=1)
    before = query.at
    assert query.next() == numbered(0, 3)
    assert StreamOffset.from_dict(query.at).origin == {("growing", 1): 0}
    assert query.again(before, query.at) == numbered(0, 3)
    query.reader.stop()


def test_new_topics_of_a_pattern_are_read_from_their_beginning(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("pat-1")
    given = {"kafka.bootstrap.servers": spark_cluster.bootstrap, "subscribePattern": "pat-.*"}
    query = Query(StreamReader(read_source_options(given, streaming=True), ("value",)))
    assert query.next() == []
    spark_cluster.create_topic("pat-2")
    produce(spark_cluster.bootstrap, "pat-2", numbered(0, 3))
    assert query.next() == numbered(0, 3)
    query.reader.stop()


def test_the_lag_of_a_group_follows_the_batches(spark_cluster: Cluster, client: SyncClient) -> None:
    """A batch is committed when Spark asks for the next one, and at the end of an AvailableNow run too."""
    spark_cluster.create_topic("watched")
    produce(spark_cluster.bootstrap, "watched", numbered(0, 6))
    query = Query(reader_of(spark_cluster.bootstrap, "watched", groupId="spark-job"))
    query.reader.prepareForTriggerAvailableNow()
    query.next()
    assert query.next() is None
    found = client.call(lambda cluster: groups.list_committed_offsets(cluster, "spark-job"))
    assert found == {("watched", 0): 6}
    query.reader.stop()


def test_who_stops_reading_early_can_read_again(spark_cluster: Cluster) -> None:
    """As `limit` and `show` do: the worker keeps its connections for the next task."""
    spark_cluster.create_topic("glanced")
    produce(spark_cluster.bootstrap, "glanced", [b"x" * 1_000] * 20_000)
    reader = reader_of(spark_cluster.bootstrap, "glanced")
    start = reader.initialOffset()
    (task,) = reader.partitions(start, reader.latestOffset(start, ALL))
    for _ in range(3):
        glance = read_offsets(task)
        assert next(glance).num_rows > 0
        glance.close()  # type: ignore[attr-defined]
    assert sum(batch.num_rows for batch in read_offsets(task)) == 20_000
    reader.stop()


def test_a_checkpoint_of_the_connector_is_taken_over(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("inherited")
    produce(spark_cluster.bootstrap, "inherited", numbered(0, 6))
    query = Query(reader_of(spark_cluster.bootstrap, "inherited"))
    query.at = {"inherited": {"0": 4}}
    assert query.next() == numbered(4, 6)
    query.reader.stop()


def test_a_stream_of_a_topic_that_is_not_there_is_refused(spark_cluster: Cluster) -> None:
    reader = reader_of(spark_cluster.bootstrap, "never-made")
    reader.prepareForTriggerAvailableNow()
    with pytest.raises(OptionError, match="'subscribe' is 'never-made': there is no topic 'never-made'"):
        reader.initialOffset()
    reader.stop()


def test_a_beginning_after_the_end_is_told(spark_cluster: Cluster) -> None:
    spark_cluster.create_topic("too-far")
    produce(spark_cluster.bootstrap, "too-far", numbered(0, 3))
    query = Query(reader_of(spark_cluster.bootstrap, "too-far", startingOffsets='{"too-far":{"0":9}}'))
    with pytest.raises(DataLossError, match=r"offsets 3 to 8 missing .*the log ends at offset 3"):
        query.next()
    query.reader.stop()


# --- what has gone missing -------------------------------------------------------------------------------------------


def test_a_deleted_topic_is_told(spark_cluster: Cluster, client: SyncClient) -> None:
    spark_cluster.create_topic("doomed")
    produce(spark_cluster.bootstrap, "doomed", numbered(0, 3))
    query = Query(reader_of(spark_cluster.bootstrap, "doomed"))
    query.next()
    client.call(lambda cluster: topics.delete(cluster, "doomed"))
    told = r"doomed-0 cannot be read on from offset 3 \(deleted\): the topic does not exist any more"
    with pytest.raises(DataLossError, match=told):
        _until_changed(query)
    lenient = query.restart(reader_of(spark_cluster.bootstrap, "doomed", failOnDataLoss="false"))
    assert lenient.next() == []
    assert StreamOffset.from_dict(lenient.at).offsets == {}
    lenient.reader.stop()


def test_a_topic_that_was_made_anew_is_told_and_read_from_its_beginning(
    spark_cluster: Cluster, client: SyncClient
) -> None:
    spark_cluster.create_topic("reborn")
    produce(spark_cluster.bootstrap, "reborn", numbered(0, 3))
    query = Query(reader_of(spark_cluster.bootstrap, "reborn"))
    query.next()
    client.call(lambda cluster: topics.delete(cluster, "reborn"))
    with pytest.raises(DataLossError, match="deleted"):
        _until_changed(query)
    spark_cluster.create_topic("reborn")
    produce(spark_cluster.bootstrap, "reborn", numbered(10, 15))
    with pytest.raises(DataLossError, match=r"\(recreated\): the topic was deleted and made anew: its id was"):
        query.next()
    lenient = query.restart(reader_of(spark_cluster.bootstrap, "reborn", failOnDataLoss="false"))
    assert lenient.next() == numbered(10, 15)
    lenient.reader.stop()


def test_retention_is_told_with_its_offsets(spark_cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    spark_cluster.create_topic("short-lived")
    produce(spark_cluster.bootstrap, "short-lived", numbered(0, 3))
    query = Query(reader_of(spark_cluster.bootstrap, "short-lived"))
    query.next()
    produce(spark_cluster.bootstrap, "short-lived", numbered(3, 10))
    _delete_before(spark_cluster.bootstrap, "short-lived", 8)
    words = r"offsets 3 to 7 missing \(retention\): the log begins at offset 8 now and ends at 10 \(epoch 0\)"
    with pytest.raises(DataLossError, match=words):
        query.next()
    lenient = query.restart(reader_of(spark_cluster.bootstrap, "short-lived", failOnDataLoss="false"))
    with caplog.at_level("WARNING", "insync.spark"):
        assert lenient.next() == numbered(8, 10)
    assert "offsets 3 to 7 missing (retention)" in caplog.text
    lenient.reader.stop()


def test_what_retention_takes_after_planning_is_told_by_the_task(spark_cluster: Cluster) -> None:
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
    """Until the cluster shows what was done to it."""
    while query.next() is None:
        pass
