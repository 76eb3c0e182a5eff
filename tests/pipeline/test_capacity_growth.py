"""Growth, projections, retention and skew, on plain data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from insync.ops.reassignment.plan import Move
from insync.pipeline.capacity.cluster_load import BrokerNode, ClusterLoad, RetentionSettings
from insync.pipeline.capacity.growth import DAY_MS, TIMES_MS, find_full_days, measure_rate, project_size
from insync.pipeline.capacity.job import ALL_BROKERS, CapacityOptions, analyze
from insync.pipeline.capacity.retention_cost import RETENTION_BYTES, RETENTION_MS, Change, cost_of_topic
from insync.pipeline.capacity.segment_sizes import HOUR_MS
from insync.pipeline.capacity.skew import measure_skew
from tests.pipeline.capacity_data import FOREVER, START_MS, make_load, make_segment

END_MS = START_MS + 10 * HOUR_MS - 1
WEEK_MS = 7 * DAY_MS


def test_the_rate_is_that_of_the_window() -> None:
    load = make_load(0, (1,), [make_segment(0, range(5), 100), make_segment(50, range(5, 10), 300)])
    rate = measure_rate(load, END_MS, WEEK_MS)
    assert (round(rate.size), round(rate.records)) == (200, 10)
    recent = measure_rate(load, END_MS, 2 * HOUR_MS)
    assert (round(recent.size), round(recent.records)) == (300, 10)
    assert measure_rate(load, START_MS - 1, WEEK_MS).size == 0


def test_less_than_an_hour_counts_as_an_hour() -> None:
    load = make_load(0, (1,), [make_segment(0, [0], 500)])
    assert measure_rate(load, START_MS + 1_000, WEEK_MS).size == 500


def test_an_unlimited_partition_grows_until_the_disk_is_full() -> None:
    load = make_load(0, (1,), [make_segment(0, range(10), 100)])
    rate = measure_rate(load, END_MS, WEEK_MS)
    sizes = project_size(load, rate, END_MS)
    assert sizes[0] == 1_000
    assert find_full_days(sizes, 1_000 + 24 * 100) == pytest.approx(1, abs=0.05)
    assert find_full_days(sizes, 10) == 0
    assert find_full_days(sizes, 10**12) is None


def test_a_partition_with_retention_stops_growing() -> None:
    day = replace(FOREVER, retention_ms=DAY_MS)
    load = make_load(0, (1,), [make_segment(0, range(10), 100)], day)
    sizes = project_size(load, measure_rate(load, END_MS, WEEK_MS), END_MS)
    assert sizes[0] == 1_000
    assert sizes.max() == pytest.approx(3_400, abs=101)  # the last hour of the segment decides when it goes
    assert sizes[-1] == pytest.approx(2_400, abs=1)
    old = project_size(load, measure_rate(load, END_MS, WEEK_MS), END_MS + WEEK_MS)
    assert (old[0], old[1]) == (1_000, pytest.approx(100, abs=1))
    limited = make_load(0, (1,), load.segments, replace(FOREVER, retention_bytes=1_500))
    assert project_size(limited, measure_rate(limited, END_MS, WEEK_MS), END_MS)[-1] == 2_500  # and a segment
    assert len(sizes) == len(TIMES_MS)


def test_retention_keeps_and_frees_whole_segments() -> None:
    """Ten hours in five segments, of which the active one is never deleted before its time."""
    segments = [make_segment(20 * i, [2 * i, 2 * i + 1], 100) for i in range(5)]
    settings = RetentionSettings(retention_ms=8 * HOUR_MS, retention_bytes=-1, deletes=True, compacts=False)
    load = make_load(0, (1, 2), segments, settings)
    rate = measure_rate(load, END_MS, WEEK_MS)
    changes = [
        Change(name=RETENTION_MS),
        Change(name=RETENTION_BYTES),
        Change(name=RETENTION_BYTES, value=500),
        Change(name=RETENTION_MS, value=8 * HOUR_MS),
    ]
    cost = cost_of_topic([load], [rate], END_MS, changes)
    assert cost is not None
    assert (cost.size, cost.expired, cost.oldest_ms) == (2_000, 0, 10 * HOUR_MS - 1)
    assert cost.steady_size == pytest.approx(2 * 800, abs=2)
    assert [(str(saving.change), saving.freed) for saving in cost.savings] == [
        ("half of retention.ms", 2 * 400),
        ("retention.bytes=500", 2 * 400),
    ]


def test_an_idle_topic_loses_its_active_segment_too() -> None:
    load = make_load(0, (1,), [make_segment(0, [0], 100)], replace(FOREVER, retention_ms=HOUR_MS))
    cost = cost_of_topic([load], [measure_rate(load, END_MS, WEEK_MS)], END_MS, [])
    assert cost is not None
    assert cost.expired == 100


def test_compacted_topics_have_no_retention_to_change() -> None:
    compacted = RetentionSettings(retention_ms=1, retention_bytes=-1, deletes=False, compacts=True)
    load = make_load(0, (1,), [make_segment(0, range(10), 100)], compacted)
    cost = cost_of_topic([load], [measure_rate(load, END_MS, WEEK_MS)], END_MS, [Change(name=RETENTION_MS)])
    assert cost is not None
    assert (cost.savings, cost.steady_size, cost.expired) == ((), None, 0)


def make_cluster() -> ClusterLoad:
    partitions = [make_load(i, (1,), [make_segment(0, range(10), 100)]) for i in range(4)]
    return ClusterLoad(partitions=tuple(partitions), brokers=(BrokerNode(id=1), BrokerNode(id=2)), has_metadata=True)


def test_a_report_has_skew_growth_and_a_proposal() -> None:
    report = analyze(make_cluster(), CapacityOptions(logs=(), disks={ALL_BROKERS: 13_600, 2: 20_000}))
    first, second = report.brokers
    assert (first.size, first.leaders, first.replicas, second.size) == (4_000, 4, 4, 0)
    assert first.full_days == pytest.approx(1, abs=0.05)
    assert (second.full_days, second.disk) == (None, 20_000)
    assert report.skew == 2
    assert report.moves == (Move("t", 2, (1,), (2,)), Move("t", 3, (1,), (2,)))
    assert report.sizes_after == {1: 2_000, 2: 2_000}
    assert report.preferred_after == {1: 2, 2: 2}
    assert (report.estimate.copies, report.estimate.copied) == (2, 2_000)
    assert report.skew_after == 1
    assert report.to_dict()["proposal"]["plan"] == report.document
    assert report.notes == ()


def test_what_limits_a_report_is_noted() -> None:
    cluster = make_cluster()
    without = replace(cluster, has_metadata=False)
    assert analyze(without, CapacityOptions(logs=())).moves == ()
    assert "no metadata log" in analyze(without, CapacityOptions(logs=())).notes[0]
    fenced = replace(
        cluster,
        brokers=(BrokerNode(id=1), BrokerNode(id=2, active=False, known=False, stray_size=5)),
        partitions=(replace(cluster.partitions[0], reassigning=True), *cluster.partitions[1:]),
        unread=7,
    )
    report = analyze(fenced, CapacityOptions(logs=()))
    assert report.moves == ()
    words = ("no directories of broker 2", "broker 2 fenced", "1 partition being reassigned", "5 bytes", "7 bytes")
    assert all(word in note for word, note in zip(words, report.notes, strict=True))
    assert analyze(cluster, CapacityOptions(logs=(), excluded=(2,))).moves == ()


def test_a_replica_whose_directory_is_not_given_is_as_large_as_the_others() -> None:
    load = make_load(0, (1, 2), [make_segment(0, range(10), 100)])
    load = replace(load, replica_sizes={1: 1_000})
    brokers = (BrokerNode(id=1), BrokerNode(id=2, known=False))
    report = analyze(ClusterLoad(partitions=(load,), brokers=brokers, has_metadata=True), CapacityOptions(logs=()))
    assert [broker.size for broker in report.brokers] == [1_000, 1_000]


def test_a_cluster_without_records_has_a_report() -> None:
    empty = ClusterLoad(partitions=(make_load(0, (1,), []),), brokers=(BrokerNode(id=1),), has_metadata=True)
    report = analyze(empty, CapacityOptions(logs=(), disks={1: 100}))
    assert (report.end_ms, report.skew, report.moves) == (-1, 1.0, ())
    assert report.to_dict()["end"] is None


def test_skew_is_the_largest_by_the_mean() -> None:
    assert (measure_skew([1, 1]), measure_skew([3, 1]), measure_skew([0, 0]), measure_skew([])) == (1, 1.5, 1, 1)
