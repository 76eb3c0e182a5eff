"""The ledger of a lake: entries without gaps or overlaps, written whole or not at all, by one writer."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from insync.lake import directory
from insync.lake.directory import Lake
from insync.lake.journal import EntryTakenError, JournalDamagedError, file_name
from insync.lake.ledger import DIRECTORY, OPEN, RANGES, File, Ledger, Range
from insync.lake.location import open_store
from insync.lake.store import LakeError, LakeLockedError, LocalStore
from tests.lake.lake_stores import read_file, write_file

SETTINGS = {"isolation": "read_committed"}


def file(path: str, rows: int, first: int = 0) -> File:
    return File(path=path, rows=rows, bytes=3, crc=7, first=first, last=first + rows - 1, oldest=0, newest=9)


def make_range(start: int, end: int, **fields: Any) -> Range:
    rows = fields.pop("rows", end - start)
    files = (file(f"topic=t/date=2026-01-01/{start}.parquet", rows, start),) if rows else ()
    defaults = {"topic": "t", "topic_id": "A", "partition": 0, "generation": 0, "rows": rows, "files": files} | fields
    return Range(start=start, end=end, **defaults)


@pytest.fixture
def ledger(place: str) -> Ledger:
    directory.make_lake(place)
    return Ledger.load(place)


def entry_path(sequence: int) -> str:
    return f"{DIRECTORY}/{file_name(sequence)}"


def test_committed_entries_are_loaded_again(ledger: Ledger) -> None:
    ledger.commit(OPEN, "me", settings=SETTINGS)
    ledger.commit(RANGES, "me", ranges=[make_range(5, 10), make_range(0, 3, partition=1, rows=0)])
    ledger.commit(RANGES, "me", ranges=[make_range(10, 20, rows=2, epoch=4, seen=19)])
    again = Ledger.load(ledger.lake)
    assert (
        again.ranges()
        == ledger.ranges()
        == [make_range(5, 10), make_range(10, 20, rows=2, epoch=4, seen=19), make_range(0, 3, partition=1, rows=0)]
    )
    assert (again.entries, again.settings, again.last_seen(("t", 0))) == (3, SETTINGS, (4, 19))
    assert list(again.files()) == ["topic=t/date=2026-01-01/5.parquet", "topic=t/date=2026-01-01/10.parquet"]


@pytest.mark.parametrize(
    ("next_range", "message"),
    [
        (make_range(11, 20), "a gap, the range before it ends at 10"),
        (make_range(9, 20), "an overlap"),
        (make_range(10, 10), "are not a valid range"),
        (make_range(10, 20, topic_id="B"), "another topic id without a new generation"),
        (make_range(0, 4, generation=2), "generation 2 is not the next one"),
        (replace(make_range(10, 20), rows=3), "3 rows do not match its files"),
        (make_range(10, 12, rows=3), "more than its offsets"),
        (make_range(10, 12, lost="retention"), "are not a valid range"),
    ],
)
def test_a_range_that_does_not_follow_is_rejected_and_nothing_is_written(
    ledger: Ledger, next_range: Range, message: str
) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    with pytest.raises(JournalDamagedError, match=message):
        ledger.commit(RANGES, "me", ranges=[next_range])
    assert Ledger.load(ledger.lake).ranges() == ledger.ranges() == [make_range(0, 10)]


def test_offsets_restart_with_a_new_generation(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    second = make_range(0, 4, generation=1, topic_id="B", why="recreated")
    ledger.commit(RANGES, "me", ranges=[second])
    assert ledger.ranges(("t", 0), 1) == [second]
    assert ledger.last(("t", 0)) == second


def test_a_lost_range_counts_as_covered(ledger: Ledger) -> None:
    ledger.commit(
        RANGES, "me", ranges=[make_range(0, 10), make_range(10, 15, rows=0, lost="retention"), make_range(15, 16)]
    )
    assert [loaded.lost for loaded in Ledger.load(ledger.lake).ranges()] == ["", "retention", ""]


def test_the_slower_of_two_commits_is_fenced(ledger: Ledger) -> None:
    other = Ledger.load(ledger.lake)
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    with pytest.raises(EntryTakenError, match="another process is writing this journal"):
        other.commit(RANGES, "other", ranges=[make_range(0, 12)])
    assert Ledger.load(ledger.lake).ranges() == [make_range(0, 10)]
    assert ledger.lake.list_names(DIRECTORY) == [file_name(0)]  # no temporary file is left


def test_every_damaged_byte_of_an_entry_is_detected(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    place = str(ledger.lake)
    good = read_file(place, entry_path(0))
    rng = random.Random(1)
    for _ in range(200):
        at = rng.randrange(len(good))
        bad = bytes([good[at] ^ (1 << rng.randrange(7))])
        changed = good[:at] + bad + good[at + 1 :]
        if _same_json(changed, good):
            continue  # only white space differs
        write_file(place, entry_path(0), changed)
        with pytest.raises(JournalDamagedError, match=file_name(0)):
            Ledger.load(ledger.lake)


def _same_json(left: bytes, right: bytes) -> bool:
    try:
        return bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False


def test_torn_missing_and_swapped_entries_are_detected(ledger: Ledger) -> None:
    for end in (10, 20, 30):
        ledger.commit(RANGES, "me", ranges=[make_range(end - 10, end)])
    place = str(ledger.lake)
    first, kept = (read_file(place, entry_path(n)) for n in (0, 1))
    write_file(place, entry_path(1), kept[: len(kept) // 2])
    with pytest.raises(JournalDamagedError, match="cannot be read"):
        Ledger.load(ledger.lake)
    ledger.lake.delete(entry_path(1))
    with pytest.raises(JournalDamagedError, match=f"{file_name(1)} is missing"):
        Ledger.load(ledger.lake)
    write_file(place, entry_path(1), first)
    with pytest.raises(JournalDamagedError, match="says that it is entry 0"):
        Ledger.load(ledger.lake)
    write_file(place, entry_path(1), kept)
    assert len(Ledger.load(ledger.lake).ranges()) == 3


def test_an_entry_rewritten_with_a_valid_checksum_breaks_the_chain(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    ledger.commit(RANGES, "me", ranges=[make_range(10, 20)])
    forged = Ledger(ledger.lake.child("forged"))
    directory.make_lake(forged.lake)
    forged.commit(RANGES, "me", ranges=[make_range(0, 10, epoch=9, seen=10)])
    write_file(str(ledger.lake), entry_path(0), read_file(str(forged.lake), entry_path(0)))
    with pytest.raises(JournalDamagedError, match="does not follow the entry before it"):
        Ledger.load(ledger.lake)


# --- a lake ----------------------------------------------------------------------------------------------------------

ORPHAN = "topic=t/date=2026-01-01/part-00000-00000000000000000000-00000000000000000010-abc-1-0.parquet"


def test_opening_deletes_orphans_and_nothing_else(place: str) -> None:
    with Lake.open(place, SETTINGS) as first:
        write_file(place, "topic=t/date=2026-01-01/0.parquet", b"abc")
        first.ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    write_file(place, "topic=t/date=2026-01-01/notes.parquet", b"not ours")
    half = ORPHAN.replace("part-", ".part-")
    for path in (ORPHAN, half):
        write_file(place, path, b"half a file")
    with Lake.open(place, SETTINGS) as second:
        assert second.removed_orphans == sorted([ORPHAN, half])
    names = [file.path.rpartition("/")[2] for file in open_store(place).list_files("topic=t")]
    assert names == ["0.parquet", "notes.parquet"]


def test_a_second_archiver_of_a_directory_is_refused_and_the_first_continues(tmp_path: Path) -> None:
    with Lake.open(tmp_path, SETTINGS) as first:
        with pytest.raises(LakeLockedError, match="another archiver is using"):
            Lake.open(tmp_path, SETTINGS)
        first.ledger.commit(RANGES, first.writer, ranges=[make_range(0, 10)])


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on some network file systems."""
    monkeypatch.setattr(LocalStore, "lock", lambda store, owner, name: lambda: None)


@pytest.mark.usefixtures("without_locks")
def test_without_locks_the_new_archivers_entry_fences_the_old_one(place: str) -> None:
    with Lake.open(place, SETTINGS) as first:
        Lake.open(place, SETTINGS).close()
        with pytest.raises(EntryTakenError):  # its files may be deleted: it must never commit them
            first.ledger.commit(RANGES, first.writer, ranges=[make_range(0, 10)])
    assert Ledger.load(place).ranges() == []


@pytest.mark.usefixtures("without_locks")
def test_an_archiver_that_was_fenced_while_it_started_deletes_no_file_of_its_successor(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1. The first one commits its entry and sleeps. 2. The second one takes over and writes a file. 3. The first one
    goes on with the orphans. 4. The second one commits the file."""
    Lake.open(place, SETTINGS).close()
    successors: list[Lake] = []
    commit = Ledger.commit

    def commit_and_sleep(ledger: Ledger, kind: str, archiver: str, **fields: Any) -> Any:
        entry = commit(ledger, kind, archiver, **fields)
        monkeypatch.setattr(Ledger, "commit", commit)
        successors.append(Lake.open(place, SETTINGS))
        write_file(place, ORPHAN, b"abc")
        return entry

    monkeypatch.setattr(Ledger, "commit", commit_and_sleep)
    first = Lake.open(place, SETTINGS)
    assert first.removed_orphans == []
    archived = make_range(0, 10, files=(file(ORPHAN, 10),))
    successors[0].ledger.commit(RANGES, "second", ranges=[archived])
    Lake.open(place, SETTINGS).close()  # finds its file


def test_a_lake_with_a_missing_or_short_file_is_not_opened(place: str) -> None:
    with Lake.open(place, SETTINGS) as first:
        first.ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    with pytest.raises(LakeError, match=r"0.parquet is missing"):
        Lake.open(place, SETTINGS)
    write_file(place, "topic=t/date=2026-01-01/0.parquet", b"ab")
    with pytest.raises(LakeError, match="2 bytes instead of 3"):
        Lake.open(place, SETTINGS)


def test_paths_that_cannot_be_a_lake_are_rejected(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("a file")
    for path in (taken, taken / "below"):
        with pytest.raises(LakeError, match="is a file"):
            Lake.open(path, SETTINGS)
    with pytest.raises(LakeError, match="hdfs://host/lake: a lake is a directory, or s3://bucket/path"):
        Lake.open("hdfs://host/lake", SETTINGS)
    with pytest.raises(LakeError, match="the name of a bucket is missing"):
        Lake.open("s3://", SETTINGS)
    with pytest.raises(LakeError, match="is not a lake"):
        directory.load_ledger(tmp_path)
    assert taken.read_text() == "a file"


def test_the_isolation_level_of_a_lake_cannot_change(place: str) -> None:
    Lake.open(place, SETTINGS).close()
    with pytest.raises(LakeError, match="created with isolation read_committed; it cannot change to read_uncommitted"):
        Lake.open(place, {"isolation": "read_uncommitted"})
