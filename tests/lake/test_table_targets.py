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

from insync.lake.journal import EntryTakenError, JournalDamagedError
from insync.lake.ledger import OPEN, RANGES, Range
from insync.lake.location import open_store
from insync.lake.store import LakeError, LocalStore
from insync.lake.tables.delta import open_delta_lake
from insync.lake.tables.iceberg import open_iceberg_lake
from insync.lake.tables.ledger import CommitUnknownError, TableChangedError, TableLedger
from tests.lake.lake_stores import URL, use_memory
from tests.lake.rest_catalog import run_rest_catalog
from tests.lake.table_ranges import DAY_MS, TOPIC_ID, write

SETTINGS = {"isolation": "read_committed"}
KEY = ("orders", 0)


def open_delta(root: Path, settings: dict[str, str] = SETTINGS) -> TableLedger:
    return open_delta_lake(LocalStore(root), settings)


def open_iceberg(root: Path, settings: dict[str, str] = SETTINGS) -> TableLedger:
    return open_iceberg_lake(LocalStore(root), "", "insync", settings)


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


# --- answers that get lost -------------------------------------------------------------------------------------------


@both
def test_a_commit_whose_answer_got_lost_is_recognised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_lake: Open, read: Read
) -> None:
    ledger = open_lake(tmp_path)
    ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 10)])
    table = ledger.table("orders")
    commit = table.commit
    errors = iter([CommitUnknownError("connection closed"), TableChangedError("version 3 exists")])

    def lose_answer(*arguments: Any) -> None:
        commit(*arguments)
        raise next(errors)

    monkeypatch.setattr(table, "commit", lose_answer)
    for start in (10, 20):
        ledger.commit(RANGES, "me", ranges=[write(ledger, start, start + 10, attempt=f"a{start}")])
    monkeypatch.undo()
    ledger.commit(RANGES, "me", ranges=[write(ledger, 30, 40, attempt="ef")])
    assert offsets(read(tmp_path)) == list(range(40))


@both
def test_a_commit_that_never_gets_an_answer_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, open_lake: Open, read: Read
) -> None:
    ledger = open_lake(tmp_path)
    ledger.commit(RANGES, "me", ranges=[write(ledger, 0, 10)])

    def lose_request(*arguments: Any) -> None:
        raise CommitUnknownError("connection refused")

    monkeypatch.setattr(ledger.table("orders"), "commit", lose_request)
    with pytest.raises(LakeError, match="table of 'orders' cannot be committed to: connection refused"):
        ledger.commit(RANGES, "me", ranges=[write(ledger, 10, 20, attempt="cd")])
    monkeypatch.undo()
    ledger.commit(RANGES, "me", ranges=[write(ledger, 10, 20, attempt="ef")])
    assert offsets(read(tmp_path)) == list(range(20))


# --- REST catalogs ---------------------------------------------------------------------------------------------------


def test_a_rest_catalog_is_committed_to_once_and_places_the_tables(tmp_path: Path) -> None:
    """Also if the network loses the answer to a commit, and with a second archiver."""
    with run_rest_catalog(tmp_path, warehouse=f"file://{tmp_path}/warehouse") as server:
        unused = LocalStore(tmp_path / "unused")
        first = open_iceberg_lake(unused, server.uri, "insync", SETTINGS)
        first.commit(RANGES, "me", ranges=[write(first, 0, 10)])
        second = open_iceberg_lake(unused, server.uri, "insync", SETTINGS)
        server.lose_answers = 1
        first.commit(RANGES, "me", ranges=[write(first, 10, 20, attempt="cd")])
        assert server.lose_answers == 0
        with pytest.raises(EntryTakenError, match="another archiver has written to the table of 'orders'"):
            second.commit(RANGES, "other", ranges=[write(second, 10, 20, attempt="ef")])
        first.commit(RANGES, "me", ranges=[write(first, 20, 30, attempt="gh")])
        table = load_catalog("reader", uri=server.uri).load_table(("insync", "orders"))
        assert table.location().startswith(f"file://{tmp_path}/warehouse/")
        assert offsets(table.scan().to_arrow()) == list(range(30))
    assert not (tmp_path / "unused").exists()


def test_an_iceberg_lake_in_an_object_store_needs_a_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    use_memory(monkeypatch)
    with pytest.raises(LakeError, match="name the Iceberg catalog with --catalog"):
        open_iceberg_lake(open_store(URL), "", "insync", SETTINGS)


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
