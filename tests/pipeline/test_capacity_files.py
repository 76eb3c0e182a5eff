"""Measuring segments and keys, and a whole cluster's directories, without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from struct import pack
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.logdir.options import ReadOptions
from insync.pipeline.capacity.cluster_load import ClusterLoad, load_cluster
from insync.pipeline.capacity.job import CapacityOptions, analyze
from insync.pipeline.capacity.page import render_page
from insync.pipeline.capacity.segment_sizes import HOUR_MS, SegmentTask, measure_segment
from insync.pipeline.capacity.superseded import KeyShare, count_superseded
from insync.wire import batch
from insync.wire.batch import NewRecord
from tests.pipeline.audit_data import write_segment
from tests.pipeline.capacity_data import START_MS, make_batches, write_cluster
from tests.pipeline.cluster_directories import make_cluster


def test_indexes_and_headers_give_the_same_sizes(tmp_path: Path) -> None:
    batches = make_batches(48)
    write_segment(tmp_path, batches)
    path = str(tmp_path / f"{0:020d}.log")
    headers = measure_segment(SegmentTask(path, 0, None, False))
    index = measure_segment(SegmentTask(path, 0, 480, False))
    assert headers.records == index.records == 480
    assert headers.size == index.size == sum(map(len, batches))
    assert (headers.first_ms, headers.max_timestamp) == (index.first_ms, index.max_timestamp)
    assert sum(size for size, _ in index.hours.values()) == index.size
    assert sum(count for _, count in index.hours.values()) == 480
    first = START_MS // HOUR_MS
    assert headers.hours == {first + hour: (len(data), 10) for hour, data in enumerate(batches)}
    assert index.hours == headers.hours


@given(st.integers(1, 12), st.lists(st.integers(0, 200), min_size=3, max_size=40), st.randoms())
@settings(max_examples=60, deadline=None)
def test_sparse_indexes_move_sizes_by_one_interval_at_most(interval: int, minutes: list[int], rng: Random) -> None:
    """Of the batches between two entries, the hour is that of the entry before or after them."""
    time_ms, position, offset = START_MS, 0, 0
    offsets, times, data = b"", b"", b""
    newest = -1
    for number, more in enumerate(minutes):
        time_ms += more * 60_000
        records = [NewRecord(None, b"v" * rng.randint(1, 300)) for _ in range(rng.randint(1, 5))]
        built = batch.build(records, base_offset=offset, leader_epoch=0, timestamp_ms=time_ms)
        last = offset + len(records) - 1
        if number and number % interval == 0:
            offsets += pack(">ii", last, position)
            if time_ms > newest:
                times += pack(">qi", time_ms, last)
                newest = time_ms
        offset, position, data = last + 1, position + len(built), data + built
    if time_ms > newest and times:
        times += pack(">qi", time_ms, offset - 1)
    with TemporaryDirectory() as directory:
        stem = Path(directory, f"{0:020d}")
        for suffix, content in ((".log", data), (".index", offsets), (".timeindex", times)):
            stem.with_suffix(suffix).write_bytes(content)
        exact = measure_segment(SegmentTask(f"{stem}.log", 0, None, False))
        measured = measure_segment(SegmentTask(f"{stem}.log", 0, offset, False))
    assert (measured.size, measured.records, measured.first_ms) == (exact.size, exact.records, exact.first_ms)
    assert measured.max_timestamp == exact.max_timestamp
    assert sum(size for size, _ in measured.hours.values()) == exact.size
    assert sum(count for _, count in measured.hours.values()) == exact.records
    largest = interval * 2_000  # bytes between two entries
    for hour in exact.hours:
        before = sum(size for known, (size, _) in exact.hours.items() if known <= hour)
        approximate = sum(size for known, (size, _) in measured.hours.items() if known <= hour)
        assert abs(before - approximate) <= 2 * largest


@pytest.mark.parametrize("damage", ["no index", "torn index", "index of another segment"])
def test_segments_without_usable_indexes_are_read(tmp_path: Path, damage: str) -> None:
    write_segment(tmp_path, make_batches(10))
    stem = tmp_path / f"{0:020d}"
    index = stem.with_suffix(".index")
    if damage == "no index":
        index.unlink()
    elif damage == "torn index":
        index.write_bytes(index.read_bytes()[:-3])
    else:
        os.truncate(stem.with_suffix(".log"), 1_000)
    measured = measure_segment(SegmentTask(f"{stem}.log", 0, 100, False))
    assert measured.records == (0 if damage == "index of another segment" else 100)
    assert measured.broken == (damage == "index of another segment")


def test_a_segment_may_vanish_or_have_no_timestamps(tmp_path: Path) -> None:
    assert measure_segment(SegmentTask(str(tmp_path / "none.log"), 7, None, False)).size == 0
    data = batch.build([NewRecord(None, b"x")], base_offset=0, leader_epoch=0, timestamp_ms=-1)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(bytes(data))
    os.utime(path, (START_MS / 1_000, START_MS / 1_000))
    measured = measure_segment(SegmentTask(str(path), 0, None, False))
    assert measured.hours == {START_MS // HOUR_MS: (len(data), 1)}
    assert (measured.first_ms, measured.max_timestamp) == (START_MS, -1)


def test_superseded_records_are_counted_by_key() -> None:
    def rows(*pairs: tuple[bytes | None, bytes | None]) -> pa.RecordBatch:
        keys, values = zip(*pairs, strict=True)
        columns = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.nulls(len(pairs), pa.string())]
        return pa.RecordBatch.from_arrays(columns, ["key", "value", "error"])

    batches = [
        rows((b"a", b"12345"), (b"b", b"1"), (b"a", b"12"), (None, b"123")),
        rows((b"b", None), (b"", b"1"), (None, b"1")),
    ]
    share = count_superseded(batches)
    assert (share.records, share.keys, share.superseded, share.tombstones) == (7, 5, 2, 1)
    assert (share.size, share.superseded_size) == (6 + 2 + 3 + 3 + 1 + 1 + 1, 6 + 2)
    assert count_superseded([]) == KeyShare()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> ClusterLoad:
    paths = write_cluster(tmp_path_factory.mktemp("capacity"))
    return load_cluster(ReadOptions(paths=tuple(paths)))


def test_the_directories_of_a_cluster_are_measured(cluster: ClusterLoad) -> None:
    loads = {partition.key: partition for partition in cluster.partitions}
    assert len(loads) == 8
    assert loads["orders", 3].records == 480
    assert loads["orders", 3].replicas == (1, 2)
    assert set(loads["orders", 3].replica_sizes) == {1, 2}
    assert loads["orders", 3].settings is not None
    assert loads["orders", 3].settings.retention_ms == 24 * HOUR_MS
    keys = loads["users", 0].keys
    assert keys is not None
    assert (keys.records, keys.keys) == (120, 5)
    assert [(node.id, node.rack, node.active) for node in cluster.brokers] == [
        (1, "b", True),
        (2, "a", True),
        (3, "b", True),
        (4, "a", True),
    ]
    assert [bool(node.stray_size) for node in cluster.brokers] == [False, False, True, False]


def test_the_proposal_for_a_skewed_cluster_keeps_racks(cluster: ClusterLoad) -> None:
    report = analyze(cluster, CapacityOptions(logs=()))
    assert report.skew > 1.8
    assert report.skew_after < 1.2
    racks = {node.id: node.rack for node in cluster.brokers}
    assert all(len({racks[broker] for broker in move.after}) == 2 for move in report.moves)
    [orders, *_] = report.costs
    assert (orders.topic, orders.expired) == ("orders", 0)
    assert orders.savings[0].freed == pytest.approx(orders.size / 2, rel=0.1)


def test_the_page_has_a_plot_of_everything(cluster: ClusterLoad) -> None:
    page = render_page(analyze(cluster, CapacityOptions(logs=(), disks={1: 100_000})))
    for text in ("Brokers", "Growth", "Written most", "Retention", "Proposed reassignment", "broker 3 (b)"):
        assert text in page
    assert page.count("<svg") > 20


@pytest.mark.parametrize("seed", range(3))
def test_directories_of_both_kinds_are_measured(tmp_path: Path, seed: int) -> None:
    """Ours and Apache Kafka's, mixed; node 3 has a replica that was moved away."""
    directories = make_cluster(tmp_path, seed)
    loaded = load_cluster(directories.options())
    sizes = {partition.key: partition.replica_sizes for partition in loaded.partitions}
    assert set(sizes["moved", 0]) == {1, 2}
    assert [node.stray_size > 0 for node in loaded.brokers] == [False, False, True]
    assert sizes["orders", 1][2] == sum(path.stat().st_size for path in directories.segments(2, "orders", 1))
    report = analyze(loaded, CapacityOptions(logs=()))
    assert report.cluster.unread == 0
    assert all(not move.copies for move in report.moves if move.topic == "orders")
