"""Compaction by example: what is removed, what stays, and what is never touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from insync.storage import compaction
from insync.storage.compaction import Compaction
from insync.storage.posix import PosixDisk
from insync.wire import batch as batches
from insync.wire import batch_filter
from insync.wire.errors import ErrorCode
from tests.storage.compaction_harness import compact, drop_snapshots, keyed, put, records, table
from tests.storage.storage_harness import LogHarness, content, shape
from tests.wire.batch_harness import write_crc

DAY = 24 * 3600 * 1000


@pytest.fixture
def harness() -> LogHarness:
    """A segment for every batch, however small."""
    return LogHarness(segment_bytes=1, index_interval_bytes=1, compacts=True, deletes=False, delete_retention_ms=100)


def offsets(harness: LogHarness) -> list[int]:
    return [record.offset for record in records(harness.log)]


def test_only_the_last_record_of_each_key_stays_and_keeps_its_offset(harness: LogHarness) -> None:
    for pair in [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2"), (b"z", b"1")]:
        put(harness, pair)
    assert compact(harness.log).clean_to == 5
    assert offsets(harness) == [2, 3, 4, 5]
    assert table(harness.log)[b"a"] == (2, b"2")


def test_the_active_segment_is_neither_read_nor_changed(harness: LogHarness) -> None:
    put(harness, (b"a", b"1"))
    put(harness, (b"a", b"2"))
    compact(harness.log)
    assert offsets(harness) == [0, 1]


def test_records_above_the_high_watermark_neither_supersede_nor_go(harness: LogHarness) -> None:
    """H1: an uncommitted value may still be truncated, and then the previous one must be there."""
    for value in (b"1", b"2", b"3", b"4"):
        put(harness, (b"a", value))
    harness.log.hwm = 2
    compact(harness.log)
    assert offsets(harness) == [1, 2, 3]


def test_a_batch_may_lose_records_and_keeps_its_offsets(harness: LogHarness) -> None:
    put(harness, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    put(harness, (b"b", b"2"))
    put(harness, (b"end", b""))
    compact(harness.log)
    assert shape(harness.log) == [(0, 2, 1), (3, 3, 1), (4, 4, 1)]
    assert offsets(harness) == [2, 3, 4]


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_rewritten_batch_keeps_codec_timestamps_and_headers(harness: LogHarness, compression: str) -> None:
    old = batches.NewRecord(b"a", b"1", (), 5_000)
    new = batches.NewRecord(b"b", b"2", (("h", b"x"),), 4_000)
    data = batches.build([old, new], timestamp_ms=3_000, compression=compression)
    harness.log.append_as_leader(data, batches.read_header(data), 1, 0)
    for pair in [(b"a", b"2"), (b"end", b"")]:
        put(harness, pair)
    compact(harness.log)
    header = next(iter(harness.log.iter_headers(0, 1)))
    assert (header.compression, header.count, header.max_timestamp) == (compression, 1, 4_000)
    assert records(harness.log)[0] == batches.Record(1, 4_000, b"b", b"2", (("h", b"x"),))


def test_every_batch_of_a_compacted_log_has_a_right_crc(harness: LogHarness) -> None:
    for value in (b"1", b"2", b"3"):
        put(harness, (b"a", value), (b"b", value))
    compact(harness.log)
    data = content(harness.log)
    assert all(batches.crc_ok(data, at, header) for at, header in batches.iter_headers(data))


def test_a_tombstone_stays_for_delete_retention_and_then_goes(harness: LogHarness) -> None:
    for pair in [(b"a", b"1"), (b"a", None), (b"end", b"")]:
        put(harness, pair)
    compact(harness.log, now=1_000)
    assert offsets(harness) == [1, 2]
    compact(harness.log, now=1_099)
    assert offsets(harness) == [1, 2]
    compact(harness.log, now=1_100)
    assert offsets(harness) == [2]


def test_a_delete_horizon_changes_no_timestamp(harness: LogHarness) -> None:
    put(harness, (b"a", None), (b"b", b"1"), timestamp=777)
    put(harness, (b"end", b""))
    compact(harness.log, now=1_000)
    header = next(iter(harness.log.iter_headers(0, 1)))
    assert batch_filter.delete_horizon(header) == 1_100
    assert header.max_timestamp == 777
    assert [record.timestamp_ms for record in records(harness.log)][:2] == [777, 777]


def test_tombstones_with_the_longest_delete_retention_stay(harness: LogHarness) -> None:
    harness = LogHarness(segment_bytes=1, compacts=True, deletes=False, delete_retention_ms=2**63 - 1)
    for pair in [(b"a", None), (b"end", b"")]:
        put(harness, pair)
    compact(harness.log, now=DAY)
    compact(harness.log, now=10_000 * DAY)
    assert offsets(harness) == [0, 1]


def test_records_without_a_key_are_removed(harness: LogHarness) -> None:
    """They were written before the topic became compacted."""
    put(harness, (None, b"1"), (b"a", b"1"))
    put(harness, (b"end", b""))
    compact(harness.log)
    assert offsets(harness) == [1, 2]


def test_an_undecodable_batch_is_kept_as_it_is(harness: LogHarness) -> None:
    data, _ = keyed([(b"a", b"1")])
    data[61] = 0x7F  # the record's length
    write_crc(data)
    harness.log.append_as_leader(data, batches.read_header(data), 1, 0)
    put(harness, (b"a", b"2"))
    put(harness, (b"end", b""))
    before = content(harness.log)
    compact(harness.log)
    assert content(harness.log)[: len(data)] == before[: len(data)]


def test_small_neighbours_become_one_segment_that_ends_where_the_next_starts() -> None:
    harness = LogHarness(segment_bytes=200, index_interval_bytes=1, compacts=True, deletes=False)
    for n in range(20):
        put(harness, (b"a", b"%d" % n))
    many = len(harness.log.segments)
    while compact(harness.log).segments:
        pass
    assert len(harness.log.segments) < many
    for segment, following in zip(harness.log.segments, harness.log.segments[1:], strict=False):
        ends = [header.next_offset for header in harness.log.iter_headers(segment.base, following.base)]
        assert ends[-1] == following.base


def test_a_second_pass_over_a_clean_log_swaps_nothing() -> None:
    harness = LogHarness(segment_bytes=200, index_interval_bytes=1, compacts=True, deletes=False)
    for n in range(20):
        put(harness, (b"a", b"%d" % n))
    while compact(harness.log).segments:
        pass
    before = content(harness.log)
    assert compact(harness.log).removed_bytes == 0
    assert content(harness.log) == before


def test_keys_that_do_not_fit_wait_for_the_next_pass(harness: LogHarness) -> None:
    for key in (b"a", b"b", b"c", b"a", b"b", b"c", b"end"):
        put(harness, (key, b"v"))
    first = compact(harness.log, max_keys=2)
    assert first.clean_to == 2
    assert offsets(harness) == [0, 1, 2, 3, 4, 5, 6]
    clean_to = first.clean_to
    while clean_to < 6:
        clean_to = compact(harness.log, first_dirty=clean_to, max_keys=2).clean_to
    assert offsets(harness) == [3, 4, 5, 6]


def test_a_producer_is_known_after_compaction_emptied_its_last_batch() -> None:
    """P4: recovery derives the producers from the log."""
    harness = LogHarness(segment_bytes=250, compacts=True, deletes=False)
    put(harness, (b"a", b"1"), producer_id=9, producer_epoch=0, base_sequence=0)
    put(harness, (b"a", b"2"), producer_id=9, producer_epoch=0, base_sequence=1)
    for value in (b"3", b"4", b"5"):
        put(harness, (b"a", value))
    compact(harness.log)
    assert offsets(harness) == [2, 3, 4]
    assert shape(harness.log)[0] == (1, 1, 1)
    drop_snapshots(harness)
    harness.disk.crash()
    _, again = keyed([(b"a", b"2")], producer_id=9, producer_epoch=0, base_sequence=1)
    duplicate = harness.open().producers.check(again)
    assert getattr(duplicate, "first_offset", None) == 1


def test_a_follower_accepts_gaps_and_holds_the_same_log(harness: LogHarness) -> None:
    """F5: offsets rise, with gaps where the leader has no records any more."""
    for n in range(6):
        put(harness, (b"a", b"%d" % n), (b"k%d" % n, b""), epoch=1 + n // 3)
    put(harness, (b"k0", b""), (b"k2", b""), (b"k3", b""), (b"a", b""), epoch=2)
    put(harness, (b"end", b""), epoch=2)
    compact(harness.log)
    gone = [offset for offset in range(harness.log.leo) if offset not in offsets(harness)]
    assert gone == [0, 1, 2, 4, 5, 6, 7, 8, 10]
    follower = LogHarness(segment_bytes=1)
    while follower.log.leo < harness.log.leo:
        part = harness.log.read(follower.log.leo, 1, limit_offset=harness.log.leo)
        assert follower.log.append_as_follower(part) is ErrorCode.none
    assert content(follower.log) == content(harness.log)
    assert follower.log.leo == harness.log.leo
    follower.disk.crash()
    assert content(follower.open()) == content(harness.log)
    assert follower.log.leo == harness.log.leo


def test_an_epoch_that_lost_its_first_records_starts_where_the_previous_one_ends() -> None:
    """D1, D2: a follower then truncates too much rather than too little."""
    follower = LogHarness()
    for base, epoch in ((0, 1), (5, 3)):
        data, _ = keyed([(b"a", b"")], base_offset=base, leader_epoch=epoch)
        assert follower.log.append_as_follower(data) is ErrorCode.none
    assert follower.log.epochs.entries == [(1, 0), (3, 1)]
    assert not follower.disk.exists(follower.path("leader-epoch-checkpoint"))
    follower.disk.crash()
    assert follower.open().epochs.entries == [(1, 0), (3, 1)]


@pytest.mark.parametrize("offset", [3, 5, 6])
def test_a_truncation_in_or_after_a_gap_ends_the_log_with_its_last_batch(offset: int) -> None:
    """D3: reads and recovery must agree with the log about its end."""
    follower = LogHarness()
    for base in (0, 5, 9):
        data, _ = keyed([(b"a", b""), (b"b", b"")], base_offset=base, leader_epoch=1)
        assert follower.log.append_as_follower(data) is ErrorCode.none
    follower.log.truncate_to(offset)
    assert follower.log.leo == 2
    follower.disk.crash()
    assert follower.open().leo == 2


def test_a_pass_aborts_if_the_log_is_truncated_meanwhile(harness: LogHarness) -> None:
    """D3: the copy may differ from what the log is now."""
    for n in range(6):
        put(harness, (b"a", b"%d" % n))
    work = Compaction(harness.log, 0, 0)
    work.step(1)
    harness.log.truncate_to(2)
    while not work.done:
        sync = work.step(1)
        assert sync is None
    assert work.aborted
    assert offsets(harness) == [0, 1]
    assert not [name for name in harness.disk.listdir("data/t-0") if name.endswith(".cleaned")]


def test_segments_that_retention_drops_meanwhile_stay_dropped(harness: LogHarness) -> None:
    for n in range(6):
        put(harness, (b"a", b"%d" % n))
    work = Compaction(harness.log, 0, 0)
    sync = None
    while sync is None:
        sync = work.step(1)
    harness.log.delete_records(3)
    work.step(1)
    assert work.done
    assert work.aborted
    assert offsets(harness) == [3, 4, 5]


def test_an_aborted_pass_leaves_a_file_that_opening_removes(harness: LogHarness) -> None:
    for n in range(6):
        put(harness, (b"a", b"%d" % n))
    work = Compaction(harness.log, 0, 0)
    while not any(name.endswith(".cleaned") for name in harness.disk.listdir("data/t-0")):
        work.step(1)
    work.abort()
    harness.reopen_clean()
    assert not any(name.endswith(".cleaned") for name in harness.disk.listdir("data/t-0"))
    assert offsets(harness) == [0, 1, 2, 3, 4, 5]


def test_urgency_is_the_new_share_of_a_log_once_it_reaches_the_ratio() -> None:
    harness = LogHarness(segment_bytes=1, compacts=True, deletes=False, min_cleanable_ratio=0.5)
    assert compaction.urgency(harness.log, 0, 0) == 0
    for n in range(5):
        put(harness, (b"a", b"%d" % n))
    assert compaction.urgency(harness.log, 0, 0) == 1
    assert compaction.urgency(harness.log, 2, 0) == 0.5
    assert compaction.urgency(harness.log, 3, 0) == 0
    assert compaction.urgency(harness.log, 4, 0) == 0


def test_compaction_waits_for_the_minimum_lag_and_is_overdue_after_the_maximum() -> None:
    harness = LogHarness(
        segment_bytes=1, compacts=True, deletes=False, min_compaction_lag_ms=100, max_compaction_lag_ms=1_000
    )
    for n in range(4):
        put(harness, (b"a", b"%d" % n), timestamp=1_000 + n)
    assert compaction.cleanable_end(harness.log, 1_101) == 2
    assert compaction.urgency(harness.log, 0, 1_000) == 0
    assert compaction.urgency(harness.log, 2, 2_004) > 1


def test_retention_deletes_nothing_of_a_compacted_log_unless_the_policy_has_delete_too() -> None:
    for deletes, dropped in ((False, 0), (True, 3)):
        harness = LogHarness(segment_bytes=1, compacts=True, deletes=deletes, retention_ms=1, retention_bytes=1)
        for n in range(3):
            put(harness, (b"a", b"%d" % n))
        assert harness.log.apply_retention(DAY) == dropped


def test_the_record_with_the_largest_timestamp_is_found_after_its_batch_was_emptied(harness: LogHarness) -> None:
    put(harness, (b"a", b"1"), timestamp=9_000)
    for value in (b"2", b"3"):
        put(harness, (b"a", value), timestamp=5_000)
    compact(harness.log)
    assert harness.log.offset_of_max_timestamp(harness.log.leo) == (1, 5_000)


def test_a_pass_over_real_files_with_concurrent_readers(tmp_path: Path) -> None:
    harness = LogHarness(
        PosixDisk(str(tmp_path)), segment_bytes=300, index_interval_bytes=60, compacts=True, deletes=False
    )
    for n in range(60):
        put(harness, (b"k%d" % (n % 7), b"%d" % n))
    last = table(harness.log)
    work = Compaction(harness.log, 0, 0)
    while not work.done:
        sync = work.step(1)
        if sync is not None:
            sync()
        harness.log.read(work.clean_to, 100, limit_offset=60)
    assert work.removed_bytes > 0
    assert table(harness.log) == last
    harness.reopen_clean()
    assert table(harness.log) == last
