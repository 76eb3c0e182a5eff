"""Log directories that our own broker wrote and closed: segments, indexes, high watermarks, timestamps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from insync.logdir.files import Segment, plan_segments
from insync.logdir.options import END, ReadOptions
from insync.logdir.rows import read_segment
from insync.testing import Cluster

COUNT = 3_000
FIRST_MS = 1_700_000_000_000


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topic t of one broker, stopped. Record i has the timestamp FIRST_MS + i."""
    root = tmp_path_factory.mktemp("ours")
    with Cluster(brokers=1, directory=root) as cluster:
        cluster.create_topic("t", partitions=1, segment_bytes=20_000, index_interval_bytes=500, retention_ms=-1)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "batch.num.messages": 20})
        for i in range(COUNT):
            producer.produce("t", b"v%06d" % i, b"k%d" % i, 0, timestamp=FIRST_MS + i)
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


def test_the_metadata_log_is_read_by_name(directory: Path) -> None:
    plan = segments(directory, "__cluster_metadata", bound=END)
    assert plan[0].broker == 1
    assert sum(batch.num_rows for segment in plan for batch in read_segment(segment, ("offset", "value"))) > 5
