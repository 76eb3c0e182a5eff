"""Logs that are damaged, torn or still being written, and directories that are not log directories."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from insync.logdir.files import Segment, plan_segments
from insync.logdir.options import END, ROWS, LogDirectoryError, ReadOptions
from insync.logdir.rows import DamagedLogError, read_segment
from insync.wire import batch

PER_BATCH = 10
BATCHES = 20
SEGMENT = f"{0:020d}"


def log_directory(root: Path, *, hwm: int = PER_BATCH * BATCHES, segments: int = 1) -> Path:
    """Topic t, one partition; every segment has BATCHES batches of PER_BATCH records."""
    (root / "t-0").mkdir(parents=True)
    (root / "meta.properties").write_text("#\nnode.id=7\n")
    (root / "replication-offset-checkpoint").write_text(f"0\n1\nt 0 {hwm}\n")
    for number in range(segments):
        first = number * PER_BATCH * BATCHES
        data = b"".join(_batch(first + i * PER_BATCH) for i in range(BATCHES))
        (root / "t-0" / f"{first:020d}.log").write_bytes(data)
    return root


def _batch(base: int) -> bytes:
    records = [batch.NewRecord(b"k", b"%d" % (base + i)) for i in range(PER_BATCH)]
    return bytes(batch.build(records, timestamp_ms=1_700_000_000_000 + base, base_offset=base, leader_epoch=0))


def plan(root: Path, **options: Any) -> list[Segment]:
    return plan_segments(ReadOptions(paths=(str(root),), **options))


def rows(root: Path, columns: str = "offset error crc_ok batch_position", **options: Any) -> list[tuple[Any, ...]]:
    names = tuple(columns.split())
    batches = (batch for segment in plan(root, **options) for batch in read_segment(segment, names))
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def offsets(root: Path, **options: Any) -> list[int]:
    return [offset for (offset,) in rows(root, "offset", **options)]


def change(path: Path, position: int, value: bytes) -> None:
    data = bytearray(path.read_bytes())
    data[position : position + len(value)] = value
    path.write_bytes(data)


def sizes_of_batches(path: Path) -> list[int]:
    return [header.length for _, header in batch.iter_headers(path.read_bytes())]


def start_of(root: Path, number: int) -> int:
    return sum(sizes_of_batches(root / "t-0" / f"{SEGMENT}.log")[:number])


def test_a_wrong_checksum_is_an_error_that_names_file_and_position(tmp_path: Path) -> None:
    root = log_directory(tmp_path)
    at = start_of(root, 3)
    change(root / "t-0" / f"{SEGMENT}.log", at + 70, b"\xff")
    with pytest.raises(
        DamagedLogError, match=rf"{SEGMENT}\.log at position {at}: the checksum is wrong .broker 7, t-0."
    ):
        rows(root)


def test_a_damaged_batch_becomes_one_row_on_request(tmp_path: Path) -> None:
    root = log_directory(tmp_path)
    at = start_of(root, 3)
    change(root / "t-0" / f"{SEGMENT}.log", at + 70, b"\xff")
    result = rows(root, corrupt=ROWS)
    assert [row[0] for row in result if row[2]] == [*range(30), *range(40, 200)]
    (damage,) = [row for row in result if not row[2]]
    assert (damage[0], damage[3]) == (30, at)
    assert damage[1].endswith(f"{SEGMENT}.log at position {at}: the checksum is wrong")


def test_damage_outside_the_selection_is_not_reported(tmp_path: Path) -> None:
    root = log_directory(tmp_path)
    change(root / "t-0" / f"{SEGMENT}.log", start_of(root, 3) + 70, b"\xff")
    assert offsets(root, start_offset=40) == list(range(40, 200))


def test_nothing_can_be_read_after_a_wrong_length(tmp_path: Path) -> None:
    root = log_directory(tmp_path, segments=2, hwm=400)
    at = start_of(root, 5)
    change(root / "t-0" / f"{SEGMENT}.log", at + 8, bytes(4))
    result = rows(root, corrupt=ROWS)
    assert [row[0] for row in result if row[2]] == [*range(50), *range(200, 400)]
    (damage,) = [row for row in result if not row[2]]
    assert (damage[0], damage[3]) == (50, at)
    assert "not a valid batch length" in damage[1]


def test_a_batch_at_the_wrong_offset_is_damage(tmp_path: Path) -> None:
    """The checksum does not cover the offset."""
    root = log_directory(tmp_path)
    at = start_of(root, 5)
    change(root / "t-0" / f"{SEGMENT}.log", at, (20).to_bytes(8, "big"))
    with pytest.raises(DamagedLogError, match=f"at position {at}: a batch with offset 20 after offset 49"):
        rows(root)


@pytest.mark.parametrize("missing", [1, 30, 70])
def test_a_torn_end_above_the_high_watermark_is_not_damage(tmp_path: Path, missing: int) -> None:
    root = log_directory(tmp_path, hwm=185)
    log = root / "t-0" / f"{SEGMENT}.log"
    os.truncate(log, log.stat().st_size - missing)
    assert offsets(root) == list(range(185))
    assert offsets(root, bound=END) == list(range(190))


def test_zeros_after_the_last_batch_are_not_damage(tmp_path: Path) -> None:
    root = log_directory(tmp_path)
    with open(root / "t-0" / f"{SEGMENT}.log", "ab") as log:
        log.write(bytes(100_000))
    assert offsets(root, bound=END) == list(range(200))


def test_a_torn_end_below_the_high_watermark_is_damage(tmp_path: Path) -> None:
    root = log_directory(tmp_path)
    log = root / "t-0" / f"{SEGMENT}.log"
    os.truncate(log, log.stat().st_size - 1)
    with pytest.raises(DamagedLogError, match=f"at position {start_of(root, 19)}: the file ends within a batch"):
        rows(root)
    os.truncate(log, start_of(root, 19))
    with pytest.raises(DamagedLogError, match="the log ends at offset 190, below 200"):
        rows(root)


def test_a_torn_end_of_a_closed_segment_is_damage(tmp_path: Path) -> None:
    root = log_directory(tmp_path, segments=2, hwm=400)
    log = root / "t-0" / f"{SEGMENT}.log"
    os.truncate(log, log.stat().st_size - 1)
    result = rows(root, corrupt=ROWS, bound=END)
    assert [row[0] for row in result if row[2]] == [*range(190), *range(200, 400)]
    assert [row[0] for row in result if not row[2]] == [190]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (f"{SEGMENT}.index", bytes(11), "index at position 8: 11 bytes are not a whole number of entries"),
        (f"{SEGMENT}.timeindex", bytes(13), "timeindex at position 12: 13 bytes"),
        (f"{SEGMENT}.index", b"\0\0\0\5\0\0\0\5\0\0\0\4\0\0\0\6", "index at position 8: an entry that is not above"),
        (f"{SEGMENT}.index", b"\0\0\0\5\0\0\0\5", "index at position 0: the entry puts offset 5 at position 5"),
    ],
)
def test_a_damaged_index_is_reported_and_not_used(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    root = log_directory(tmp_path)
    (root / "t-0" / name).write_bytes(content)
    with pytest.raises(DamagedLogError, match=message):
        rows(root)
    result = rows(root, corrupt=ROWS)
    assert sorted(row[0] for row in result if row[2]) == list(range(200))
    (damage,) = [row for row in result if not row[2]]
    assert damage[0] is None
    assert message in damage[1]


def test_an_index_with_a_wrong_position_is_not_followed(tmp_path: Path) -> None:
    root = log_directory(tmp_path)
    entry = (10).to_bytes(4, "big") + (start_of(root, 4) + 7).to_bytes(4, "big")
    (root / "t-0" / f"{SEGMENT}.index").write_bytes(entry)
    result = rows(root, corrupt=ROWS, start_offset=15)
    assert [row[0] for row in result if row[2]] == list(range(15, 200))
    assert any("where no such batch starts" in row[1] for row in result if not row[2])


def test_an_unreadable_segment_is_named(tmp_path: Path) -> None:
    root = log_directory(tmp_path, segments=2, hwm=400)
    log = root / "t-0" / f"{SEGMENT}.log"
    segments = plan(root, corrupt=ROWS)
    log.unlink()
    log.mkdir()
    result = [row for segment in segments for batch in read_segment(segment) for row in batch.to_pylist()]
    assert [row["offset"] for row in result if row["crc_ok"]] == list(range(200, 400))
    (damage,) = [row for row in result if not row["crc_ok"]]
    assert damage["error"] == f"{log} at position 0: cannot be read: Is a directory"
    assert (damage["broker"], damage["topic"], damage["partition"], damage["segment"]) == (7, "t", 0, log.name)


def test_reading_stops_at_the_high_watermark(tmp_path: Path) -> None:
    root = log_directory(tmp_path, hwm=137)
    assert offsets(root) == list(range(137))
    assert offsets(root, bound=END) == list(range(200))


def test_a_partition_without_a_high_watermark_has_no_rows(tmp_path: Path) -> None:
    root = log_directory(tmp_path)
    (root / "replication-offset-checkpoint").write_text("0\n0\n")
    assert offsets(root) == []


def test_records_below_the_log_start_are_not_read(tmp_path: Path) -> None:
    root = log_directory(tmp_path, segments=2, hwm=400)
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 215\n")
    assert offsets(root) == list(range(215, 400))


def test_directories_pending_delete_are_not_partitions(tmp_path: Path) -> None:
    root = log_directory(tmp_path)
    (root / "t-1.0123456789abcdef0123456789abcdef-delete").mkdir()
    (root / "notes").mkdir()
    assert offsets(root) == list(range(200))


def test_a_directory_without_meta_properties_needs_a_broker_id(tmp_path: Path) -> None:
    root = log_directory(tmp_path / "copy")
    (root / "meta.properties").unlink()
    with pytest.raises(LogDirectoryError, match="give the ids with 'brokers'"):
        rows(root)
    assert {broker for (broker,) in rows(root, "broker", brokers=(12,))} == {12}


def test_an_empty_log_directory_differs_from_any_other_directory(tmp_path: Path) -> None:
    root = log_directory(tmp_path / "node")
    for brokers in ((), (12,)):
        with pytest.raises(
            LogDirectoryError, match=r"is not a log directory: .* such as orders-0\. Did you mean '.*/node'\?"
        ):
            rows(tmp_path, brokers=brokers)
    (root / "notes").mkdir()
    with pytest.raises(LogDirectoryError, match=r"such as orders-0\.$"):
        rows(root / "notes", brokers=(12,))
    (root / "notes" / "meta.properties").write_text("#\nnode.id=7\n")
    assert rows(root / "notes") == []


def test_a_missing_topic_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(LogDirectoryError, match="topic 'u' is in none of the log directories"):
        plan(log_directory(tmp_path), topics=("t", "u"))


@pytest.mark.parametrize("content", [None, b"", b"0\n2\nt 0 5\n"])
def test_missing_high_watermarks_are_an_error(tmp_path: Path, content: bytes | None) -> None:
    root = log_directory(tmp_path)
    path = root / "replication-offset-checkpoint"
    path.unlink() if content is None else path.write_bytes(content)
    with pytest.raises(LogDirectoryError, match="replication-offset-checkpoint is missing or damaged"):
        rows(root)
    assert offsets(root, bound=END) == list(range(200))


def test_batches_larger_than_a_chunk_are_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("insync.logdir.chunks.CHUNK_BYTES", 100)
    assert offsets(log_directory(tmp_path)) == list(range(200))


def test_rows_are_counted_without_a_column(tmp_path: Path) -> None:
    root = log_directory(tmp_path)
    change(root / "t-0" / f"{SEGMENT}.log", start_of(root, 3) + 70, b"\xff")
    segments = plan(root, corrupt=ROWS, end_offset=125)
    assert [batch.num_rows for segment in segments for batch in read_segment(segment, ())] == [115, 1]
