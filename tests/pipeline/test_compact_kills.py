"""Archiver and compaction are killed before every change that they make: readers always see every row once.

From the kill on, nothing of the process reaches the disk or the object store any more. Then the lake is read, before
anything is repaired; an archiver opens it and goes on; and the next compaction completes what is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import obstore
import pyarrow as pa
import pytest

from insync.lake.directory import Lake, load_ledger
from insync.lake.ledger import RANGES, Range
from insync.lake.staging import STAGED, list_data_files, open_file
from insync.lake.writer import RangeWriter
from insync.pipeline.archive.verify import verify_lake
from insync.pipeline.compact import job
from insync.pipeline.compact.job import CompactOptions, CompactSummary
from tests.lake.lake_rows import make_rows

SETTINGS = {"isolation": "read_committed"}
DAY_MS = 86_400_000
SPARK: Any = SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=1))


SHORTENING = pytest.mark.parametrize("options", [{}, {"checkpoint_entries": 1, "history_s": 0.0}])
"""Without and with a checkpoint of the ledger that replaces everything before it."""


class KilledError(BaseException):
    """The process is dead."""


class Storage:
    """Counts changes, and lets none through from the one before which the process is killed."""

    CHANGES = (
        *((os, "link"), (os, "replace"), (Path, "unlink"), (Path, "rename"), (Path, "mkdir"), (pa, "OSFile")),
        *((obstore, "put"), (obstore, "copy"), (obstore, "delete")),
    )

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.changes = 0
        self.kill_before = 1 << 30
        for owner, name in self.CHANGES:
            monkeypatch.setattr(owner, name, self._count(getattr(owner, name)))

    def _count(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **options: Any) -> Any:
            self.changes += 1
            if self.changes >= self.kill_before:
                raise KilledError
            return change(*arguments, **options)

        return counted

    def kill(self, before: int) -> None:
        self.changes, self.kill_before = 0, before

    def restart(self) -> None:
        self.kill_before = 1 << 30


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "run_tasks", lambda spark, tasks, execute: [execute(task) for task in tasks])


def append(lake: Lake, start: int) -> None:
    """Archive a range of ten rows."""
    end = start + 10
    writer = RangeWriter(lake.store, topic="t", partition=0, start=start, end=end, attempt="ab-1", codec="lz4")
    writer.add(make_rows(start, [20_000 * DAY_MS + start + i for i in range(10)]))
    files = tuple(writer.close())
    archived = Range(topic="t", topic_id="A", partition=0, generation=0, start=start, end=end, rows=10, files=files)
    lake.ledger.commit(RANGES, lake.writer, ranges=[archived])


def archive(path: str, starts: range) -> None:
    with Lake.open(path, SETTINGS) as lake:
        for start in starts:
            append(lake, start)


def offsets(path: str) -> list[int]:
    ledger = load_ledger(path)
    tables = [open_file(ledger.lake, name).read(columns=["offset"]) for name in ledger.files()]
    rows: list[int] = pa.concat_tables(tables).column(0).to_pylist()
    return sorted(rows)


def compact(path: str, **changes: Any) -> CompactSummary:
    options = CompactOptions(lake=path, min_ranges=2, target_bytes=20_000)
    return job.run(SPARK, replace(options, **changes))


@SHORTENING
def test_a_compaction_killed_before_any_change_loses_and_doubles_nothing(
    place: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    storage = Storage(monkeypatch)
    kills = 0
    while True:
        path = f"{place}/{kills}"
        archive(path, range(0, 30, 10))
        storage.kill(before=kills + 1)
        try:
            compact(path, **options)
            break
        except KilledError:
            kills += 1
        storage.restart()
        assert offsets(path) == list(range(30))
        archive(path, range(30, 40, 10))
        assert offsets(path) == list(range(40))
        compact(path, **options)
        assert offsets(path) == list(range(40))
        report = verify_lake(path)
        assert (report.problems, report.notes) == ([], [])
        ledger = load_ledger(path)
        assert len(list_data_files(ledger.lake)) == len(ledger.files()) < 4
        assert ledger.lake.list_files(STAGED) == []
    assert kills > 6


def test_an_archiver_killed_before_any_change_loses_and_doubles_nothing(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = Storage(monkeypatch)
    kills = 0
    while True:
        path = f"{place}/{kills}"
        archive(path, range(0, 10, 10))
        storage.kill(before=kills + 1)
        try:
            archive(path, range(10, 40, 10))
            break
        except KilledError:
            kills += 1
        storage.restart()
        committed = offsets(path)
        assert committed in [list(range(end)) for end in (10, 20, 30, 40)]
        archive(path, range(len(committed), 40, 10))
        assert offsets(path) == list(range(40))
        report = verify_lake(path)
        assert (report.problems, report.notes) == ([], [])
    assert kills > 6


@SHORTENING
def test_an_archiver_goes_on_while_a_compaction_runs(
    place: str, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    """It commits between the merge of files and the commit that replaces them."""
    with Lake.open(place, SETTINGS) as lake:
        for start in range(0, 50, 10):
            append(lake, start)

        def run_tasks(spark: Any, tasks: list[Any], execute: Callable[[Any], Any]) -> list[Any]:
            append(lake, 50)
            return [execute(task) for task in tasks]

        monkeypatch.setattr(job, "run_tasks", run_tasks)
        summary = compact(place, **options)
        append(lake, 60)
    assert (summary.merged_files, summary.new_files, len(summary.deleted)) == (5, 1, 5)
    assert summary.removed_entries == (9 if options else 0)
    assert offsets(place) == list(range(70))
    assert verify_lake(place).problems == []


def test_expired_rows_are_removed_and_their_offsets_stay_covered(place: str) -> None:
    archive(place, range(0, 60, 10))
    size = sum(archived.bytes for archived in load_ledger(place).ranges()[3:])
    summary = compact(place, keep_bytes=size)
    assert [(expired.start, expired.end) for expired in summary.expired] == [(0, 30)]
    assert offsets(place) == list(range(30, 60))
    report = verify_lake(place)
    assert report.problems == []
    assert report.notes == [f"t-0: offsets 0 to 29 were removed from the lake: the topic had more than {size} bytes"]
    archive(place, range(60, 70, 10))
    assert load_ledger(place).ranges()[0].expired
    assert compact(place, keep_s=3600.0).expired[0].end == 70
    assert load_ledger(place).files() == {}
