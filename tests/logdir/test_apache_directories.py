"""Log directories that Apache Kafka wrote (tests/data/apache-kafka-logs/README.md)."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from insync.logdir.columns import COLUMNS
from insync.logdir.files import Segment, plan_segments
from insync.logdir.options import ReadOptions
from insync.logdir.rows import DamagedLogError, read_segment

DATA = Path(__file__).parent.parent / "data" / "apache-kafka-logs"
FIRST = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


BROKERS = (str(DATA / "broker-1"), str(DATA / "broker-2"))


def segments(topic: str, path: object = None, **options: Any) -> list[Segment]:
    """`path` is one log directory; without it, those of both brokers are read."""
    return plan_segments(ReadOptions(paths=(str(path),) if path else BROKERS, topics=(topic,), **options))


def read_rows(columns: str, topic: str, path: object = None, **options: Any) -> list[dict[str, Any]]:
    names = tuple(columns.split()) or tuple(COLUMNS)
    batches = (batch for segment in segments(topic, path, **options) for batch in read_segment(segment, names))
    return [row for batch in batches for row in batch.to_pylist()]


def test_every_codec_is_read_with_all_fields_of_its_batches() -> None:
    rows = read_rows("", "codecs")
    assert [(row["broker"], row["offset"]) for row in rows] == [(b, i) for b in (1, 2) for i in range(100)]
    for row in rows:
        i = row["offset"]
        codec = CODECS[i // 20]
        assert (row["topic"], row["partition"], row["codec"]) == ("codecs", 0, codec)
        assert (row["key"], row["value"]) == (b"k%d" % i, f"{codec} {i} ".encode() * 10)
        assert row["timestamp"] == datetime.fromtimestamp(FIRST / 1_000 + i, UTC)
        expected = [{"key": "number", "value": b"%d" % i}, {"key": "empty", "value": None}] if i % 2 else None
        assert row["headers"] == expected
        assert (row["timestampType"], row["leader_epoch"], row["crc_ok"], row["error"]) == (0, 0, True, None)
        assert (row["base_offset"], row["sequence"]) == (i // 4 * 4, i % 20)
        assert (row["producer_epoch"], row["control"], row["transactional"]) == (0, False, False)
        assert row["segment"] == f"{i // 48 * 48:020d}.log"


def test_positions_and_sizes_of_batches_fill_the_segments() -> None:
    rows = read_rows("broker segment base_offset batch_position batch_size", "codecs")
    batches = {tuple(row.values()) for row in rows}
    for broker in (1, 2):
        for base in (0, 48, 96):
            name = f"{base:020d}.log"
            mine = sorted((at, size) for b, segment, _, at, size in batches if (b, segment) == (broker, name))
            assert [at for at, _ in mine] == [sum(size for _, size in mine[:i]) for i in range(len(mine))]
            assert sum(size for _, size in mine) == (DATA / f"broker-{broker}" / "codecs-0" / name).stat().st_size


def test_log_append_time_applies_to_the_whole_batch() -> None:
    rows = read_rows("timestamp timestampType", "appended")
    assert {row["timestampType"] for row in rows} == {1}
    assert len({row["timestamp"] for row in rows}) == 1
    assert rows[0]["timestamp"] > datetime(2024, 1, 1, tzinfo=UTC)


def test_compaction_leaves_gaps_and_tombstones() -> None:
    rows = read_rows("offset key value", "compacted", DATA / "broker-1")
    assert [tuple(row.values()) for row in rows] == [
        (10, b"a", b"a2"),
        (12, b"c", b"c2"),
        (13, b"d", b"d2"),
        (14, b"e", b"e2"),
        (15, b"b", None),
        (16, b"end", b"end"),
    ]


def test_aborted_records_are_rows_and_control_records_only_on_request() -> None:
    plain = read_rows("offset value transactional control", "transactions", DATA / "broker-2")
    assert [row["offset"] for row in plain] == [*range(5), *range(6, 11), 12, *range(13, 16)]
    assert [row["value"] for row in plain[5:10]] == [b"aborted %d" % i for i in range(5)]
    assert [row["offset"] for row in plain if not row["transactional"]] == [12]
    assert not any(row["control"] for row in plain)
    for columns in ("offset control", "offset"):
        rows = read_rows(columns, "transactions", DATA / "broker-2", include_control=True)
        assert [row["offset"] for row in rows] == list(range(17))
    rows = read_rows("offset control", "transactions", DATA / "broker-2", include_control=True)
    assert [row["offset"] for row in rows if row["control"]] == [5, 11, 16]


def test_rows_have_leader_epochs() -> None:
    rows = read_rows("broker offset leader_epoch value", "epochs")
    assert [tuple(row.values()) for row in rows] == [
        (broker, i, i // 3, b"%d %d" % (i // 3, i % 3)) for broker in (1, 2) for i in range(6)
    ]


@pytest.mark.parametrize("first", [0, 3, 4, 47, 48, 50, 99, 100])
@pytest.mark.parametrize("end", [0, 1, 4, 48, 49, 97, 100, 1_000])
def test_offsets_limit_what_is_read(first: int, end: int) -> None:
    rows = read_rows("offset", "codecs", DATA / "broker-1", start_offset=first, end_offset=end)
    assert [row["offset"] for row in rows] == list(range(first, min(end, 100)))


@pytest.mark.parametrize("first", [0, 3_000, 3_001, 47_999, 48_000, 70_000, 99_000])
@pytest.mark.parametrize("end", [0, 3_500, 48_000, 48_001, 99_000, 99_001])
def test_timestamps_limit_what_is_read(first: int, end: int) -> None:
    times = {"start_time_ms": FIRST + first, "end_time_ms": FIRST + end}
    rows = read_rows("offset", "codecs", DATA / "broker-1", **times)
    assert [row["offset"] for row in rows] == [i for i in range(100) if first <= 1_000 * i < end]


def test_a_timestamp_after_all_records_selects_nothing() -> None:
    assert read_rows("offset", "codecs", start_time_ms=FIRST + 100_000) == []


def test_segments_outside_the_selection_are_not_planned() -> None:
    path = DATA / "broker-1"
    assert [segment.base for segment in segments("codecs", path, start_offset=50)] == [48, 96]
    assert [segment.base for segment in segments("codecs", path, end_offset=48)] == [0]
    assert [segment.base for segment in segments("codecs", path, start_time_ms=FIRST + 60_000)] == [48, 96]
    assert [segment.base for segment in segments("codecs", path, end_time_ms=FIRST + 48_000)] == [0]


def test_bytes_before_the_index_entry_are_not_read(tmp_path: Path) -> None:
    """What the index skips may be garbage."""
    shutil.copytree(DATA / "broker-1", tmp_path, dirs_exist_ok=True)
    log = tmp_path / "codecs-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[:800] = bytes(800)
    log.write_bytes(data)
    rows = read_rows("offset", "codecs", tmp_path, start_offset=30, end_offset=40)
    assert [row["offset"] for row in rows] == list(range(30, 40))
    (tmp_path / "codecs-0" / f"{0:020d}.index").unlink()
    with pytest.raises(DamagedLogError):
        read_rows("offset", "codecs", tmp_path, start_offset=30, end_offset=40)


def test_zeros_after_the_last_index_entry_are_ignored(tmp_path: Path) -> None:
    shutil.copytree(DATA / "broker-1", tmp_path, dirs_exist_ok=True)
    for path in sorted(tmp_path.glob("codecs-0/*index")):
        path.write_bytes(path.read_bytes() + bytes(24 * 10_000))
    for options in ({}, {"start_time_ms": FIRST + 30_000}, {"start_offset": 30}):
        rows = read_rows("offset", "codecs", tmp_path, **options)
        assert [row["offset"] for row in rows] == list(range(30 if options else 0, 100))
