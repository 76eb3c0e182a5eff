"""`insync-log`, without Spark, on what our own broker wrote and closed: segments, indexes, high watermarks, times."""

from __future__ import annotations

from pathlib import Path

import pytest
from spark_data import numbered, produce

from insync.spark import log_files, log_rows
from insync.spark.log_options import read_options
from insync.testing import Cluster

COUNT = 3_000
FIRST = 1_700_000_000_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record i is i milliseconds old; one broker, stopped."""
    root = tmp_path_factory.mktemp("ours")
    with Cluster(brokers=1, directory=root) as cluster:
        settings = {"segment.bytes": "20000", "index.interval.bytes": "500", "retention.ms": "-1"}
        cluster.create_topic("t", partitions=1, **settings)
        times = [FIRST + i for i in range(COUNT)]
        sizes = {"batch.num.messages": 20}
        produce(cluster.bootstrap, "t", numbered(0, COUNT), timestamps=times, **sizes)
        cluster.stop(1)
    return root / "node-1" / "data"


def offsets(directory: Path, **options: str) -> list[int]:
    found = log_files.plan(read_options({"path": str(directory), "topics": "t", **options}))
    return [
        offset for each in found for batch in log_rows.read(each, ("offset",)) for offset in batch.column(0).to_pylist()
    ]


def test_everything_is_below_the_high_watermark_after_a_clean_stop(directory: Path) -> None:
    assert offsets(directory) == list(range(COUNT))
    assert len(log_files.plan(read_options({"path": str(directory), "topics": "t"}))) > 3


@pytest.mark.parametrize(("first", "end"), [(0, 1), (999, 1_001), (1_234, 2_345), (2_999, 3_000), (500, 500)])
def test_offsets_and_times_find_the_same_records(directory: Path, first: int, end: int) -> None:
    assert offsets(directory, startingOffset=str(first), endingOffset=str(end)) == list(range(first, end))
    times = {"startingTimestamp": str(FIRST + first), "endingTimestamp": str(FIRST + end)}
    assert offsets(directory, **times) == list(range(first, end))
    segments = log_files.plan(read_options({"path": str(directory), "topics": "t", **times}))
    bases = [each.base for each in log_files.plan(read_options({"path": str(directory), "topics": "t"}))]
    needed = [
        base for base, following in zip(bases, [*bases[1:], COUNT], strict=True) if base < end and following > first
    ]
    assert [each.base for each in segments] == (needed if first < end else [])


def test_the_metadata_log_is_read_by_name(directory: Path) -> None:
    plan = log_files.plan(read_options({"path": str(directory), "topics": "__cluster_metadata", "bound": "end"}))
    assert plan[0].broker == 1
    rows = sum(batch.num_rows for each in plan for batch in log_rows.read(each, ("offset", "value")))
    assert rows > 5
