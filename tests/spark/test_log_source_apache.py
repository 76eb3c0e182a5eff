"""`insync-log`, without Spark, on log directories that Apache Kafka wrote (tests/data/apache-kafka-logs/README.md)."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from insync.spark import log_files, log_rows
from insync.spark.log_options import read_options

DATA = Path(__file__).parent.parent / "data" / "apache-kafka-logs"
FIRST = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def segments(**options: str) -> list[log_files.Segment]:
    return log_files.plan(read_options({"path": f"{DATA}/broker-*", **options}))


def rows(columns: str = "", **options: str) -> list[dict[str, Any]]:
    chosen = tuple(columns.split()) or tuple(log_rows.COLUMNS)
    found = (batch for segment in segments(**options) for batch in log_rows.read(segment, chosen))
    return [row for batch in found for row in batch.to_pylist()]


def values(**options: str) -> list[bytes]:
    return [row["value"] for row in rows("value", **options)]


def test_every_codec_is_read_with_every_fact_of_its_batch() -> None:
    found = rows(topics="codecs")
    assert [(row["broker"], row["offset"]) for row in found] == [(b, i) for b in (1, 2) for i in range(100)]
    for row in found:
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
    found = rows("broker segment base_offset batch_position batch_size", topics="codecs")
    batches = {tuple(row.values()) for row in found}
    for broker in (1, 2):
        for base in (0, 48, 96):
            name = f"{base:020d}.log"
            mine = sorted((at, size) for b, segment, _, at, size in batches if (b, segment) == (broker, name))
            assert [at for at, _ in mine] == [sum(size for _, size in mine[:i]) for i in range(len(mine))]
            assert sum(size for _, size in mine) == (DATA / f"broker-{broker}" / "codecs-0" / name).stat().st_size


def test_a_batch_that_the_broker_stamped_has_its_time() -> None:
    found = rows("timestamp timestampType", topics="appended")
    assert {row["timestampType"] for row in found} == {1}
    assert len({row["timestamp"] for row in found}) == 1
    assert found[0]["timestamp"] > datetime(2024, 1, 1, tzinfo=UTC)


def test_compaction_leaves_gaps_and_tombstones() -> None:
    found = rows("offset key value", topics="compacted", path=f"{DATA}/broker-1")
    assert [tuple(row.values()) for row in found] == [
        (10, b"a", b"a2"),
        (12, b"c", b"c2"),
        (13, b"d", b"d2"),
        (14, b"e", b"e2"),
        (15, b"b", None),
        (16, b"end", b"end"),
    ]


def test_aborted_records_are_rows_and_markers_are_if_asked_for() -> None:
    plain = rows("offset value transactional control", topics="transactions", path=f"{DATA}/broker-2")
    assert [row["offset"] for row in plain] == [*range(5), *range(6, 11), 12, *range(13, 16)]
    assert [row["value"] for row in plain[5:10]] == [b"aborted %d" % i for i in range(5)]
    assert [row["offset"] for row in plain if not row["transactional"]] == [12]
    assert not any(row["control"] for row in plain)
    options = {"topics": "transactions", "path": f"{DATA}/broker-2", "includeControl": "true"}
    for columns in ("offset control", "offset"):
        assert [row["offset"] for row in rows(columns, **options)] == list(range(17))
    assert [row["offset"] for row in rows("offset control", **options) if row["control"]] == [5, 11, 16]


def test_leader_epochs_are_told() -> None:
    found = rows("broker offset leader_epoch value", topics="epochs")
    assert [tuple(row.values()) for row in found] == [
        (broker, i, i // 3, b"%d %d" % (i // 3, i % 3)) for broker in (1, 2) for i in range(6)
    ]


@pytest.mark.parametrize("first", [0, 3, 4, 47, 48, 50, 99, 100])
@pytest.mark.parametrize("end", [0, 1, 4, 48, 49, 97, 100, 1_000])
def test_offsets_bound_what_is_read(first: int, end: int) -> None:
    found = rows("offset", topics="codecs", path=f"{DATA}/broker-1", startingOffset=str(first), endingOffset=str(end))
    assert [row["offset"] for row in found] == list(range(first, min(end, 100)))


@pytest.mark.parametrize("first", [0, 3_000, 3_001, 47_999, 48_000, 70_000, 99_000])
@pytest.mark.parametrize("end", [0, 3_500, 48_000, 48_001, 99_000, 99_001])
def test_times_bound_what_is_read(first: int, end: int) -> None:
    times = {"startingTimestamp": str(FIRST + first), "endingTimestamp": str(FIRST + end)}
    found = rows("offset", topics="codecs", path=f"{DATA}/broker-1", **times)
    assert [row["offset"] for row in found] == [i for i in range(100) if first <= 1_000 * i < end]


def test_a_time_after_everything_finds_nothing() -> None:
    assert rows("offset", topics="codecs", startingTimestamp=str(FIRST + 100_000)) == []


def test_segments_that_hold_nothing_wanted_are_no_tasks() -> None:
    one = {"topics": "codecs", "path": f"{DATA}/broker-1"}
    assert [segment.base for segment in segments(**one, startingOffset="50")] == [48, 96]
    assert [segment.base for segment in segments(**one, endingOffset="48")] == [0]
    assert [segment.base for segment in segments(**one, startingTimestamp=str(FIRST + 60_000))] == [48, 96]
    assert [segment.base for segment in segments(**one, endingTimestamp=str(FIRST + 48_000))] == [0]


def test_the_index_saves_reading_what_lies_before(tmp_path: Path) -> None:
    """What the index passes over may be garbage: it is not looked at."""
    shutil.copytree(DATA / "broker-1", tmp_path, dirs_exist_ok=True)
    log = tmp_path / "codecs-0" / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[:800] = bytes(800)
    log.write_bytes(data)
    one = {"topics": "codecs", "path": str(tmp_path), "startingOffset": "30", "endingOffset": "40"}
    assert [row["offset"] for row in rows("offset", **one)] == list(range(30, 40))
    (tmp_path / "codecs-0" / f"{0:020d}.index").unlink()
    with pytest.raises(log_rows.DamagedLog):
        rows("offset", **one)


def test_indexes_of_a_running_broker_end_in_zeros(tmp_path: Path) -> None:
    shutil.copytree(DATA / "broker-1", tmp_path, dirs_exist_ok=True)
    for path in sorted(tmp_path.glob("codecs-0/*index")):
        path.write_bytes(path.read_bytes() + bytes(24 * 10_000))
    for times in ({}, {"startingTimestamp": str(FIRST + 30_000)}, {"startingOffset": "30"}):
        found = rows("offset", topics="codecs", path=str(tmp_path), **times)
        assert [row["offset"] for row in found] == list(range(30 if times else 0, 100))
