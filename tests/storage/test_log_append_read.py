"""Appending to and reading from one log."""

from __future__ import annotations

import pytest

from insync.errors import InvariantError
from insync.storage.log import Log
from insync.wire import batch as batches
from insync.wire.errors import ErrorCode
from tests.storage.storage_harness import LogHarness, batch, content, shape


def test_a_leader_stamps_offsets_and_epoch_without_touching_the_checksum(harness: LogHarness) -> None:
    assert [harness.append(3, epoch=4), harness.append(2, epoch=4)] == [0, 3]
    assert shape(harness.log) == [(0, 2, 4), (3, 4, 4)]
    data = content(harness.log)
    assert all(batches.crc_ok(data, at, header) for at, header in batches.iter_headers(data))
    assert harness.log.leo == 5


def test_log_append_time_overrides_the_producers_timestamp() -> None:
    harness = LogHarness(log_append_time=True)
    harness.append(timestamp=5, now=9_000)
    (header,) = harness.log.iter_headers(0, 1)
    assert header.max_timestamp == 9_000
    assert header.is_log_append_time
    assert batches.crc_ok(content(harness.log), 0, header)
    assert harness.log.max_timestamp == 9_000


def test_a_follower_stores_the_leaders_bytes_unchanged(harness: LogHarness) -> None:
    """F5: exactly at its end, with the leader's offsets and epochs."""
    for epoch in (1, 1, 3):
        harness.append(2, epoch=epoch)
    follower = LogHarness().log
    assert follower.append_as_follower(content(harness.log)) is ErrorCode.none
    assert content(follower) == content(harness.log)
    assert follower.epochs.entries == harness.log.epochs.entries == [(1, 0), (3, 4)]
    assert follower.leo == 6


def test_a_follower_refuses_records_for_another_offset(harness: LogHarness) -> None:
    """F5"""
    harness.append(2)
    records = content(harness.log)
    with pytest.raises(InvariantError, match="F5"):
        harness.log.append_as_follower(records)


def test_a_follower_refuses_an_epoch_older_than_its_newest(harness: LogHarness) -> None:
    """D1"""
    harness.append(1, epoch=5)
    late = batches.build([batches.NewRecord(None, b"x")], base_offset=1, leader_epoch=4, timestamp_ms=0)
    with pytest.raises(InvariantError, match="D1"):
        harness.log.append_as_follower(late)


@pytest.mark.parametrize("damage", ["crc", "overlap", "epoch falls", "no whole batch"])
def test_a_follower_stores_nothing_of_damaged_records(harness: LogHarness, damage: str) -> None:
    """F5"""
    records = batches.build([batches.NewRecord(None, b"x")], base_offset=0, leader_epoch=2, timestamp_ms=0)
    second = batches.build([batches.NewRecord(None, b"y")], base_offset=1, leader_epoch=2, timestamp_ms=0)
    if damage == "crc":
        second[-1] ^= 1
    elif damage == "overlap":
        batches.stamp(second, 0, 2)
    elif damage == "epoch falls":
        batches.stamp(second, 1, 1)
    whole = (records + second)[:40] if damage == "no whole batch" else records + second
    assert harness.log.append_as_follower(whole) is ErrorCode.corrupt_message
    assert harness.log.leo == 0
    assert harness.log.size_bytes == 0


def test_an_incomplete_last_batch_is_ignored(harness: LogHarness) -> None:
    first, _ = batch()
    second = batches.build([batches.NewRecord(None, b"y")], base_offset=1, leader_epoch=0, timestamp_ms=0)
    batches.stamp(first, 0, 0)
    assert harness.log.append_as_follower((first + second)[:-3]) is ErrorCode.none
    assert harness.log.leo == 1


def read_offsets(log: Log, offset: int, max_bytes: int, limit: int, *, min_one: bool = True) -> list[int]:
    data = log.read(offset, max_bytes, limit_offset=limit, min_one=min_one)
    headers = [header for _, header in batches.iter_headers(data)]
    assert sum(header.length for header in headers) == len(data), "only whole batches"
    return [header.base_offset for header in headers]


@pytest.fixture
def log() -> Log:
    """Five batches of three records, 100-odd bytes each, over several segments."""
    harness = LogHarness(segment_bytes=400, index_interval_bytes=100)
    for _ in range(5):
        harness.append(3, value=b"v" * 25)
    assert len(harness.log.segments) == 3
    return harness.log


def test_a_read_starts_at_the_batch_that_contains_the_offset(log: Log) -> None:
    for offset in range(15):
        assert read_offsets(log, offset, 1 << 20, 15)[0] == offset - offset % 3


def test_a_read_takes_no_batch_at_or_above_the_limit(log: Log) -> None:
    """H5: the caller's limit is the high watermark."""
    assert read_offsets(log, 0, 1 << 20, 3) == [0]
    assert read_offsets(log, 0, 1 << 20, 4) == [0, 3]
    assert read_offsets(log, 3, 1 << 20, 3) == []
    assert read_offsets(log, 15, 1 << 20, 99) == []


def test_the_first_batch_comes_whole_even_past_the_size_limit(log: Log) -> None:
    """W17."""
    assert read_offsets(log, 4, 10, 15) == [3]
    assert read_offsets(log, 4, 0, 15) == [3]
    assert read_offsets(log, 4, 10, 15, min_one=False) == []
    assert read_offsets(log, 0, 200, 15, min_one=False) == [0]


def test_a_reader_that_continues_where_it_stopped_sees_every_batch_once(log: Log) -> None:
    seen, offset = [], 0
    while offset < log.leo:
        offsets = read_offsets(log, offset, 300, log.leo)
        seen += offsets
        offset = offsets[-1] + 3
    assert seen == [0, 3, 6, 9, 12]


def test_reading_below_the_first_segment_breaks_an_invariant() -> None:
    harness = LogHarness()
    harness.log.truncate_fully(10)
    harness.append()
    with pytest.raises(InvariantError, match="log_start"):
        harness.log.read(5, 100, limit_offset=11)


def test_an_append_that_the_disk_refuses_changes_nothing(harness: LogHarness) -> None:
    harness.append(2)
    before = content(harness.log)
    harness.disk.full = True
    with pytest.raises(OSError, match="No space left"):
        harness.append(2)
    harness.disk.full = False
    assert harness.log.leo == 2
    assert harness.append(2) == 2
    assert content(harness.log).startswith(before)
    assert harness.log.leo == 4


def test_segments_roll_by_size_by_time_and_on_request() -> None:
    harness = LogHarness(segment_bytes=300, segment_ms=1_000)
    harness.append(value=b"v" * 100, timestamp=0)
    harness.append(value=b"v" * 140, timestamp=0)
    harness.append(timestamp=500)
    harness.append(timestamp=1_600)
    harness.log.roll()
    harness.log.roll()
    assert [segment.base for segment in harness.log.segments] == [0, 1, 3, 4]
    assert harness.disk.exists(harness.path("00000000000000000003.log"))


def test_few_files_stay_open() -> None:
    harness = LogHarness(segment_bytes=1)
    for _ in range(10):
        harness.append()
    for offset in range(10):
        harness.log.read(offset, 100, limit_offset=10)
    list(harness.log.iter_headers(0, 10))
    harness.log.offset_for_timestamp(0, 10)
    assert sum(segment.is_open for segment in harness.log.segments) <= 2


def test_timestamps_lead_to_offsets() -> None:
    harness = LogHarness(segment_bytes=300, index_interval_bytes=1)
    for at, timestamp in enumerate((100, 300, 200, 500, 400)):
        assert harness.append(2, timestamp=timestamp, value=b"v" * 40) == at * 2
    log = harness.log
    assert len(log.segments) > 1
    offsets = {timestamp: log.offset_for_timestamp(timestamp, log.leo) for timestamp in (0, 100, 101, 301, 500, 501)}
    assert offsets == {0: (0, 100), 100: (0, 100), 101: (2, 300), 301: (6, 500), 500: (6, 500), 501: None}
    assert log.offset_for_timestamp(301, 6) is None
    assert log.offset_of_max_timestamp(log.leo) == (6, 500)
    assert log.max_timestamp == 500


def test_index_files_are_kafkas() -> None:
    """Offset index: relative last offset, position (4 + 4 bytes). Time index: timestamp, relative offset (8 + 4)."""
    harness = LogHarness(index_interval_bytes=1)
    harness.log.truncate_fully(100)
    for timestamp in (10, 30, 20):
        harness.append(2, timestamp=timestamp)
    length = harness.log.size_bytes // 3
    harness.log.roll()
    index = harness.disk.open(harness.path("00000000000000000100.index"))
    times = harness.disk.open(harness.path("00000000000000000100.timeindex"))
    assert index.read(0, 99) == b"".join(n.to_bytes(4, "big") for n in (3, length, 5, 2 * length))
    assert times.read(0, 99) == (30).to_bytes(8, "big") + (3).to_bytes(4, "big")
