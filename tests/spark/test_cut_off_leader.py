"""F3: a leader that is cut off from the others believes that it leads, and has nothing of what its successor writes.

Whoever has heard of the successor does not take the silence of the old leader for a loss of records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from insync.pipeline import lake
from insync.pipeline.archive import plan as archive_plan
from insync.pipeline.archive.task import ArchiveTask, archive_range
from insync.pipeline.ledger import RANGES, Ledger
from insync.pipeline.rounds import ClusterOptions
from insync.spark.source_options import read_source_options
from insync.spark.stream_offsets import StreamOffset
from insync.spark.stream_reader import StreamReader
from insync.testing import Cluster
from tests.spark.spark_data import numbered, produce

ALL = ReadAllAvailable()
RECORDS = 20


@dataclass
class Divided:
    past: str
    """The address of the leader that is cut off."""
    others: str


@pytest.fixture(scope="module")
def divided() -> Iterator[Divided]:
    with Cluster(brokers=3, topics={"cut": {"partitions": 1, "replication_factor": 3}}) as cluster:
        past = cluster.leader_of("cut")
        others = ",".join(f"127.0.0.1:{node.port}" for node in cluster.nodes.values() if node.id != past)
        produce(cluster.bootstrap, "cut", numbered(0, 10))
        cluster.partition({past})
        cluster.wait_for_leader("cut", other_than=past)
        produce(others, "cut", numbered(10, RECORDS))
        yield Divided(f"127.0.0.1:{cluster.nodes[past].port}", others)


def reader_of(bootstrap: str) -> StreamReader:
    given = {"kafka.bootstrap.servers": bootstrap, "subscribe": "cut", "startingOffsets": "earliest"}
    return StreamReader(read_source_options(given, streaming=True), ("value",))


def test_a_stream_goes_on_with_the_successor(divided: Divided) -> None:
    before = reader_of(divided.others)
    begin = before.initialOffset()
    end = before.latestOffset(begin, ALL)
    assert StreamOffset.from_dict(end).offsets == {("cut", 0): RECORDS}

    reader = reader_of(divided.past)
    assert StreamOffset.from_dict(reader.initialOffset()).offsets == {("cut", 0): 0}
    assert reader.latestOffset(end, ALL) == end
    tasks = reader_of(divided.past).partitions(begin, end)
    found = [value.as_py() for task in tasks for batch in reader.read(task) for value in batch.column(0)]
    assert found == list(numbered(0, RECORDS))


def test_an_archive_goes_on_with_the_successor(divided: Divided, tmp_path: Path) -> None:
    lake.make_lake(tmp_path)
    ledger = Ledger.load(tmp_path)
    plan = planned(divided.others, ledger)
    (wanted,) = plan.split(max_offsets=100, tasks=1, rows_per_file=100)
    assert wanted.end == RECORDS
    task = ArchiveTask(
        range=wanted, leader_epoch=plan.epochs[wanted.key], bootstrap=divided.past, lake=str(tmp_path), round=1,
        isolation="read_committed", codec="lz4", timeout_s=60,
    )  # fmt: skip
    answer = archive_range(task)
    assert (answer.error, sum(file.rows for file in answer.files)) == ("", RECORDS)
    assert answer.epoch == task.leader_epoch
    done = replace(wanted, files=answer.files, rows=RECORDS, epoch=answer.epoch, seen=answer.seen)
    ledger.commit(RANGES, "test", ranges=[done])
    assert planned(divided.past, ledger).backlog == 0


def planned(bootstrap: str, ledger: Ledger) -> archive_plan.Plan:
    view = archive_plan.open_view(
        ClusterOptions(bootstrap=bootstrap, timeout_s=60), ("cut",), isolation="read_committed"
    )
    try:
        return archive_plan.make_plan(view, ledger, ("cut",), allow_loss=False)
    finally:
        view.close()
