"""Damaged batches on real nodes over simulated disks (D6): they are detected, not served, and repaired."""

from __future__ import annotations

from dataclasses import replace

import pytest

from insync.node.config import BROKER
from insync.replication import fetch_server
from insync.replication.config import VERIFY_ALWAYS, VERIFY_FIRST, VERIFY_NEVER, ReplicationConfig
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import delete_records
from insync.wire.types import ms
from tests.node.bit_rot_harness import (
    BATCHES,
    NO_SCRUB,
    SCRUB,
    damage_batch,
    fetch_offsets,
    findings,
    lose_replica,
    produce_batches,
    replicas_are_intact,
    start_with_batches,
)
from tests.node.node_harness import Net, config, produce_request


@pytest.mark.parametrize("at", [3, 9, 14, 18, 70])
def test_the_scrub_finds_damage_of_a_follower_and_repairs_it_from_the_leader(at: int) -> None:
    """D6: in the base offset, the length, the leader epoch, the CRC, and in a record."""
    net = start_with_batches(**SCRUB)
    damage_batch(net, 2, 3, at)
    net.advance(5_000)
    assert replicas_are_intact(net)
    kinds = net.kinds(2)
    assert kinds.index("batch_suspected") < kinds.index("finding") < kinds.index("batch_repaired")
    assert kinds.index("batch_repaired") < kinds.index("finding_cleared")
    assert (findings(net, 2), net.partition("t").leader, net.partition("t").isr) == ([], 1, (1, 2, 3))


def test_a_leader_hands_its_leadership_over_before_it_repairs_its_log() -> None:
    """D6: to another member of the ISR; meanwhile the damaged batch is not served."""
    net = start_with_batches(**SCRUB)
    damage_batch(net, 1, 3)
    net.hold = [(1, "repair")]
    net.advance(5_000)
    assert net.partition("t").leader == 2
    assert fetch_offsets(net, 2) == (list(range(BATCHES)), ErrorCode.none)
    assert findings(net, 1) == ["corrupt_batch"]
    net.release()
    net.advance(2_000)
    assert replicas_are_intact(net)
    assert (findings(net, 1), sorted(net.partition("t").isr)) == ([], [1, 2, 3])
    net.produce(2, "t", b"more")
    assert [net.log("t", node_id).leo for node_id in (1, 2, 3)] == [BATCHES + 1] * 3


def test_a_follower_that_is_sent_a_damaged_batch_makes_its_leader_verify_it() -> None:
    """D6: it asks for the same offset again, which no healthy follower does. An intact replica takes over, and both the
    one that was rebuilt and the damaged one get an intact copy from it."""
    net = start_with_batches(**NO_SCRUB)
    lose_replica(net, 3)
    damage_batch(net, 1, 3)
    net.start(3)
    net.advance(30_000)
    assert replicas_are_intact(net)
    assert net.partition("t").leader == 2
    assert sorted(net.partition("t").isr) == [1, 2, 3]
    texts = [note.fields["text"] for at, note in net.notes if at == 3 and note.kind == "finding"]
    assert any("does not catch up" in text for text in texts)
    assert (findings(net, 1), findings(net, 3)) == ([], [])


def test_the_only_member_of_the_isr_stays_leader_and_serves_what_is_intact() -> None:
    """D6: it does not hand over to a replica that may have lost records. It still repairs its log from that replica if
    the range is intact there."""
    net = start_with_batches((1, 2), **SCRUB)
    net.crash(2)
    net.advance(30_000)
    assert net.partition("t").isr == (1,)
    damage_batch(net, 1, 3)
    net.advance(5_000)
    assert net.partition("t").leader == 1
    assert fetch_offsets(net, 1, 0) == ([0, 1, 2], ErrorCode.none)
    assert fetch_offsets(net, 1, 3) == ([], ErrorCode.kafka_storage_error)
    assert fetch_offsets(net, 1, 4) == ([4, 5, 6, 7], ErrorCode.none)
    (finding,) = net.nodes[1].findings.current()
    assert (finding.kind, finding.severity) == ("corrupt_batch", "critical")
    assert "offsets 3 to 3 in data/t-0/00000000000000000000.log" in finding.text
    assert "waiting for broker 2" in finding.text
    net.start(2)
    net.advance(60_000)
    assert replicas_are_intact(net)
    assert findings(net, 1) == []


def test_without_any_intact_copy_readers_get_corrupt_message() -> None:
    """D6: there will be no repair to wait for."""
    net = start_with_batches((1,), **SCRUB)
    damage_batch(net, 1, 3)
    net.advance(5_000)
    assert fetch_offsets(net, 1, 3) == ([], ErrorCode.corrupt_message)
    assert "no other replica has an intact copy" in net.nodes[1].findings.current()[0].text


def test_damage_in_different_places_is_repaired_crosswise() -> None:
    """D6: no intact copy is replaced by a damaged one, whichever replica is asked first."""
    net = start_with_batches(**SCRUB)
    damage_batch(net, 1, 1)
    damage_batch(net, 2, 4)
    damage_batch(net, 3, 6)
    net.advance(40_000)
    assert replicas_are_intact(net)
    assert [findings(net, node_id) for node_id in (1, 2, 3)] == [[], [], []]


def test_a_batch_that_is_damaged_everywhere_is_reported_by_all_and_replaced_by_none() -> None:
    """D6: and the log goes on around it."""
    net = start_with_batches(**SCRUB)
    for node_id in (1, 2, 3):
        damage_batch(net, node_id, 2, 70 + node_id)
    net.advance(60_000)
    assert [findings(net, node_id) for node_id in (1, 2, 3)] == [["corrupt_batch"]] * 3
    leader = net.partition("t").leader
    assert leader >= 0
    net.produce(leader, "t")
    assert fetch_offsets(net, leader, 3) == ([3, 4, 5, 6, 7, 8], ErrorCode.none)


@pytest.mark.parametrize(
    ("verify", "restarted", "served"),
    [
        (VERIFY_NEVER, True, BATCHES),
        (VERIFY_FIRST, False, BATCHES),
        (VERIFY_FIRST, True, 3),
        (VERIFY_ALWAYS, False, 3),
    ],
)
def test_consumers_are_sent_verified_batches(verify: str, restarted: bool, served: int) -> None:
    """D6: insync.fetch.verify.checksums; the batches before the damaged one are sent. What a broker has just written
    need not be verified; what it finds when it starts is, when it is first read."""
    net = start_with_batches((1,), **NO_SCRUB, replication=ReplicationConfig(fetch_verify_checksums=verify))
    if restarted:
        net.crash(1)
        net.start(1)
        net.advance(15_000)
    damage_batch(net, 1, 3)
    net.hold = [(1, "controller")]
    assert fetch_offsets(net, 1) == (list(range(served)), ErrorCode.none)


def test_a_log_that_starts_within_a_batch_is_intact() -> None:
    """D6: the scrub and the first read after a restart check the batch that DeleteRecords cut, and find it sound."""
    net = start_with_batches(**SCRUB)
    leader = net.partition("t").leader
    request = produce_request(net.partition("t"))
    records = bytes(batch.build([batch.NewRecord(None, b"v")] * 3, timestamp_ms=1))
    data = replace(request.topic_data[0].partition_data[0], records=records)
    topic = replace(request.topic_data[0], partition_data=(data,))
    net.answered(leader, replace(request, topic_data=(topic,)))
    start = BATCHES + 1
    cut = delete_records.DeleteRecordsPartition(partition_index=0, offset=start)
    deletion = delete_records.DeleteRecordsTopic(name="t", partitions=(cut,))
    net.ask(leader, delete_records.DeleteRecordsRequest(topics=(deletion,), timeout=ms(1_000)))
    net.advance(10_000)
    for node_id in (1, 2, 3):
        net.crash(node_id)
        net.start(node_id)
        net.advance(15_000)
        assert net.log("t", node_id).log_start == start
    assert [findings(net, node_id) for node_id in (1, 2, 3)] == [[], [], []]
    assert fetch_offsets(net, net.partition("t").leader, start) == ([BATCHES], ErrorCode.none)


def test_every_batch_is_verified_once_and_by_one_reader() -> None:
    """D6: a consumer or the scrub, whichever comes first; and again when its segment was closed meanwhile."""
    net = start_with_batches((1,), **NO_SCRUB)
    net.crash(1)
    net.start(1)
    net.advance(15_000)
    segment = net.log("t").active
    assert not segment.is_verified(0, segment.size)
    fetch_offsets(net, 1, 4)
    assert segment.is_verified(segment.size // 2, segment.size)
    assert not segment.is_verified(0, segment.size)
    fetch_offsets(net, 1)
    assert segment.is_verified(0, segment.size)
    before = segment.size
    net.produce(1, "t")
    assert segment.is_verified(0, segment.size)
    net.log("t").roll()
    segment.close()
    assert segment.is_verified(0, before)
    assert not segment.is_verified(0, segment.size)


def test_an_answer_verifies_a_bounded_number_of_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """D6: many tiny batches do not delay other requests; the rest comes with the next fetch."""
    monkeypatch.setattr(fetch_server, "MAX_VERIFIED_BATCHES", 3)
    net = start_with_batches((1,), **NO_SCRUB)
    net.crash(1)
    net.start(1)
    net.advance(15_000)
    assert fetch_offsets(net, 1) == ([0, 1, 2], ErrorCode.none)
    assert fetch_offsets(net, 1, 3) == ([3, 4, 5], ErrorCode.none)


def test_any_replica_answers_a_verifying_reader_up_to_its_high_watermark() -> None:
    """F3: Kafka's replica id -2, as kafka-replica-verification sends it; other consumers read from leaders."""
    net = start_with_batches(**NO_SCRUB)
    assert fetch_offsets(net, 2, replica_id=-2) == (list(range(BATCHES)), ErrorCode.none)
    assert fetch_offsets(net, 2) == ([], ErrorCode.not_leader_or_follower)
    damage_batch(net, 2, 5)
    assert fetch_offsets(net, 2, replica_id=-2) == ([0, 1, 2, 3, 4], ErrorCode.none)
    net.advance(3_000)
    assert replicas_are_intact(net)


def test_a_length_that_changed_does_not_end_the_node_that_reads_it() -> None:
    """D6: a walk over headers meets it before any checksum does."""
    net = start_with_batches(**NO_SCRUB)
    for node_id in (1, 2, 3):
        net.log("t", node_id).active.hints.clear()
    damage_batch(net, 1, 2, 8)
    assert fetch_offsets(net, 1, 6) == ([], ErrorCode.kafka_storage_error)
    net.advance(5_000)
    assert not net.stops
    assert net.partition("t").leader == 2
    assert replicas_are_intact(net)


def test_a_pass_of_the_scrub_takes_as_long_as_its_rate_says() -> None:
    """D6: and the next one begins after the interval."""
    net = Net(config(1, scrub_interval_ms=20_000, scrub_bytes_per_second=2_000, roles=(BROKER, "controller"))).up()
    net.create("t")
    produce_batches(net)
    scrubber = net.broker().scrubber
    net.advance(20_000)
    passes, verified = scrubber.passes, scrubber.bytes
    net.advance(20_000)
    assert scrubber.passes == passes + 1
    (completed, *_) = [note.fields for _, note in net.notes if note.kind == "scrub_completed"]
    assert completed["took_ms"] >= 1_000 * (completed["bytes"] - 2_000) // 2_000 > 0
    assert scrubber.bytes > verified
