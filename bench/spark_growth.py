"""`insync-log` beside plain reads of the same files, and how everything grows with records, partitions and segments."""

from __future__ import annotations

import os
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
FEW = "partition int, offset bigint, key binary, value binary"


def files(cluster: Cluster, queries: Queries, rows: int) -> dict[str, float]:
    """The files are in the page cache, as those of a busy log are. The disk's own speed is that of a first read."""
    found, lines = {}, []
    for size, codec in ((100, "none"), (1_000, "none"), (100, "lz4")):
        load = Load(size, codec, rows if size == 100 else rows // 2, partitions=3)
        spark_topics.fill(cluster, load)
        segments = _segments(cluster, load)
        written = sum(path.stat().st_size for path in segments)
        disk = measure(lambda: _read(segments, cold=True), warm=0, runs=3)  # noqa: B023  called at once
        cache = measure(lambda: _read(segments), warm=1, runs=3)  # noqa: B023  called at once
        for columns in (FEW, ""):
            sample = queries.files(load, _data(cluster), columns)
            title = f"{load.title}, {len(columns.split(',')) if columns else 'all'} columns"
            found[title] = written / sample.seconds / MB
            reads = written / disk.seconds / MB, written / cache.seconds / MB
            lines.append((title, written / MB, found[title], load.rows / sample.seconds / 1e6, *reads))
    table("insync-log → noop", ("", "MB", "MB/s of log", "Mrow/s", "disk MB/s", "page cache MB/s"), lines)
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


def _read(paths: list[Path], *, cold: bool = False) -> None:
    for path in paths:
        with path.open("rb", buffering=0) as file:
            if cold:
                os.fsync(file.fileno())  # only what is on disk can be dropped from memory
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            while file.read(1 << 20):
                pass
