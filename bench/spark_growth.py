"""`insync-log` beside plain reads of the same files, and how everything grows with records, partitions and segments."""

from __future__ import annotations

from pathlib import Path

import spark_topics
from common import table
from spark_measure import measure
from spark_queries import Queries
from spark_topics import Load

from insync.testing import Cluster

MB = 1e6
SEGMENT, SEGMENT_ROWS = 1 << 20, 9_000
"""A segment of 1 MiB has about so many records of 100 bytes."""


def files(cluster: Cluster, queries: Queries, rows: int) -> dict[str, float]:
    """The files are in the page cache, as those of a busy log are."""
    found, lines = {}, []
    for size, codec in ((100, "none"), (1_000, "none"), (100, "lz4")):
        load = Load(size, codec, rows if size == 100 else rows // 5, partitions=3)
        spark_topics.fill(cluster, load)
        segments = _segments(cluster, load)
        written = sum(path.stat().st_size for path in segments)
        sample = queries.files(load, _data(cluster))
        plain = measure(lambda: _read(segments), warm=1, runs=3)  # noqa: B023  called at once
        speed = written / sample.seconds / MB
        found[load.title] = speed
        lines.append((load.title, written / MB, speed, load.rows / sample.seconds / 1e6, written / plain.seconds / MB))
    table("insync-log → noop, all columns", ("", "MB", "MB/s of log", "Mrow/s", "plain read MB/s"), lines)
    return found


def scale(cluster: Cluster, queries: Queries, rows: int) -> dict[str, float]:
    """1x, 10x and 100x: after the cost of any query, time must not grow faster than what is read."""
    found, lines = {}, []
    steps = (1, 10, 100)
    loads = [(f"{rows // 100 * n:,} records", Load(100, "none", rows // 100 * n, partitions=1)) for n in steps]
    loads += [(f"{n} partitions", Load(100, "none", rows // 10, partitions=n)) for n in steps]
    loads += [(f"{n} segments", Load(100, "none", SEGMENT_ROWS * n, 1, SEGMENT)) for n in steps]
    for name, load in loads:
        spark_topics.fill(cluster, load)
        from_files = load.segment_bytes == SEGMENT
        sample = queries.files(load, _data(cluster)) if from_files else queries.noop(load)
        found[name] = sample.seconds
        lines.append((name, "insync-log" if from_files else "insync", load.rows, sample.seconds, sample.cpu_seconds))
    table("how it grows (→ noop)", ("", "source", "rows", "s", "CPU s"), lines)
    return found


def _data(cluster: Cluster) -> Path:
    return cluster.nodes[1].directory / "data"


def _segments(cluster: Cluster, load: Load) -> list[Path]:
    return sorted(_data(cluster).rglob(f"{load.topic}-[0-9]*/*.log"))


def _read(paths: list[Path]) -> None:
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
