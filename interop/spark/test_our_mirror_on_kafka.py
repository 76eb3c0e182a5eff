"""Mirrors from Apache Kafka to insync and back: transactions, the broker's timestamps, groups, and a stale state."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import apache_kafka
from insync.pipeline.mirror.errors import SourceLossError
from insync.pipeline.mirror.job import MirrorOptions
from insync.testing import Cluster
from interop.spark.kafka_topics import create_topic, run_transaction
from tests.pipeline.lake_data import delete_records, numbered, produce
from tests.pipeline.mirror_here import compare, make_options, mirror
from tests.spark.spark_data import numbered as numbered_values


def commit(bootstrap: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def read_committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=30)
    consumer.close()
    return committed.offset


def check_equal(options: MirrorOptions, records: int) -> None:
    compared = compare(options)
    assert compared.differences == []
    assert sum(partition.records for partition in compared.partitions) == records


def test_kafkas_committed_records_are_mirrored_with_exact_group_offsets(
    apache: apache_kafka.ApacheCluster, insync_cluster: Cluster, tmp_path: Path
) -> None:
    """Markers and aborted records take offsets in the source only: its records are counted."""
    create_topic(apache.bootstrap, "payments")
    run_transaction(apache.bootstrap, "payments", numbered_values(0, 5), commit=True)
    run_transaction(apache.bootstrap, "payments", numbered_values(5, 8), commit=False)
    run_transaction(apache.bootstrap, "payments", numbered_values(8, 20), commit=True)
    commit(apache.bootstrap, "billing", "payments", 12)  # offsets 10 to 21 are v8 to v19
    options = make_options(apache.bootstrap, insync_cluster.bootstrap, tmp_path, "payments")
    assert mirror(options).rows == 17
    assert read_committed(insync_cluster.bootstrap, "billing", "payments") == 7
    check_equal(options, 17)
    run_transaction(apache.bootstrap, "payments", numbered_values(20, 25), commit=True)
    assert mirror(options).rows == 5
    check_equal(options, 22)


def test_the_brokers_timestamps_become_the_records(
    apache: apache_kafka.ApacheCluster, insync_cluster: Cluster, tmp_path: Path
) -> None:
    create_topic(apache.bootstrap, "stamped", message_timestamp_type="LogAppendTime", cleanup_policy="compact")
    produce(apache.bootstrap, "stamped", numbered(0, 300), **{"compression.type": "zstd"})
    options = make_options(apache.bootstrap, insync_cluster.bootstrap, tmp_path, "stamped")
    assert mirror(options).rows == 300
    check_equal(options, 300)


def test_a_mirror_into_kafka_continues_exactly_with_an_older_state(
    apache: apache_kafka.ApacheCluster, insync_cluster: Cluster, tmp_path: Path
) -> None:
    """As after a kill: Kafka's log has more than the state knows."""
    insync_cluster.create_topic("events", partitions=2)
    state, before = tmp_path / "state", tmp_path / "before"
    options = make_options(insync_cluster.bootstrap, apache.bootstrap, state, "events=copied-events")
    for first, codec in ((0, "none"), (1_000, "lz4"), (2_000, "gzip")):
        produce(
            insync_cluster.bootstrap,
            "events",
            numbered(first, first + 1_000, partitions=2),
            **{"compression.type": codec},
        )
        if first:
            shutil.copytree(state, before, dirs_exist_ok=True)
        mirror(options, offsets_per_round=150)
        if first:
            shutil.copytree(before, state, dirs_exist_ok=True)
            mirror(options, offsets_per_round=150)
        check_equal(options, first + 1_000)
    delete_records(insync_cluster.bootstrap, "events", before=1_400)
    commit(insync_cluster.bootstrap, "readers", "events", 1_450)
    mirror(options)
    assert read_committed(apache.bootstrap, "readers", "copied-events") == 1_450


def test_records_that_kafka_deleted_before_they_were_mirrored_are_reported(
    apache: apache_kafka.ApacheCluster, insync_cluster: Cluster, tmp_path: Path
) -> None:
    create_topic(apache.bootstrap, "trimmed")
    options = make_options(apache.bootstrap, insync_cluster.bootstrap, tmp_path, "trimmed", groups="")
    produce(apache.bootstrap, "trimmed", numbered(0, 10))
    mirror(options)
    produce(apache.bootstrap, "trimmed", numbered(10, 30))
    delete_records(apache.bootstrap, "trimmed", before=15)
    with pytest.raises(SourceLossError, match=r"trimmed-0: offsets 10 to 14 missing \(retention\)"):
        mirror(options)
    producer = Producer({"bootstrap.servers": apache.bootstrap})
    producer.produce("trimmed", b"last")
    assert producer.flush(60) == 0
    allowed = make_options(apache.bootstrap, insync_cluster.bootstrap, tmp_path, "trimmed", groups="", allow_loss=True)
    assert mirror(allowed).rows == 16
