"""Archiver and compactor share a ledger: neither stops the other, and no row is lost or counted twice."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from insync.lake import directory, staging
from insync.lake.directory import Lake
from insync.lake.journal import EntryTakenError, JournalDamagedError, file_name
from insync.lake.ledger import COMPACT, DIRECTORY, OPEN, RANGES, REPLACE, File, Ledger, Range
from insync.lake.location import open_store
from insync.lake.staging import STAGED
from insync.lake.store import LakeLockedError, Store
from tests.lake.lake_stores import list_kinds, read_file, write_file

SETTINGS = {"isolation": "read_committed"}
KEY = ("t", 0)


def make_file(start: int, rows: int, name: str = "part") -> File:
    path = f"topic=t/date=2026-01-01/{name}-00000-{start:020d}-{start + rows:020d}-ab-1-0.parquet"
    return File(path=path, rows=rows, bytes=3, crc=7, first=start, last=start + rows - 1, oldest=0, newest=9)


def make_range(start: int, end: int, name: str = "part", **fields: Any) -> Range:
    rows = fields.pop("rows", end - start)
    files = (make_file(start, rows, name),) if rows else ()
    known: dict[str, Any] = {"topic": "t", "topic_id": "A", "partition": 0, "generation": 0}
    return Range(start=start, end=end, **{**known, "rows": rows, "files": files, **fields})


@pytest.fixture
def ledger(place: str) -> Ledger:
    """Three ranges of ten rows."""
    directory.make_lake(place)
    ledger = Ledger.load(place)
    ledger.commit(OPEN, "archiver", settings=SETTINGS)
    for start in (0, 10, 20):
        ledger.commit(RANGES, "archiver", ranges=[make_range(start, start + 10, epoch=1, seen=start + 10)])
    return ledger


def test_a_merged_range_takes_the_place_of_its_parts(ledger: Ledger) -> None:
    merged = make_range(0, 20, "compact", epoch=1, seen=20)
    ledger.commit(REPLACE, "compactor", ranges=[merged])
    for state in (ledger, Ledger.load(ledger.lake)):
        assert [(archived.start, archived.end) for archived in state.ranges()] == [(0, 20), (20, 30)]
        assert list(state.replaced) == [make_file(0, 10).path, make_file(10, 10).path]
        assert list(state.compacted) == [merged.files[0].path]
        assert state.last_seen(KEY) == (1, 30)


@pytest.mark.parametrize(
    ("merged", "message"),
    [
        (make_range(0, 15), "none begins and ends there"),
        (make_range(5, 20), "none begins and ends there"),
        (make_range(20, 10, rows=0), "are not a valid range"),
        (make_range(0, 20, generation=1), "none begins and ends there"),
        (make_range(0, 20, topic_id="B"), "another topic id"),
        (make_range(0, 20, rows=19), "19 rows are to replace 20"),
        (make_range(0, 20, expired="old"), "are not a valid range"),
    ],
)
def test_a_merge_that_would_change_what_is_archived_is_rejected(ledger: Ledger, merged: Range, message: str) -> None:
    before = ledger.ranges()
    with pytest.raises(JournalDamagedError, match=message):
        ledger.commit(REPLACE, "compactor", ranges=[merged])
    assert Ledger.load(ledger.lake).ranges() == ledger.ranges() == before


def test_lost_ranges_are_not_merged(ledger: Ledger) -> None:
    ledger.commit(RANGES, "archiver", ranges=[make_range(30, 40, rows=0, lost="retention")])
    with pytest.raises(JournalDamagedError, match="or lost ones"):
        ledger.commit(REPLACE, "compactor", ranges=[make_range(20, 40, rows=10)])


def test_expired_ranges_keep_their_offsets_and_can_grow(ledger: Ledger) -> None:
    ledger.commit(REPLACE, "compactor", ranges=[make_range(0, 10, rows=0, expired="old")])
    ledger.commit(REPLACE, "compactor", ranges=[make_range(0, 20, rows=0, expired="older")])
    state = Ledger.load(ledger.lake)
    assert [(archived.start, archived.end, archived.expired) for archived in state.ranges()] == [
        (0, 20, "older"),
        (20, 30, ""),
    ]
    with pytest.raises(JournalDamagedError, match="rows are to replace"):
        ledger.commit(REPLACE, "compactor", ranges=[make_range(0, 30, rows=10)])  # would hide that some expired


def test_archiver_and_compactor_commit_in_turns(ledger: Ledger) -> None:
    """Each finds an entry of the other in its place, applies it and tries again."""
    compactor = Ledger.load(ledger.lake)
    ledger.commit(RANGES, "archiver", ranges=[make_range(30, 40)])
    compactor.commit(REPLACE, "compactor", ranges=[make_range(0, 30, "compact")])
    ledger.commit(RANGES, "archiver", ranges=[make_range(40, 50)])
    assert ledger.ranges() == Ledger.load(ledger.lake).ranges()
    assert [(archived.start, archived.end) for archived in ledger.ranges()] == [(0, 30), (30, 40), (40, 50)]


def test_another_process_in_the_same_role_fences(ledger: Ledger) -> None:
    first = Ledger.load(ledger.lake)
    first.commit(COMPACT, "first")
    second = Ledger.load(ledger.lake)
    second.commit(COMPACT, "second")
    with pytest.raises(EntryTakenError):
        first.commit(REPLACE, "first", ranges=[make_range(0, 20, "compact")])
    second.commit(REPLACE, "second", ranges=[make_range(0, 20, "compact")])
    ledger.commit(RANGES, "archiver", ranges=[make_range(30, 40)])  # the archiver does not mind


def test_a_temporary_file_that_another_process_deletes_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An archiver that starts deletes those of killed processes, and cannot tell them from the compactor's."""
    directory.make_lake(tmp_path)
    ledger = Ledger.load(tmp_path)
    link = os.link
    deletions = iter([True, True, False])

    def delete_first(source: Path, target: Path) -> None:
        if next(deletions):
            ledger.lake.remove_temporary_files(DIRECTORY)
        link(source, target)

    monkeypatch.setattr(os, "link", delete_first)
    ledger.commit(COMPACT, "compactor")
    assert Ledger.load(ledger.lake).entries == 1


def test_entries_say_which_format_they_need(ledger: Ledger) -> None:
    """A version that does not know compaction stops at its first entry; before it, it reads everything."""
    ledger.commit(REPLACE, "compactor", ranges=[make_range(0, 20, "compact")])
    ledger.commit(RANGES, "archiver", ranges=[make_range(30, 40)])
    documents = [json.loads(read_file(str(ledger.lake), f"{DIRECTORY}/{file_name(n)}")) for n in range(6)]
    assert [document["format"] for document in documents] == [1, 1, 1, 1, 2, 1]
    assert "expired" not in documents[5]["entry"]["ranges"][0]


# --- files -----------------------------------------------------------------------------------------------------------


def write_files(place: str, *ranges: Range, staged: bool = False) -> None:
    for archived in ranges:
        for file in archived.files:
            write_file(place, f"{STAGED}/{file.path}" if staged else file.path, b"abc")


def list_staged(place: str) -> list[str]:
    return [file.path for file in open_store(place).list_files(STAGED)]


def test_until_the_grace_is_over_listings_show_the_old_files(ledger: Ledger, place: str) -> None:
    merged = make_range(0, 30, "compact")
    write_files(place, *ledger.ranges())
    write_files(place, merged, staged=True)
    (file,) = merged.files
    ledger.commit(REPLACE, "compactor", ranges=[merged])
    at = staging._to_seconds(ledger.compacted[file.path])
    assert staging.publish(ledger, 60.0, now_s=at + 59) == []
    assert list_kinds(place) == ["part"] * 3
    assert staging.find_path(ledger.lake, file.path) == f"{STAGED}/{file.path}"
    assert len(staging.publish(ledger, 60.0, now_s=at + 60)) == 3
    assert list_kinds(place) == ["compact"]
    assert staging.find_path(ledger.lake, file.path) == file.path
    staging.publish(ledger, 60.0, now_s=at + 60)
    assert list_staged(place) == [f"{STAGED}/{file.path}"]  # a reader may have it open
    staging.publish(ledger, 60.0, now_s=at + 10_000)
    assert list_staged(place) == []
    assert directory.list_orphans(ledger) == []


def test_a_merge_of_merged_files_deletes_them_wherever_they_are(ledger: Ledger, place: str) -> None:
    first, second = make_range(0, 20, "compact"), make_range(0, 30, "compact")
    second = replace(second, files=(replace(second.files[0], path=second.files[0].path.replace("-ab-1", "-ab-2")),))
    write_files(place, *ledger.ranges())
    for merged in (first, second):
        write_files(place, merged, staged=True)
        ledger.commit(REPLACE, "compactor", ranges=[merged])
    assert len(staging.publish(ledger, 0.0)) == 4
    assert list_kinds(place) == ["compact"]
    assert list_staged(place) == []


def test_each_role_deletes_its_own_orphans_only(place: str) -> None:
    with Lake.open(place, SETTINGS):
        write_files(place, make_range(0, 10))  # of the running archiver
        write_files(place, make_range(0, 10, "compact"), staged=True)  # of a killed compactor
        with Lake.open_for_compaction(place) as lake:
            assert lake.removed_orphans == [f"{STAGED}/{make_file(0, 10, 'compact').path}"]
            write_files(place, make_range(0, 10, "compact"), staged=True)  # of the running compactor
        assert list_kinds(place) == ["part"]
    with Lake.open(place, SETTINGS) as again:
        assert again.removed_orphans == [make_file(0, 10).path]
    assert len(list_staged(place)) == 1


def test_a_second_compactor_of_a_directory_is_refused(tmp_path: Path) -> None:
    Lake.open(tmp_path, SETTINGS).close()
    with Lake.open_for_compaction(tmp_path), pytest.raises(LakeLockedError, match="another compactor"):
        Lake.open_for_compaction(tmp_path)


def test_an_archiver_that_opens_a_lake_while_files_are_replaced_finds_them_all(
    ledger: Ledger, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ledger is loaded; then the compactor commits, and deletes what it has replaced."""
    write_files(place, *ledger.ranges())
    load = Ledger.load

    def load_then_compact(lake: Store) -> Ledger:
        loaded = load(lake)
        monkeypatch.setattr(Ledger, "load", load)
        merged = make_range(0, 30, "compact")
        write_files(place, merged, staged=True)
        ledger.commit(REPLACE, "compactor", ranges=[merged])
        staging.publish(ledger, 0.0)
        return loaded

    monkeypatch.setattr(Ledger, "load", load_then_compact)
    with Lake.open(ledger.lake, SETTINGS) as opened:
        assert len(opened.ledger.files()) == 1
        assert opened.removed_orphans == []
    assert list_kinds(place) == ["compact"]


def test_an_archiver_that_starts_while_merged_files_are_published_keeps_them(
    ledger: Ledger, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the archiver's entry the compactor commits, and moves its file to its final place."""
    write_files(place, *ledger.ranges())
    commit = Ledger.commit

    def commit_then_compact(opened: Ledger, kind: str, archiver: str, **fields: Any) -> Any:
        entry = commit(opened, kind, archiver, **fields)
        monkeypatch.setattr(Ledger, "commit", commit)
        merged = make_range(0, 30, "compact")
        write_files(place, merged, staged=True)
        ledger.commit(REPLACE, "compactor", ranges=[merged])
        staging.publish(ledger, 0.0)
        return entry

    monkeypatch.setattr(Ledger, "commit", commit_then_compact)
    with Lake.open(place, SETTINGS) as opened:
        assert opened.removed_orphans == []
    assert list_kinds(place) == ["compact"]
