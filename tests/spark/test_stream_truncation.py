"""Records that were read, and then truncated after an unclean election: leader epochs show that cause of a loss."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from insync.client import admin
from insync.client.sync_client import SyncClient
from insync.spark.data_loss import Cause, DataLossError
from insync.spark.source_options import read_source_options
from insync.spark.stream_offsets import StreamOffset
from insync.spark.stream_reader import StreamReader
from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce

ALL = ReadAllAvailable()
UNCLEAN_ELECTION = 1


def make_reader(bootstrap: str, fail_on_data_loss: str) -> StreamReader:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "cut", "startingOffsets": "earliest"}
    options["failOnDataLoss"] = fail_on_data_loss
    return StreamReader(read_source_options(options, streaming=True), ("value",))


def read(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    tasks = reader.partitions(start, end)
    return [value.as_py() for task in tasks for batch in reader.read(task) for value in batch.column(0)]


def test_truncation_is_reported_even_after_the_log_has_grown_past_it() -> None:
    topic = {"partitions": 1, "replication_factor": 2, "min_insync_replicas": 1}
    with Cluster(brokers=2, controllers=1, topics={"cut": topic}) as cluster:
        first = cluster.leader_of("cut")
        (second,) = set(cluster.isr_of("cut")) - {first}
        produce(cluster.bootstrap, "cut", numbered(0, 10))
        cluster.kill(second)
        cluster.wait_for_isr("cut", size=1)
        produce(cluster.bootstrap, "cut", numbered(10, 20))  # acknowledged by the only in-sync replica
        reader = make_reader(cluster.bootstrap, "true")
        end = reader.latestOffset(reader.initialOffset(), ALL)
        assert StreamOffset.from_dict(end).offsets == {("cut", 0): 20}

        cluster.kill(first)
        cluster.start(second)
        with SyncClient(cluster.bootstrap) as client:
            client.call(lambda connected: admin.elect_leaders(connected, UNCLEAN_ELECTION, [("cut", 0)]))
        cluster.wait_for_leader("cut", other_than=first)
        with pytest.raises(DataLossError, match=r"offsets 10 to 19 missing \(truncation\)") as shorter:
            reader.latestOffset(end, ALL)
        with pytest.raises(DataLossError, match=r"offsets 10 to 19 missing \(truncation\)"):
            read(reader, reader.initialOffset(), end)  # the range has records that no longer exist
        produce(cluster.bootstrap, "cut", numbered(100, 115))  # longer than before: offsets alone show no truncation
        with pytest.raises(DataLossError, match="now ends at offset 10") as longer:
            reader.latestOffset(end, ALL)
        for loss in (*shorter.value.losses, *longer.value.losses):
            assert (loss.cause, loss.first, loss.end, loss.resume) == (Cause.TRUNCATION, 10, 20, 10)
        with pytest.raises(DataLossError, match=r"offsets 10 to 19 missing \(truncation\)"):
            read(reader, reader.initialOffset(), end)  # planned before the truncation
        reader.stop()

        lenient = make_reader(cluster.bootstrap, "false")
        after = lenient.latestOffset(end, ALL)
        assert read(lenient, end, after) == numbered(100, 115)
        assert read(lenient, lenient.initialOffset(), end) == numbered(0, 10)  # without the records of the new epoch
        lenient.stop()
