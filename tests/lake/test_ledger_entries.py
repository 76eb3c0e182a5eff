"""The ledger of a lake: entries without gaps or overlaps, written whole or not at all, by one writer."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from insync.lake import directory
from insync.lake.directory import Lake, LakeError, LakeLockedError
from insync.lake.journal import EntryTakenError, JournalDamagedError, file_name
from insync.lake.ledger import OPEN, RANGES, File, Ledger, Range

SETTINGS = {"isolation": "read_committed"}


def file(path: str, rows: int, first: int = 0) -> File:
    return File(path=path, rows=rows, bytes=3, crc=7, first=first, last=first + rows - 1, oldest=0, newest=9)


def make_range(start: int, end: int, **fields: Any) -> Range:
    rows = fields.pop("rows", end - start)
    files = (file(f"topic=t/date=2026-01-01/{start}.parquet", rows, start),) if rows else ()
    defaults = {"topic": "t", "topic_id": "A", "partition": 0, "generation": 0, "rows": rows, "files": files} | fields
    return Range(start=start, end=end, **defaults)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    directory.make_lake(tmp_path)
    return Ledger.load(tmp_path)


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
    assert [path.name for path in ledger.directory.iterdir()] == [file_name(0)]  # no temporary file is left


def test_every_damaged_byte_of_an_entry_is_detected(ledger: Ledger) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    path = ledger.directory / file_name(0)
    good = path.read_bytes()
    rng = random.Random(1)
    for _ in range(200):
        at = rng.randrange(len(good))
        bad = bytes([good[at] ^ (1 << rng.randrange(7))])
        changed = good[:at] + bad + good[at + 1 :]
        if _same_json(changed, good):
            continue  # only white space differs
        path.write_bytes(changed)
        with pytest.raises(JournalDamagedError, match=path.name):
            Ledger.load(ledger.lake)


def _same_json(left: bytes, right: bytes) -> bool:
    try:
        return bool(json.loads(left) == json.loads(right))
    except ValueError:
        return False


def test_torn_missing_and_swapped_entries_are_detected(ledger: Ledger) -> None:
    for end in (10, 20, 30):
        ledger.commit(RANGES, "me", ranges=[make_range(end - 10, end)])
    first, second = (ledger.directory / file_name(n) for n in (0, 1))
    kept = second.read_bytes()
    second.write_bytes(kept[: len(kept) // 2])
    with pytest.raises(JournalDamagedError, match="cannot be read"):
        Ledger.load(ledger.lake)
    second.unlink()
    with pytest.raises(JournalDamagedError, match=f"{second.name} is missing"):
        Ledger.load(ledger.lake)
    second.write_bytes(first.read_bytes())
    with pytest.raises(JournalDamagedError, match="says that it is entry 0"):
        Ledger.load(ledger.lake)
    second.write_bytes(kept)
    assert len(Ledger.load(ledger.lake).ranges()) == 3


def test_an_entry_rewritten_with_a_valid_checksum_breaks_the_chain(ledger: Ledger, tmp_path: Path) -> None:
    ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    ledger.commit(RANGES, "me", ranges=[make_range(10, 20)])
    forged = Ledger(tmp_path / "forged")
    directory.make_lake(forged.lake)
    forged.commit(RANGES, "me", ranges=[make_range(0, 10, epoch=9, seen=10)])
    (ledger.directory / file_name(0)).write_bytes((forged.directory / file_name(0)).read_bytes())
    with pytest.raises(JournalDamagedError, match="does not follow the entry before it"):
        Ledger.load(ledger.lake)


# --- a lake ----------------------------------------------------------------------------------------------------------

ORPHAN = "topic=t/date=2026-01-01/part-00000-00000000000000000000-00000000000000000010-abc-1-0.parquet"


def test_opening_deletes_orphans_and_nothing_else(tmp_path: Path) -> None:
    with Lake.open(tmp_path, SETTINGS) as first:
        kept = tmp_path / "topic=t/date=2026-01-01/0.parquet"
        kept.parent.mkdir(parents=True)
        kept.write_bytes(b"abc")
        first.ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    stranger = tmp_path / "topic=t/date=2026-01-01/notes.parquet"
    stranger.write_bytes(b"not ours")
    half = (tmp_path / ORPHAN).with_name("." + Path(ORPHAN).name)
    for path in (tmp_path / ORPHAN, half):
        path.write_bytes(b"half a file")
    with Lake.open(tmp_path, SETTINGS) as second:
        assert second.removed_orphans == sorted([ORPHAN, str(half.relative_to(tmp_path))])
    assert sorted(path.name for path in kept.parent.iterdir()) == ["0.parquet", "notes.parquet"]


def test_a_second_archiver_is_refused_and_the_first_continues(tmp_path: Path) -> None:
    with Lake.open(tmp_path, SETTINGS) as first:
        with pytest.raises(LakeLockedError, match="another archiver is using"):
            Lake.open(tmp_path, SETTINGS)
        first.ledger.commit(RANGES, first.writer, ranges=[make_range(0, 10)])


def test_without_locks_the_new_archivers_entry_fences_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(directory, "lock_directory", lambda root, owner, name: os.open(root, os.O_RDONLY))
    with Lake.open(tmp_path, SETTINGS) as first:
        Lake.open(tmp_path, SETTINGS).close()
        with pytest.raises(EntryTakenError):  # its files may be deleted: it must never commit them
            first.ledger.commit(RANGES, first.writer, ranges=[make_range(0, 10)])
    assert Ledger.load(tmp_path).ranges() == []


def test_a_lake_with_a_missing_or_short_file_is_not_opened(tmp_path: Path) -> None:
    path = tmp_path / "topic=t/date=2026-01-01/0.parquet"
    with Lake.open(tmp_path, SETTINGS) as first:
        first.ledger.commit(RANGES, "me", ranges=[make_range(0, 10)])
    with pytest.raises(LakeError, match=r"0.parquet is missing"):
        Lake.open(tmp_path, SETTINGS)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"ab")
    with pytest.raises(LakeError, match="2 bytes instead of 3"):
        Lake.open(tmp_path, SETTINGS)


def test_paths_that_cannot_be_a_lake_are_rejected(tmp_path: Path) -> None:
    taken = tmp_path / "file"
    taken.write_text("a file")
    for path in (taken, taken / "below"):
        with pytest.raises(LakeError, match="is a file"):
            Lake.open(path, SETTINGS)
    with pytest.raises(LakeError, match="URLs are not supported"):
        Lake.open("s3://bucket/lake", SETTINGS)
    with pytest.raises(LakeError, match="is not a lake"):
        directory.load_ledger(tmp_path)
    assert taken.read_text() == "a file"


def test_the_isolation_level_of_a_lake_cannot_change(tmp_path: Path) -> None:
    Lake.open(tmp_path, SETTINGS).close()
    with pytest.raises(LakeError, match="created with isolation read_committed; it cannot change to read_uncommitted"):
        Lake.open(tmp_path, {"isolation": "read_uncommitted"})
