"""Archives in Delta and Iceberg tables: each range once, by the tables' own commits, readable by others."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from insync.lake.directory import LakeError
from insync.lake.journal import EntryTakenError, JournalDamagedError
from insync.lake.ledger import OPEN, RANGES, Range
from insync.lake.tables.delta import open_delta_lake
from insync.lake.tables.iceberg import open_iceberg_lake
from insync.lake.tables.ledger import TableLedger
from insync.lake.writer import RangeWriter
from tests.lake.lake_rows import make_rows

SETTINGS = {"isolation": "read_committed"}
TOPIC_ID = "ffffffff-ffff-4fff-8fff-00000000000b"
DAY_MS = 86_400_000
KEY = ("orders", 0)


def open_delta(root: Path, settings: dict[str, str] = SETTINGS) -> TableLedger:
    return open_delta_lake(root, settings)


def open_iceberg(root: Path, settings: dict[str, str] = SETTINGS) -> TableLedger:
    return open_iceberg_lake(root, "", "insync", settings)


def read_delta(root: Path, topic: str = "orders") -> pa.Table:
    return DeltaTable(str(root / topic)).to_pyarrow_table()


def load_iceberg(root: Path, topic: str = "orders") -> Any:
    return load_catalog("insync", uri=f"sqlite:///{root}/catalog.db").load_table(("insync", topic))


def read_iceberg(root: Path, topic: str = "orders") -> pa.Table:
    return load_iceberg(root, topic).scan().to_arrow()


Open = Callable[..., TableLedger]
Read = Callable[..., pa.Table]
both = pytest.mark.parametrize(
    ("open_lake", "read"), [(open_delta, read_delta), (open_iceberg, read_iceberg)], ids=["delta", "iceberg"]
)


def write(ledger: TableLedger, start: int, end: int, *, attempt: str = "ab", **fields: Any) -> Range:
    """Files of a range that is not committed yet, of several dates."""
    known: dict[str, Any] = {
        "topic": "orders",
        "topic_id": TOPIC_ID,
        "partition": 0,
        "generation": 0,
        "epoch": 3,
        "seen": end,
    }
    known |= fields
    times = known.pop("times", [20_000 * DAY_MS + i * DAY_MS // 40 for i in range(start, end)])
    writer = RangeWriter(
        ledger.table(known["topic"]).data,
        topic=known["topic"],
        partition=known["partition"],
        start=start,
        end=end,
        attempt=f"{attempt}-1",
        codec="zstd",
    )
    writer.add(make_rows(start, times))
    files = tuple(writer.close())
    return Range(start=start, end=end, files=files, rows=end - start, **known)


def offsets(table: pa.Table) -> list[int]:
    rows: list[int] = table.column("offset").to_pylist()
    return sorted(rows)


@both
def test_ranges_are_added_and_the_state_is_found_again(tmp_path: Path, open_lake: Open, read: Read) -> None:
    ledger = open_lake(tmp_path)
    ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 100), write(ledger, 0, 10, partition=2)])
    ledger.commit(RANGES, "me", ranges=[write(ledger, 100, 150, attempt="cd")])
    ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 5, topic="other")])
    again = open_lake(tmp_path)
    assert again.partitions() == [("orders", 0), ("orders", 2), ("other", 0)]
    last = again.last(KEY)
    assert last is not None
    assert (last.end, last.topic_id, last.generation, again.last_seen(KEY)) == (150, TOPIC_ID, 0, (3, 150))
    assert again.committed_at_s(KEY) == pytest.approx(ledger.committed_at_s(KEY), abs=0.01)
    with pytest.raises(JournalDamagedError, match="an overlap"):
        again.commit(RANGES, "me", ranges=[write(again, 100, 150)])
    assert offsets(read(tmp_path)) == sorted([*range(150), *range(10)])
    assert offsets(read(tmp_path, "other")) == list(range(5))


@both
def test_the_slower_of_two_archivers_is_fenced_and_adds_nothing(tmp_path: Path, open_lake: Open, read: Read) -> None:
    first = open_lake(tmp_path)
    first.commit(RANGES, "me", ranges=[write(first, 0, 50)])
    second = open_lake(tmp_path)
    first.commit(RANGES, "me", ranges=[write(first, 50, 100)])
    with pytest.raises(EntryTakenError, match="another archiver has written to the table of 'orders'"):
        second.commit(RANGES, "other", ranges=[write(second, 50, 100, attempt="cd")])
    assert offsets(read(tmp_path)) == list(range(100))  # the files of the slower one are there, but not in the table
    first.commit(RANGES, "me", ranges=[write(first, 100, 110)])
    assert offsets(read(tmp_path)) == list(range(110))


@both
def test_lost_ranges_and_new_generations_are_recorded(tmp_path: Path, open_lake: Open, read: Read) -> None:
    ledger, other_id = open_lake(tmp_path), "00000000-0000-4000-8000-000000000001"
    ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 10)])
    lost = Range(
        topic="orders", topic_id=TOPIC_ID, partition=0, generation=0, start=10, end=20, lost="retention took them"
    )
    ledger.commit(RANGES, "me", ranges=[lost])
    assert open_lake(tmp_path).last_seen(KEY) == (3, 10)  # as far as a batch was seen
    concurrent = open_lake(tmp_path)
    ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 5, generation=1, topic_id=other_id, attempt="ef")])
    with pytest.raises(EntryTakenError):
        concurrent.commit(RANGES, "other", ranges=[Range(**{**_fields(lost), "start": 20, "end": 30})])
    last = open_lake(tmp_path).last(KEY)
    assert last is not None
    assert (last.end, last.generation, last.topic_id) == (5, 1, other_id)
    assert offsets(read(tmp_path)) == sorted([*range(10), *range(5)])


def _fields(archived: Range) -> dict[str, Any]:
    return {name: getattr(archived, name) for name in archived.__slots__}


@both
def test_records_without_a_sensible_time_are_readable(tmp_path: Path, open_lake: Open, read: Read) -> None:
    ledger = open_lake(tmp_path)
    times = [-1, 20_000 * DAY_MS, -5 * DAY_MS]
    ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 3, times=times)])
    table = read(tmp_path)
    assert offsets(table) == [0, 1, 2]
    stored = table.select(["offset", "timestamp"]).sort_by("offset").column("timestamp").cast("int64").to_pylist()
    assert [time // 1000 for time in stored] == times


@both
def test_the_isolation_level_cannot_change(tmp_path: Path, open_lake: Open, read: Read) -> None:
    ledger = open_lake(tmp_path)
    ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 3)])
    with pytest.raises(LakeError, match="was created with isolation read_committed"):
        open_lake(tmp_path, {"isolation": "read_uncommitted"})
    with pytest.raises(LakeError, match="no entries of kind 'open'"):
        ledger.commit(OPEN, "me")


# --- others that change the table ------------------------------------------------------------------------------------


def test_a_delta_table_that_another_engine_merges_stays_exact(tmp_path: Path) -> None:
    ledger = open_delta(tmp_path)
    for start in range(0, 40, 10):
        ledger.commit(RANGES, "me", ranges=[write(ledger, start, start + 10, attempt=f"a{start}")])
    DeltaTable(str(tmp_path / "orders")).optimize.compact()
    DeltaTable(str(tmp_path / "orders")).create_checkpoint()
    ledger.commit(RANGES, "me", ranges=[write(ledger, 40, 50)])
    assert offsets(read_delta(tmp_path)) == list(range(50))
    last = open_delta(tmp_path).last(KEY)
    assert last is not None
    assert last.end == 50


def test_an_iceberg_table_that_another_engine_changes_stays_exact(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = open_iceberg(tmp_path)
    ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 10)])
    load_iceberg(tmp_path).append(load_iceberg(tmp_path).scan().to_arrow().slice(0, 0))
    ledger.commit(RANGES, "me", ranges=[write(ledger, 10, 20, attempt="cd")])
    table = load_iceberg(tmp_path)
    assert offsets(table.scan().to_arrow()) == list(range(20))
    assert "commit.retry.num-retries" not in table.properties  # what we set is for our own commits
    (described,) = json.loads(table.current_snapshot().summary["insync.ranges"])
    assert (described["start"], described["end"]) == (10, 20)
    assert table.inspect.partitions().num_rows == 1
    assert [record.getMessage() for record in caplog.records if "statistics" in record.getMessage()] == []


# --- readers ---------------------------------------------------------------------------------------------------------


def test_duckdb_reads_the_files_of_both(tmp_path: Path) -> None:
    delta, iceberg = open_delta(tmp_path / "delta"), open_iceberg(tmp_path / "iceberg")
    for ledger in (delta, iceberg):
        ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 100)])
    files = {
        "delta": DeltaTable(str(tmp_path / "delta" / "orders")).file_uris(),
        "iceberg": [
            task.file.file_path.removeprefix("file://")
            for task in load_iceberg(tmp_path / "iceberg").scan().plan_files()
        ],
    }
    for names in files.values():
        query = 'select count(*), min("offset"), max("offset"), count(distinct value) from read_parquet(?)'
        assert duckdb.execute(query, [names]).fetchone() == (100, 0, 99, 100)


def test_delta_skips_files_by_offset_and_date(tmp_path: Path) -> None:
    ledger = open_delta(tmp_path)
    for start in (0, 100):
        ledger.commit(RANGES, "me", ranges=[write(ledger, start, start + 100, attempt=f"a{start}")])
    table = DeltaTable(str(tmp_path / "orders"))
    assert {Path(name).parent.name for name in table.file_uris()} >= {"date=2024-10-04", "date=2024-10-05"}
    selected = table.to_pyarrow_table(filters=[("offset", ">=", 150)])
    assert selected.num_rows == 50
    assert set(selected.column("topic").to_pylist()) == {"orders"}
