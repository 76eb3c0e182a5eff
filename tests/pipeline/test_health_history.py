"""Replaying the metadata log: what happened to ISRs, for how long, and why."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from insync.pipeline.health import job as health
from insync.pipeline.health import metadata_log as health_log
from insync.pipeline.health.job import Health
from insync.pipeline.health.page import render_page
from insync.pipeline.health.tables import bucket_levels
from insync.quorum import snapshot_store
from insync.quorum.messages import OffsetAndEpoch
from insync.wire import batch, control, metadata_records
from insync.wire.batch import NewRecord
from insync.wire.metadata_records import (
    BrokerRegistrationChangeRecord,
    ConfigRecord,
    MetadataRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

APACHE = Path(__file__).resolve().parent.parent / "data" / "apache-kafka-metadata"
TOPIC = UUID(int=77)
START = 28_333_334 * 60_000
"""The beginning of a minute."""


def broker(number: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=number, incarnation_id=UUID(int=number), broker_epoch=number, end_points=(), fenced=False
    )


def fence(number: int, how: int = metadata_records.FENCED) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=number, broker_epoch=number, fenced=how)


def change(**fields: object) -> PartitionChangeRecord:
    return PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields)  # type: ignore[arg-type]


INITIAL: list[MetadataRecord] = [
    broker(1),
    broker(2),
    broker(3),
    TopicRecord(name="orders", topic_id=TOPIC),
    ConfigRecord(resource_type=2, resource_name="orders", name="min.insync.replicas", value="2"),
    PartitionRecord(
        partition_id=0, topic_id=TOPIC, replicas=(1, 2, 3), isr=(1, 2, 3), leader=1, leader_epoch=0, partition_epoch=0
    ),
]


def write_log(directory: Path, decisions: list[tuple[int, list[MetadataRecord]]], *, base: int = 0) -> Path:
    """Each decision is (second, records of one batch)."""
    path = directory / health_log.DIRECTORY
    path.mkdir(parents=True, exist_ok=True)
    data, offset = bytearray(), base
    if base == 0:
        data += control.leader_change_batch(
            leader_id=1, voters=[1], granting_voters=[1], base_offset=0, leader_epoch=1, timestamp_ms=START
        )
        offset = 1
    for second, records in decisions:
        encoded = [NewRecord(None, metadata_records.encode(record)) for record in records]
        data += batch.build(encoded, base_offset=offset, leader_epoch=1, timestamp_ms=START + second * 1_000)
        offset += len(encoded)
    (path / f"{base:020d}.log").write_bytes(data)
    return path


def replay(directory: Path, decisions: list[tuple[int, list[MetadataRecord]]]) -> Health:
    write_log(directory, [(0, INITIAL), *decisions])
    return health.read_health([directory])


def list_events(report: Health, *kinds: str) -> list[tuple[object, ...]]:
    columns = ("kind", "broker", "how", "cause", "by")
    return [tuple(row[name] for name in columns) for row in report.tables.events.to_pylist() if row["kind"] in kinds]


def test_a_leader_removes_a_follower_that_fell_behind_and_adds_it_again(tmp_path: Path) -> None:
    report = replay(tmp_path, [(10, [change(isr=(1, 2))]), (25, [change(isr=(1, 2, 3))]), (40, [change(isr=(1, 2))])])
    assert list_events(report, "isr_shrink", "isr_expand") == [
        ("isr_shrink", None, None, "broker 3 fell behind", "leader 1"),
        ("isr_expand", None, None, "broker 3 caught up", "leader 1"),
        ("isr_shrink", None, None, "broker 3 fell behind", "leader 1"),
    ]
    [partition] = report.tables.partitions.to_pylist()
    assert (partition["under_replicated_s"], partition["under_min_isr_s"]) == (15.0, 0.0)
    assert (partition["shrinks"], partition["expands"], partition["peak_per_minute"]) == (2, 1, 3)
    assert report.verdict == "1 partition under-replicated at the end"


def test_a_fenced_leader_causes_shrink_and_election_even_if_its_record_comes_later(tmp_path: Path) -> None:
    decision: list[MetadataRecord] = [change(isr=(2, 3), leader=2), fence(1)]
    report = replay(tmp_path, [(5, decision), (9, [fence(1, metadata_records.UNFENCED)])])
    assert list_events(report, "isr_shrink", "election", "broker_fenced") == [
        ("isr_shrink", None, None, "broker 1 fenced", "controller"),
        ("election", 2, "clean", "broker 1 fenced", "controller"),
        ("broker_fenced", 1, None, None, None),
    ]
    states = [(row["broker"], row["state"]) for row in report.tables.brokers.to_pylist()]
    assert states.count((1, "fenced")) == 1


def test_a_change_of_min_isr_counts_too(tmp_path: Path) -> None:
    raised = ConfigRecord(resource_type=2, resource_name="orders", name="min.insync.replicas", value="3")
    report = replay(tmp_path, [(10, [change(isr=(1, 2))]), (20, [raised]), (50, [change(isr=(1, 2, 3))])])
    [partition] = report.tables.partitions.to_pylist()
    assert (partition["under_replicated_s"], partition["under_min_isr_s"], partition["offline_s"]) == (40.0, 30.0, 0.0)


def test_an_election_from_the_elr_is_clean_and_one_from_neither_is_unclean(tmp_path: Path) -> None:
    lost = change(isr=(), leader=-1, eligible_leader_replicas=(1,))
    from_elr = change(isr=(1,), leader=1, eligible_leader_replicas=())
    gone = change(isr=(), leader=-1)
    unclean = change(isr=(3,), leader=3, leader_recovery_state=metadata_records.RECOVERING)
    report = replay(
        tmp_path, [(1, [lost, fence(1)]), (2, [from_elr]), (3, [gone]), (4, [unclean]), (9, [NoOpRecord()])]
    )
    assert [event[:3] for event in list_events(report, "election", "no_leader")] == [
        ("no_leader", -1, "none"),
        ("election", 1, "elr"),
        ("no_leader", -1, "none"),
        ("election", 3, "unclean"),
    ]
    assert not report.is_sound
    assert "1 unclean election," in report.verdict
    assert report.summary()["offline_s"] == 2.0


def test_leadership_that_returns_to_the_first_replica_is_preferred(tmp_path: Path) -> None:
    report = replay(tmp_path, [(1, [change(leader=2)]), (2, [change(leader=1)]), (3, [change(isr=(1, 2, 3))])])
    assert [event[1:3] for event in list_events(report, "election")] == [(2, "clean"), (1, "preferred")]


def test_replicas_being_added_do_not_count_as_missing(tmp_path: Path) -> None:
    """A partition is under-replicated if its ISR is smaller than its replica set before the move."""
    moving = change(replicas=(1, 2, 3, 4), adding_replicas=(4,), removing_replicas=(3,))
    moved = change(replicas=(1, 2, 4), isr=(1, 2, 4), adding_replicas=(), removing_replicas=())
    report = replay(tmp_path, [(1, [broker(4), moving]), (11, [moved]), (12, [fence(2, metadata_records.UNFENCED)])])
    assert report.summary()["under_replicated_s"] == 0.0
    assert [event[3] for event in list_events(report, "isr_shrink")] == ["reassigned"]
    assert report.count("reassignment_started") == report.count("reassignment_ended") == 1


def test_a_removed_topic_and_an_unregistered_broker_end_their_spans(tmp_path: Path) -> None:
    gone = UnregisterBrokerRecord(broker_id=3, broker_epoch=3)
    report = replay(tmp_path, [(10, [RemoveTopicRecord(topic_id=TOPIC)]), (60, [gone])])
    [partition] = report.tables.partitions.to_pylist()
    assert partition["watched_s"] == 10.0
    assert list_events(report, "broker_unregistered") == [("broker_unregistered", 3, None, None, None)]


def test_the_verdict_on_a_stopped_cluster_is_about_the_time_before(tmp_path: Path) -> None:
    stopping = [
        BrokerRegistrationChangeRecord(broker_id=number, broker_epoch=number, in_controlled_shutdown=1)
        for number in (1, 2, 3)
    ]
    offline = change(isr=(), leader=-1)
    report = replay(
        tmp_path, [(30, [stopping[0]]), (31, [stopping[1]]), (32, [stopping[2], offline]), (40, [NoOpRecord()])]
    )
    assert report.is_sound
    assert report.summary()["offline_now"] == 0


def test_the_state_before_the_log_comes_from_a_snapshot(tmp_path: Path) -> None:
    path = write_log(tmp_path, [(10, [change(isr=(1, 2))]), (20, [change(isr=(1, 2, 3))])], base=50)
    payloads = [metadata_records.encode(record) for record in INITIAL]
    snapshot = snapshot_store.encode(payloads, OffsetAndEpoch(50, 1), START)
    (path / f"{50:020d}-{1:010d}.checkpoint").write_bytes(snapshot)
    report = health.read_health([path])
    assert (report.from_snapshot, report.summary()["isr_shrinks"], report.summary()["under_replicated_s"]) == (
        True,
        1,
        10,
    )


def test_a_log_that_starts_late_without_a_snapshot_is_an_error(tmp_path: Path) -> None:
    path = write_log(tmp_path, [(10, [change(isr=(1, 2))])], base=50)
    with pytest.raises(health_log.MetadataLogError, match="starts at offset 50"):
        health.read_health([path])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(health_log.MetadataLogError, match="no __cluster_metadata-0"):
        health.read_health([empty])


def test_reading_stops_at_a_damaged_batch_and_skips_unknown_records(tmp_path: Path) -> None:
    path = write_log(tmp_path, [(0, INITIAL), (10, [change(isr=(1, 2))]), (20, [change(isr=(1, 2, 3))])])
    log = path / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    last = list(batch.iter_headers(data))[-1][0]
    data[last + 70] ^= 1
    unknown = batch.build([NewRecord(None, b"\x01\x7f\x00")], base_offset=1, leader_epoch=1, timestamp_ms=START)
    first = batch.read_header(data).length
    data[first:first] = unknown
    log.write_bytes(data)
    report = health.read_health([tmp_path])
    assert (report.count("isr_shrink"), report.count("isr_expand"), report.skipped) == (1, 0, 1)


def test_levels_are_the_maximum_in_each_bucket(tmp_path: Path) -> None:
    report = replay(tmp_path, [(10, [change(isr=(1, 2))]), (30, [change(isr=(1, 2, 3))]), (40, [fence(3)])])
    levels = bucket_levels(report.tables.spans, "under_replicated", report.start_ms, report.end_ms, 4)
    assert levels.tolist() == [0, 1, 1, 0] or levels.tolist() == [0, 1, 1, 1]


def test_the_page_is_self_contained(tmp_path: Path) -> None:
    report = replay(tmp_path, [(10, [change(isr=(2, 3), leader=2), fence(1)]), (20, [change(isr=(1, 2, 3))])])
    page = render_page(report)
    assert "<svg" in page
    assert "prefers-color-scheme: dark" in page
    assert 'name="viewport"' in page
    assert "broker 1 fenced" in page
    assert not any(word in page for word in ("http:", "https:", "<script", "src=", "@import", "url("))


def test_internal_topics_come_after_those_of_users(tmp_path: Path) -> None:
    offsets = UUID(int=78)
    created: list[MetadataRecord] = [
        TopicRecord(name="__consumer_offsets", topic_id=offsets),
        PartitionRecord(
            partition_id=0, topic_id=offsets, replicas=(1, 2), isr=(1,), leader=1, leader_epoch=0, partition_epoch=0
        ),
    ]
    page = render_page(replay(tmp_path, [(1, created), (30, [change(isr=(1, 2))])]))
    affected = page[page.index("Most affected partitions") :]
    assert affected.index("orders-<wbr>0") < affected.index("__<wbr>consumer_<wbr>offsets-<wbr>0")


def test_a_period_cannot_end_before_the_log_begins(tmp_path: Path) -> None:
    write_log(tmp_path, [(0, INITIAL), (10, [change(isr=(1, 2))])])
    with pytest.raises(health.EmptyPeriodError, match=r"the log begins at 2023-11-14T22:14:00\.000Z"):
        health.read_health([tmp_path], until_ms=START - 1)
    assert health.read_health([tmp_path], until_ms=START).seconds == 0


def test_a_period_cannot_end_before_the_snapshot(tmp_path: Path) -> None:
    path = write_log(tmp_path, [(10, [change(isr=(1, 2))])], base=50)
    payloads = [metadata_records.encode(record) for record in INITIAL]
    snapshot = snapshot_store.encode(payloads, OffsetAndEpoch(50, 1), START)
    (path / f"{50:020d}-{1:010d}.checkpoint").write_bytes(snapshot)
    with pytest.raises(health.EmptyPeriodError, match="the log begins at"):
        health.read_health([path], until_ms=START - 1)


def test_a_log_without_records_is_an_error(tmp_path: Path) -> None:
    (write_log(tmp_path, []) / f"{0:020d}.log").write_bytes(b"")
    with pytest.raises(health_log.MetadataLogError, match="holds no records"):
        health.read_health([tmp_path], until_ms=START)


def test_a_metadata_log_of_apache_kafka_shows_a_killed_broker() -> None:
    report = health.read_health([APACHE])
    assert report.is_sound
    totals = report.summary()
    assert (totals["partitions"], totals["unclean_elections"], totals["controlled_shutdowns"]) == (5, 0, 3)
    assert totals["isr_expands"] == 5
    causes = {(row["kind"], row["cause"]): row["times"] for row in report.tables.causes.to_pylist()}
    assert causes["isr_shrink", "broker 2 fenced"] == 5
    assert report.count("controller_elected") >= 1
    assert report.tables.partitions["under_replicated_s"].to_pylist()[0] > 1
    assert {row["topic"]: row["min_isr"] for row in report.tables.spans.to_pylist()} == {"orders": 2, "packed": 2}
