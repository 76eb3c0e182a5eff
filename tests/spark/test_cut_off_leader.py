"""F3: a leader that is cut off from the others still acts as leader, and lacks what its successor writes.

A reader that knows the successor's epoch does not report the records that the old leader lacks as lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from insync.lake import directory
from insync.lake.ledger import RANGES, Ledger
from insync.pipeline.archive import plan as archive_plan
from insync.pipeline.archive.task import ArchiveTask, archive_range
from insync.pipeline.rounds import ClusterOptions
from insync.spark.source_options import read_source_options
from insync.spark.stream_offsets import StreamOffset
from insync.spark.stream_reader import StreamReader
from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce

ALL = ReadAllAvailable()
RECORDS = 20


@dataclass
class PartitionedCluster:
    old_leader: str
    """The address of the leader that is cut off."""
    others: str
    """The addresses of the other brokers."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[PartitionedCluster]:
    with Cluster(brokers=3, topics={"cut": {"partitions": 1, "replication_factor": 3}}) as brokers:
        leader = brokers.leader_of("cut")
        others = ",".join(f"127.0.0.1:{node.port}" for node in brokers.nodes.values() if node.id != leader)
        produce(brokers.bootstrap, "cut", numbered(0, 10))
        brokers.partition({leader})
        brokers.wait_for_leader("cut", other_than=leader)
        produce(others, "cut", numbered(10, RECORDS))
        yield PartitionedCluster(f"127.0.0.1:{brokers.nodes[leader].port}", others)


def make_reader(bootstrap: str) -> StreamReader:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": "cut", "startingOffsets": "earliest"}
    return StreamReader(read_source_options(options, streaming=True), ("value",))


def test_a_stream_continues_with_the_successor(cluster: PartitionedCluster) -> None:
    successor_reader = make_reader(cluster.others)
    start = successor_reader.initialOffset()
    end = successor_reader.latestOffset(start, ALL)
    assert StreamOffset.from_dict(end).offsets == {("cut", 0): RECORDS}

    reader = make_reader(cluster.old_leader)
    assert StreamOffset.from_dict(reader.initialOffset()).offsets == {("cut", 0): 0}
    assert reader.latestOffset(end, ALL) == end
    tasks = make_reader(cluster.old_leader).partitions(start, end)
    values = [value.as_py() for task in tasks for batch in reader.read(task) for value in batch.column(0)]
    assert values == numbered(0, RECORDS)


def test_an_archive_continues_with_the_successor(cluster: PartitionedCluster, tmp_path: Path) -> None:
    directory.make_lake(tmp_path)
    ledger = Ledger.load(tmp_path)
    plan = make_plan(cluster.others, ledger)
    (offsets,) = plan.split(max_offsets=100, tasks=1, rows_per_file=100)
    assert offsets.end == RECORDS
    task = ArchiveTask(
        range=offsets, leader_epoch=plan.epochs[offsets.key], bootstrap=cluster.old_leader, lake=str(tmp_path), round=1,
        isolation="read_committed", codec="lz4", roll_bytes=1 << 20, timeout_s=60,
    )  # fmt: skip
    result = archive_range(task)
    assert (result.error, sum(file.rows for file in result.files)) == ("", RECORDS)
    assert result.epoch == task.leader_epoch
    archived = replace(offsets, files=result.files, rows=RECORDS, epoch=result.epoch, seen=result.seen)
    ledger.commit(RANGES, "test", ranges=[archived])
    assert make_plan(cluster.old_leader, ledger).backlog == 0


def make_plan(bootstrap: str, ledger: Ledger) -> archive_plan.Plan:
    view = archive_plan.open_view(
        ClusterOptions(bootstrap=bootstrap, timeout_s=60), ("cut",), isolation="read_committed"
    )
    try:
        return archive_plan.make_plan(view, ledger, ("cut",), allow_loss=False)
    finally:
        view.close()
