"""Snapshots bound the log, and replicas that fell behind the log start from them (Q6)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from insync.errors import InvariantError
from insync.quorum import messages, snapshot_store
from insync.quorum.config import QuorumConfig
from insync.quorum.messages import LeaderInfo, OffsetAndEpoch
from insync.sansio import Send
from insync.sim.engine.disk import SimDisk
from insync.storage.disk import read_all
from insync.wire import batch, control
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, fetch_snapshot
from tests.quorum.quorum_harness import QuorumHarness, data, fetch_answer
from tests.quorum.quorum_net_harness import DIRECTORY, Net

SMALL = QuorumConfig(snapshot_chunk_bytes=100, snapshots_kept=1)
PAYLOADS = [b"payload-%d" % number for number in range(30)]


def single_voter(config: QuorumConfig = SMALL, disk: SimDisk | None = None) -> QuorumHarness:
    harness = QuorumHarness(1, (1,), config=config, disk=disk)
    harness.sync()
    return harness


def commit(harness: QuorumHarness, *payloads: bytes) -> int:
    """Propose and sync; returns the high watermark."""
    harness.quorum.propose(payloads, harness.now)
    harness.collect()
    harness.sync()
    return harness.quorum.hwm


def fetch_chunk(harness: QuorumHarness, replica: int, named: OffsetAndEpoch, at: int, epoch: int = 1) -> Any:
    request = messages.fetch_snapshot_request("test-cluster", replica, epoch, named, at, 1_000)
    token = harness._ask(harness.quorum.handle_fetch_snapshot, request)
    return harness.replies[token].topics[0].partitions[0]


def test_a_snapshot_file_is_framed_by_header_and_footer() -> None:
    """Q6: Kafka's name and Kafka's batches."""
    harness = single_voter()
    harness.write_snapshot(PAYLOADS, commit(harness, b"a"), 1)
    name = f"{DIRECTORY}/00000000000000000002-0000000001.checkpoint"
    content = read_all(harness.disk, name)
    kinds = [header.is_control for _, header in batch.iter_headers(content)]
    first, last = (control.control_type(next(batch.records(content, pos))) for pos in (0, batch_at(content, -1)))
    assert kinds == [True, False, True]
    assert (first, last) == (control.SNAPSHOT_HEADER, control.SNAPSHOT_FOOTER)
    assert snapshot_store.decode(content) == PAYLOADS


def test_a_snapshot_has_the_timestamp_of_the_last_entry_that_it_covers() -> None:
    """Q6: Kafka's tools and its metric for the snapshot's age read the header record."""
    harness = single_voter()
    commit(harness, b"a")
    harness.now += 5_000
    offset = commit(harness, b"b")
    harness.write_snapshot(PAYLOADS, offset, 1)
    content = read_all(harness.disk, f"{DIRECTORY}/{offset:020d}-0000000001.checkpoint")
    header = control.control_message(next(batch.records(content, 0)))
    assert header is not None
    assert header.last_contained_log_timestamp == harness.now


def batch_at(buffer: bytes | bytearray, number: int) -> int:
    return [pos for pos, _ in batch.iter_headers(buffer)][number]


def test_many_payloads_make_many_batches() -> None:
    """Q6: a large image need not fit one batch."""
    many = [b"%d" % number for number in range(2_500)]
    content = snapshot_store.encode(many, OffsetAndEpoch(9, 1), 0)
    assert [header.count for _, header in batch.iter_headers(content)] == [1, 1_000, 1_000, 500, 1]
    assert snapshot_store.decode(content) == many
    assert snapshot_store.decode(snapshot_store.encode([], OffsetAndEpoch(9, 1), 0)) == []


def test_a_truncated_or_damaged_snapshot_is_ignored() -> None:
    """Q6: without its footer it is incomplete."""
    whole = snapshot_store.encode(PAYLOADS, OffsetAndEpoch(9, 1), 0)
    flipped = bytearray(whole)
    flipped[200] ^= 1
    footer = batch_at(whole, -1)
    for broken in (whole[:-1], whole[:footer], flipped, whole[batch_at(whole, 1) :], b""):
        assert snapshot_store.decode(bytes(broken)) is None


def test_writing_a_snapshot_prunes_the_log_and_older_snapshots() -> None:
    """Q6: replay is bounded."""
    harness = single_voter()
    harness.write_snapshot([b"1"], commit(harness, b"a", b"b"), 1)
    assert harness.quorum.log.log_start == 3
    harness.write_snapshot([b"2"], commit(harness, b"c"), 1)
    assert harness.quorum.log.log_start == 4
    assert [name for name in harness.disk.listdir(DIRECTORY) if name.endswith(".checkpoint")] == [
        "00000000000000000004-0000000001.checkpoint"
    ]
    with pytest.raises(InvariantError, match="Q6"):
        list(harness.quorum.read_committed(3, 4))


def test_the_log_reaches_back_to_the_oldest_kept_snapshot() -> None:
    """Q6: a reader slightly behind the newest one continues from the log."""
    harness = single_voter(QuorumConfig(snapshots_kept=2))
    starts = []
    for number in range(3):
        harness.write_snapshot([b"s"], commit(harness, b"%d" % number), 1)
        starts.append(harness.quorum.log.log_start)
    assert starts == [0, 2, 3]
    answer = harness.fetched(harness.fetch(9, 1, (3, 1)))
    assert answer.snapshot_id.epoch == -1
    assert [record.value for record in batch.records(answer.records)] == [b"2"]


def test_a_snapshot_holds_committed_records_and_whole_batches_only() -> None:
    """Q6: uncommitted entries may vanish, and a reader continues with the batch that starts there."""
    harness = single_voter()
    commit(harness, b"a", b"b")
    harness.quorum.propose([b"c"], harness.now)
    with pytest.raises(InvariantError, match="Q6"):
        harness.write_snapshot([b"x"], 4, 1)
    with pytest.raises(InvariantError, match="Q6"):
        harness.write_snapshot([b"x"], 2, 1)


def test_an_older_snapshot_than_the_newest_is_not_written() -> None:
    """Q6: it would add nothing."""
    harness = single_voter()
    offset = commit(harness, b"a")
    harness.write_snapshot([b"new"], offset, 1)
    harness.write_snapshot([b"old"], offset, 1)
    assert QuorumHarness(1, (1,), disk=harness.disk).snapshots[0] == ([b"new"], offset, 1)


def test_a_snapshot_is_named_after_the_last_entry_even_if_that_is_a_control_record() -> None:
    """Q4, Q6: a voter that installed it compares logs by that epoch."""
    harness = single_voter()
    commit(harness, b"a")
    again = single_voter(disk=harness.disk)
    assert (again.quorum.epoch, again.quorum.hwm) == (2, 3)
    again.write_snapshot([b"a"], 3, 1)
    assert again.disk.exists(f"{DIRECTORY}/00000000000000000003-0000000002.checkpoint")


def test_a_restart_loads_the_snapshot_and_continues_with_the_log() -> None:
    """Q6: nothing below the snapshot is read again."""
    harness = single_voter()
    offset = commit(harness, b"a")
    harness.write_snapshot([b"image"], offset, 1)
    commit(harness, b"b")
    harness.disk.lossy_crash(random.Random(1))
    again = QuorumHarness(1, (1,), disk=harness.disk, config=SMALL)
    assert again.snapshots[0] == ([b"image"], offset, 1)
    assert again.quorum.log.log_start == offset
    again.sync()
    assert list(again.quorum.read_committed(offset, again.quorum.hwm)) == [(offset, 1, b"b")]


def test_a_damaged_snapshot_is_skipped_for_an_older_one() -> None:
    """Q6: the log still reaches back to it."""
    harness = single_voter(QuorumConfig(snapshots_kept=2))
    first = commit(harness, b"a")
    harness.write_snapshot([b"first"], first, 1)
    second = commit(harness, b"b")
    harness.write_snapshot([b"second"], second, 1)
    harness.disk.corrupt_tail(f"{DIRECTORY}/{second:020d}-0000000001.checkpoint", random.Random(1))
    again = single_voter(QuorumConfig(snapshots_kept=2), harness.disk)
    assert again.snapshots[0] == ([b"first"], first, 1)
    assert (first, 1, b"b") in list(again.quorum.read_committed(first, again.quorum.hwm))


def test_a_log_that_starts_above_zero_without_a_snapshot_is_set_aside() -> None:
    """Q6, Q8: the entries before are lost; a single voter cannot be restored and does not lead."""
    harness = single_voter()
    offset = commit(harness, b"a")
    harness.write_snapshot([b"image"], offset, 1)
    harness.quorum.log.truncate_fully(offset)
    harness.disk.remove(f"{DIRECTORY}/{offset:020d}-0000000001.checkpoint")
    again = QuorumHarness(1, (1,), disk=harness.disk)
    assert (again.quorum.role, again.quorum.leo) == ("recovering", 0)
    assert [finding.kind for finding in again.findings.current()] == ["metadata_damaged", "quorum_no_intact_majority"]
    assert f"{offset:020d}.log.damaged" in harness.disk.listdir(DIRECTORY)


def test_a_reader_below_the_log_start_is_sent_to_the_snapshot() -> None:
    """Q6: and so is one with an empty log, or one that ends at the log start in another epoch."""
    harness = single_voter()
    offset = commit(harness, b"a", b"b")
    harness.write_snapshot([b"image"], offset, 1)
    again = single_voter(disk=harness.disk)
    epoch = again.quorum.epoch
    for end in [(0, 0), (2, 1), (offset, 2), (offset + 5, 0)]:
        named = again.fetched(again.fetch(9, epoch, end)).snapshot_id
        assert (named.end_offset, named.epoch) == (offset, 1)
    assert again.fetched(again.fetch(9, epoch, (offset, 1), max_wait=0)).snapshot_id.epoch == -1


def test_a_snapshot_is_served_in_chunks() -> None:
    """Q6: of the requested size, up to the limit."""
    harness = single_voter()
    named = OffsetAndEpoch(commit(harness, b"a"), 1)
    harness.write_snapshot(PAYLOADS, named.offset, 1)
    collected = b""
    size = 1
    while len(collected) < size:
        answer = fetch_chunk(harness, 9, named, len(collected))
        assert answer.position == len(collected)
        assert 0 < len(answer.unaligned_records) <= 100
        collected += answer.unaligned_records
        size = answer.size
    assert snapshot_store.decode(collected) == PAYLOADS


def test_a_snapshot_request_that_cannot_be_served_gets_an_error() -> None:
    """Q6: an unknown snapshot, a position outside it, another epoch."""
    harness = single_voter()
    named = OffsetAndEpoch(commit(harness, b"a"), 1)
    harness.write_snapshot(PAYLOADS, named.offset, 1)
    for answer, error in [
        (fetch_chunk(harness, 9, OffsetAndEpoch(1, 1), 0), ErrorCode.snapshot_not_found),
        (fetch_chunk(harness, 9, named, 1_000_000), ErrorCode.position_out_of_range),
        (fetch_chunk(harness, 9, named, -1), ErrorCode.position_out_of_range),
        (fetch_chunk(harness, 9, named, 0, epoch=0), ErrorCode.fenced_leader_epoch),
    ]:
        assert answer.error_code is error


def test_an_observer_that_comes_late_loads_the_snapshot_and_then_the_log() -> None:
    """Q6: in chunks, from a leader whose log begins after the observer's."""
    net = Net(3, observers=1, seed=9, config=SMALL)
    late = net[4]
    late.stop(lossy=False)
    leader = net.leader()
    for payload in PAYLOADS:
        leader.propose(payload)
        net.run(20)
    net.run_until(lambda: leader.image == PAYLOADS)
    leader.snapshot()
    last = leader.propose(b"after")
    late.start()
    net.run_until(lambda: late.applied > last)
    assert late.image == [*PAYLOADS, b"after"]
    assert len(late.snapshots_seen) == 1
    assert sum(isinstance(send.request, fetch_snapshot.FetchSnapshotRequest) for _, send in net.sent) > 3


def test_a_voter_whose_log_is_replaced_by_a_snapshot_votes_by_the_snapshots_epoch() -> None:
    """Q4: an empty log behind a snapshot is not an empty log."""
    harness = QuorumHarness(config=SMALL).intact()
    install(harness, harness.follow(2, 4), OffsetAndEpoch(50, 3))
    assert (harness.quorum.leo, harness.quorum.hwm) == (50, 50)
    assert harness.snapshots[-1] == (PAYLOADS, 50, 3)
    assert not harness.vote(3, 5, (60, 2)).vote_granted
    assert not harness.vote(3, 6, (49, 3)).vote_granted
    assert harness.vote(3, 7, (50, 3)).vote_granted


def install(harness: QuorumHarness, send: Send, named: OffsetAndEpoch, content: bytes | None = None) -> None:
    """Answer a follower's fetch with a snapshot, and serve that in chunks."""
    content = bytes(snapshot_store.encode(PAYLOADS, named, 0)) if content is None else content
    harness.answer(send, fetch_answer(2, 4, snapshot=named))
    while sends := harness.sends(fetch_snapshot.FetchSnapshotRequest):
        at = sends[0].request.topics[0].partitions[0].position
        info = LeaderInfo(4, 2, ErrorCode.none)
        chunk = content[at : at + 100]
        harness.answer(
            sends[0], messages.fetch_snapshot_response(info, named, size=len(content), position=at, chunk=chunk)
        )


def test_a_snapshot_replaces_a_diverging_log_and_the_follower_continues_after_it() -> None:
    """Q6: uncommitted entries are dropped with the log."""
    harness = QuorumHarness(config=SMALL)
    harness.answer(harness.follow(2, 1), fetch_answer(2, 1, records=data(0, 1, b"a", b"b"), hwm=0))
    harness.sync()
    install(harness, harness.follow(2, 4), OffsetAndEpoch(50, 3))
    (send,) = harness.sends(fetch.FetchRequest)
    partition = send.request.topics[0].partitions[0]
    assert (partition.fetch_offset, partition.last_fetched_epoch) == (50, 3)
    harness.answer(send, fetch_answer(2, 4, records=data(50, 4, b"next"), hwm=51))
    harness.sync()
    assert list(harness.quorum.read_committed(50, 51)) == [(50, 4, b"next")]


def test_a_damaged_download_is_not_installed() -> None:
    """Q6: the follower asks again."""
    harness = QuorumHarness(config=SMALL)
    content = bytearray(snapshot_store.encode(PAYLOADS, OffsetAndEpoch(50, 3), 0))
    content[150] ^= 1
    install(harness, harness.follow(2, 4), OffsetAndEpoch(50, 3), bytes(content))
    assert harness.quorum.leo == 0
    assert harness.sends(fetch.FetchRequest) == []
    harness.tick()
    assert [send.request.topics[0].partitions[0].fetch_offset for send in harness.sends(fetch.FetchRequest)] == [0]


def test_a_crash_between_snapshot_file_and_truncation_is_repaired_at_the_next_start() -> None:
    """Q6: both the snapshot and the old log exist; the snapshot wins."""
    harness = QuorumHarness(config=SMALL)
    harness.answer(harness.follow(2, 1), fetch_answer(2, 1, records=data(0, 1, b"a", b"b"), hwm=0))
    harness.sync()
    named = OffsetAndEpoch(50, 3)
    harness.quorum._state.snapshots.store(named, snapshot_store.encode(PAYLOADS, named, 0))
    harness.disk.lossy_crash(random.Random(5))
    again = QuorumHarness(disk=harness.disk, config=SMALL)
    assert (again.quorum.leo, again.quorum.log.log_start, again.quorum.hwm) == (50, 50, 50)


def test_a_snapshot_below_what_is_committed_here_is_refused() -> None:
    """S7, Q8: it would take committed records back."""
    harness = QuorumHarness(config=SMALL)
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=data(0, 4, b"a", b"b"), hwm=2))
    harness.sync()
    install(harness, harness.sends(fetch.FetchRequest)[-1], OffsetAndEpoch(1, 4))
    assert (harness.quorum.leo, harness.quorum.hwm) == (2, 2)
    assert [finding.kind for finding in harness.findings.current()] == ["metadata_contradiction"]


def test_the_log_stays_small_however_many_snapshots_are_written() -> None:
    """Q6: each snapshot closes a segment, and those below the oldest kept snapshot are dropped."""
    harness = single_voter()
    sizes = []
    for number in range(12):
        offset = commit(harness, *(b"%d-%d" % (number, index) for index in range(50)))
        harness.write_snapshot([b"image"], offset, 1)
        sizes.append(harness.quorum.log.size_bytes)
    assert sizes[-1] <= sizes[2]
    assert len(harness.quorum.log.segments) <= 3
    assert len([name for name in harness.disk.listdir(DIRECTORY) if name.endswith(".log")]) <= 3
    assert single_voter(disk=harness.disk).quorum.leo >= offset


def test_a_snapshot_that_is_superseded_while_it_is_written_is_discarded() -> None:
    """Q6: the newer one covers more of the log, which may be pruned below it."""
    harness = single_voter()
    first = harness.quorum.begin_snapshot(commit(harness, b"a"), 1)
    second = harness.quorum.begin_snapshot(commit(harness, b"b"), 1)
    assert first is not None
    assert second is not None
    harness.quorum.write_snapshot(second)
    harness.quorum.write_snapshot(first)
    harness.collect()
    assert harness.quorum._state.snapshots.ids == [second.id]
    assert [name for name in harness.disk.listdir(DIRECTORY) if name.endswith(".checkpoint")] == [
        f"{second.id.offset:020d}-{second.id.epoch:010d}.checkpoint"
    ]
