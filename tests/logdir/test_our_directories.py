"""Log directories that our own broker wrote and closed: segments, indexes, high watermarks, timestamps."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql.datasource import GreaterThan, GreaterThanOrEqual, LessThanOrEqual

from insync.logdir.files import Segment, plan_segments
from insync.logdir.options import END, ROWS, ReadOptions
from insync.logdir.rows import read_segment
from insync.spark.conditions import Conditions
from insync.spark.log_source import narrow_options
from insync.testing import Cluster

COUNT = 3_000
FIRST_MS = 1_700_000_000_000


def late(number: int) -> int:
    """The time of a record of topic shuffled: some records are late, a few are early."""
    random = Random(number)
    return max(0, min(COUNT, number + random.choice((0, 0, -random.randrange(1_500), random.randrange(300)))))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topics t and shuffled of one broker, stopped. Record i of t has the timestamp FIRST_MS + i; those of shuffled
    have the same times, roughly in order."""
    root = tmp_path_factory.mktemp("ours")
    with Cluster(brokers=1, directory=root) as cluster:
        for topic in ("t", "shuffled"):
            cluster.create_topic(topic, partitions=1, segment_bytes=20_000, index_interval_bytes=500, retention_ms=-1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 20})
        for i in range(COUNT):
            producer.produce("t", b"v%06d" % i, b"k%d" % i, 0, timestamp=FIRST_MS + i)
            producer.produce("shuffled", b"v%06d" % i, b"k%d" % i, 0, timestamp=FIRST_MS + late(i))
            producer.poll(0)
        assert producer.flush(60) == 0
        cluster.stop(1)
    return root / "node-1" / "data"


def segments(directory: Path, topic: str = "t", **options: Any) -> list[Segment]:
    return plan_segments(ReadOptions(paths=(str(directory),), topics=(topic,), **options))


def offsets(directory: Path, **options: Any) -> list[int]:
    batches = (batch for segment in segments(directory, **options) for batch in read_segment(segment, ("offset",)))
    return [offset for batch in batches for offset in batch.column(0).to_pylist()]


def test_all_records_are_below_the_high_watermark_after_a_clean_stop(directory: Path) -> None:
    assert offsets(directory) == list(range(COUNT))
    assert len(segments(directory)) > 3


@pytest.mark.parametrize(("first", "end"), [(0, 1), (999, 1_001), (1_234, 2_345), (2_999, 3_000), (500, 500)])
def test_offsets_and_timestamps_select_the_same_records(directory: Path, first: int, end: int) -> None:
    assert offsets(directory, start_offset=first, end_offset=end) == list(range(first, end))
    times: dict[str, Any] = {"start_time_ms": FIRST_MS + first, "end_time_ms": FIRST_MS + end}
    assert offsets(directory, **times) == list(range(first, end))
    bases = [segment.base for segment in segments(directory)]
    needed = [
        base for base, following in zip(bases, [*bases[1:], COUNT], strict=True) if base < end and following > first
    ]
    assert [segment.base for segment in segments(directory, **times)] == (needed if first < end else [])


@pytest.mark.parametrize("since", [0, 1, 700, 1_500, 2_500, 2_990, COUNT - 1, COUNT, COUNT + 1])
def test_older_records_are_skipped_but_no_newer_one(directory: Path, since: int) -> None:
    options: dict[str, Any] = {"topic": "shuffled", "newer_than_ms": FIRST_MS + since}
    read = offsets(directory, **options)
    newer = [i for i in range(COUNT) if late(i) >= since]
    assert set(newer) <= set(read)
    assert read[:1] == newer[:1]
    if since > 2_500:
        assert len(segments(directory, **options)) < len(segments(directory, "shuffled"))


def test_conditions_of_a_query_become_options(directory: Path) -> None:
    """Whatever the options allow beside the conditions."""
    random = Random(5)
    for _ in range(60):
        low, high, since = random.randrange(COUNT), random.randrange(COUNT), random.randrange(COUNT)
        conditions = Conditions(
            [
                GreaterThan(("offset",), low),
                LessThanOrEqual(("offset",), high),
                GreaterThanOrEqual(("timestamp",), datetime.fromtimestamp((FIRST_MS + since) / 1_000, UTC)),
            ]
        )
        given = ReadOptions(paths=(str(directory),), topics=("shuffled",), start_offset=1_000, end_offset=2_500)
        plan = plan_segments(narrow_options(given, conditions))
        read = [i for s in plan for batch in read_segment(s, ("offset",)) for i in batch.column(0).to_pylist()]
        in_options = [i for i in range(1_000, 2_500) if low < i <= high]
        assert {i for i in in_options if late(i) >= since} <= set(read) <= set(in_options)


def test_if_damage_becomes_rows_everything_is_read(directory: Path) -> None:
    given = ReadOptions(paths=(str(directory),), corrupt=ROWS)
    assert narrow_options(given, Conditions([GreaterThan(("offset",), 5)])) == given


def test_the_metadata_log_is_read_by_name(directory: Path) -> None:
    plan = segments(directory, "__cluster_metadata", bound=END)
    assert plan[0].broker == 1
    assert sum(batch.num_rows for segment in plan for batch in read_segment(segment, ("offset", "value"))) > 5
