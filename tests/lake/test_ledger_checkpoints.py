"""Checkpoints of the ledger: readers start there, older entries can go, and no commit is lost or counted twice."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.lake import directory, journal, staging
from insync.lake.journal import EntryRemovedError, EntryTakenError, JournalDamagedError, file_name
from insync.lake.ledger import CHECKPOINT, COMPACT, DIRECTORY, OPEN, RANGES, REPLACE, Ledger
from tests.lake.lake_stores import write_file
from tests.lake.test_ledger_compaction import KEY, SETTINGS, make_range

LATER_S = 1e12
"""A time at which everything is old."""


def list_ranges(ledger: Ledger) -> list[tuple[int, int]]:
    return [(archived.start, archived.end) for archived in ledger.ranges()]


def describe(ledger: Ledger) -> Any:
    return ledger.ranges(), ledger.settings, ledger.entries, ledger.last_seen(KEY), ledger.committed_at_s(KEY)


def archive(ledger: Ledger, rows: int = 10) -> None:
    last = ledger.last(KEY)
    start = 0 if last is None else last.end
    ledger.commit(RANGES, "archiver", ranges=[make_range(start, start + rows, epoch=1, seen=start + rows)])


def merge(ledger: Ledger, name: str = "compact") -> None:
    """The first ranges become one."""
    ranges = ledger.ranges(KEY)[:3]
    merged = make_range(ranges[0].start, ranges[-1].end, name, epoch=1, seen=ranges[-1].end)
    ledger.commit(REPLACE, "compactor", ranges=[merged])


def remove(ledger: Ledger) -> int:
    return ledger.remove_entries(0, now_s=LATER_S)


def directory_of(ledger: Ledger) -> Path:
    return Path(str(ledger.lake)) / DIRECTORY


def read_entry(path: Path) -> dict[str, Any]:
    return journal._parse(str(path), path.read_bytes())


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """An archiver's, with five ranges."""
    return make_ledger(tmp_path)


def make_ledger(lake: Path) -> Ledger:
    directory.make_lake(lake)
    ledger = Ledger.load(lake)
    ledger.commit(OPEN, "archiver", settings=SETTINGS)
    for _ in range(5):
        archive(ledger)
    return ledger


def test_a_reader_starts_at_the_newest_checkpoint(ledger: Ledger) -> None:
    compactor = Ledger.load(ledger.lake)
    compactor.commit(COMPACT, "compactor")
    merge(compactor)
    expected = describe(compactor)
    compactor.commit_checkpoint("compactor")
    archive(compactor)
    assert remove(compactor) == 8
    with mock.patch.object(journal, "_parse", wraps=journal._parse) as parse:
        fresh = Ledger.load(ledger.lake)
    assert [Path(call.args[0]).name for call in parse.call_args_list] == [file_name(9), file_name(8)]
    assert describe(fresh) == describe(compactor)
    assert describe(Ledger.load(ledger.lake, 9))[0] == expected[0]
    assert (fresh.replaced, fresh.compacted, fresh.checkpoints) == (
        compactor.replaced,
        compactor.compacted,
        compactor.checkpoints,
    )


def test_names_of_removed_entries_stay_and_share_one_small_file(ledger: Ledger) -> None:
    """A free name could be taken by a writer that was suspended since."""
    ledger.commit_checkpoint("compactor")
    assert remove(ledger) == 6
    assert remove(ledger) == 0
    files = sorted(directory_of(ledger).iterdir())
    assert [path.name for path in files] == [file_name(number) for number in range(7)]
    assert len({path.stat().st_ino for path in files[:6]}) == 1
    assert files[0].stat().st_size < 200


def test_a_suspended_archiver_goes_on_after_its_place_was_removed(ledger: Ledger) -> None:
    compactor = Ledger.load(ledger.lake)
    compactor.commit(COMPACT, "compactor")
    merge(compactor)
    compactor.commit_checkpoint("compactor")
    remove(compactor)
    archive(ledger)
    assert list_ranges(ledger) == [(0, 30), (30, 40), (40, 50), (50, 60)]
    assert describe(ledger) == describe(Ledger.load(ledger.lake))


def test_a_suspended_archiver_is_fenced_by_an_entry_that_was_removed(ledger: Ledger) -> None:
    """Of its successor it knows only by the checkpoint."""
    successor = Ledger.load(ledger.lake)
    successor.commit(OPEN, "successor")
    archive(successor)
    compactor = Ledger.load(ledger.lake)
    compactor.commit_checkpoint("compactor")
    remove(compactor)
    with pytest.raises(EntryTakenError):
        archive(ledger)
    assert Ledger.load(ledger.lake).last(KEY) == successor.last(KEY)
    archive(successor)


def test_a_suspended_compactor_is_fenced_too(ledger: Ledger) -> None:
    first = Ledger.load(ledger.lake)
    first.commit(COMPACT, "first")
    other = Ledger.load(ledger.lake)
    second = Ledger.load(ledger.lake)
    second.commit(COMPACT, "second")
    second.commit_checkpoint("second")
    remove(second)
    archive(ledger)
    with pytest.raises(EntryTakenError):
        merge(first)
    with pytest.raises(EntryTakenError):
        other.commit_checkpoint("first")


def test_a_checkpoint_includes_what_an_archiver_commits_just_before(ledger: Ledger) -> None:
    compactor = Ledger.load(ledger.lake)
    archive(ledger)
    compactor.commit_checkpoint("compactor")
    remove(compactor)
    assert Ledger.load(ledger.lake).last(KEY) == ledger.last(KEY)


def test_a_reader_that_has_begun_takes_the_checkpoint_for_what_it_missed(ledger: Ledger) -> None:
    reader = Ledger.load(ledger.lake, 3)
    ledger.commit_checkpoint("compactor")
    remove(ledger)
    archive(ledger)
    assert [entry.kind for entry in reader.refresh()] == [CHECKPOINT, RANGES]
    assert describe(reader) == describe(ledger)


def test_states_before_the_oldest_checkpoint_are_gone_and_later_ones_are_not(ledger: Ledger) -> None:
    """A replay continues with the state that it began with."""
    ledger.commit_checkpoint("compactor")
    archive(ledger)
    ledger.commit_checkpoint("compactor")
    first, second = sorted(ledger.checkpoints)
    assert ledger.remove_entries(3_600) == 0
    states = {entries: list_ranges(Ledger.load(ledger.lake, entries)) for entries in range(first, ledger.entries + 1)}
    ledger.checkpoints[second] = "2999-01-01T00:00:00+00:00"
    assert ledger.remove_entries(0) == first
    for entries in range(first + 1, ledger.entries + 1):
        assert list_ranges(Ledger.load(ledger.lake, entries)) == states[entries]
    with pytest.raises(EntryRemovedError, match=r"removed after a checkpoint.*must start again"):
        Ledger.load(ledger.lake, first)


def test_versions_that_do_not_know_checkpoints_say_so(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.commit_checkpoint("compactor")
    monkeypatch.setattr(journal, "NEWEST_FORMAT", 2)
    message = "has format 3; this version reads formats 1 to 2"
    with pytest.raises(JournalDamagedError, match=f"{file_name(6)} {message}"):
        Ledger.load(ledger.lake)
    monkeypatch.undo()
    remove(ledger)
    monkeypatch.setattr(journal, "NEWEST_FORMAT", 2)
    for path in (directory_of(ledger) / file_name(0), directory_of(ledger) / file_name(6)):
        with pytest.raises(JournalDamagedError, match=message):
            read_entry(path)


def test_a_checkpoint_that_contradicts_the_entries_is_damage(ledger: Ledger) -> None:
    reader = Ledger.load(ledger.lake)
    wrong = Ledger.load(ledger.lake)
    wrong._partitions[KEY][-1] = replace(wrong._partitions[KEY][-1], epoch=7)
    wrong.commit_checkpoint("compactor")
    with pytest.raises(JournalDamagedError, match="does not agree with the entries before it"):
        reader.refresh()


@pytest.mark.parametrize("field", ["committed_at", "replaced", "last_entries"])
def test_a_checkpoint_without_its_state_is_damage(ledger: Ledger, field: str) -> None:
    ledger.commit_checkpoint("compactor")
    path = directory_of(ledger) / file_name(6)
    document = json.loads(path.read_text())
    del document["entry"]["state"][field]
    document["crc"] = journal._crc({name: value for name, value in document.items() if name != "crc"})
    path.write_text(json.dumps(document))
    with pytest.raises(JournalDamagedError, match=f"{file_name(6)} cannot be read: KeyError"):
        Ledger.load(ledger.lake)


def test_only_entries_before_a_checkpoint_can_be_removed(ledger: Ledger) -> None:
    with pytest.raises(JournalDamagedError, match="is not a checkpoint"):
        ledger._journal.remove_before(3)
    (directory_of(ledger) / file_name(4)).unlink()
    with pytest.raises(JournalDamagedError, match=f"{file_name(4)} is missing"):
        Ledger.load(ledger.lake)


def test_a_file_with_too_many_names_is_followed_by_another(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ext4 allows 65,000 names."""
    ledger.commit_checkpoint("compactor")
    link, names = os.link, 0

    def limited(source: Path, target: Path) -> None:
        nonlocal names
        names = names + 1 if os.stat(source).st_nlink > 1 else 1
        if names > 2:
            raise OSError(errno.EMLINK, "too many links")
        link(source, target)

    monkeypatch.setattr(os, "link", limited)
    assert remove(ledger) == 6
    assert len({(directory_of(ledger) / file_name(number)).stat().st_ino for number in range(6)}) == 3
    assert describe(Ledger.load(ledger.lake)) == describe(ledger)


def test_finished_files_are_forgotten_by_a_checkpoint(ledger: Ledger) -> None:
    merge(ledger)
    [merged], replaced = ledger.compacted, list(ledger.replaced)
    for path in (*replaced[1:], f"{staging.STAGED}/{merged}"):
        write_file(str(ledger.lake), path, b"abc")
    assert staging.list_finished(ledger) == {replaced[0]}
    ledger.lake.delete(f"{staging.STAGED}/{merged}")
    ledger.commit_checkpoint("compactor", staging.list_finished(ledger))
    for state in (ledger, Ledger.load(ledger.lake)):
        assert (list(state.replaced), list(state.compacted)) == (replaced[1:], [])
        assert not directory.list_orphans(state)


# --- kills and processes that run at the same time -------------------------------------------------------------------


class KilledError(BaseException):
    pass


@contextmanager
def killed_at(step: int) -> Iterator[None]:
    """Kill at the step with this number: before an even one's effect, after an odd one's. Nothing is synced: the kill
    is that of a process."""
    count = 0

    def wrap(call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count > step // 2:
                if count == step // 2 + 1 and step % 2:
                    call(*arguments, **options)
                raise KilledError
            return call(*arguments, **options)

        return run

    with (
        mock.patch.object(os, "link", wrap(os.link)),
        mock.patch.object(os, "replace", wrap(os.replace)),
        mock.patch.object(os, "fsync", wrap(lambda _: None)),
        mock.patch.object(Path, "unlink", wrap(Path.unlink)),
    ):
        yield


def reopen(lake: Path, kind: str, writer: str) -> Ledger:
    ledger = Ledger.load(lake)
    ledger.lake.remove_temporary_files(DIRECTORY)
    ledger.commit(kind, writer)
    return ledger


ACTIONS = ("archive", "merge", "checkpoint", "remove", "read", "restart archiver", "restart compactor")


@given(st.lists(st.tuples(st.sampled_from(ACTIONS), st.none() | st.integers(0, 24)), max_size=25))
@settings(max_examples=40, deadline=None)
def test_no_kill_loses_or_repeats_a_commit(actions: list[tuple[str, int | None]]) -> None:
    """Archiver, compactor and a reader keep their states; none of them refreshes before it acts."""
    with TemporaryDirectory() as path, mock.patch.object(os, "fsync"):
        lake = Path(path)
        archiver = make_ledger(lake)
        compactor = reopen(lake, COMPACT, "compactor")
        reader = Ledger.load(lake, 2)
        ends = {50}
        for number, (action, kill) in enumerate(actions):
            before = Ledger.load(lake)
            try:
                with killed_at(10_000 if kill is None else kill):
                    if action == "archive":
                        archive(archiver)
                    elif action == "merge":
                        merge(compactor, f"merge-{number}")
                    elif action == "checkpoint":
                        compactor.commit_checkpoint("compactor")
                    elif action == "remove":
                        remove(compactor)
                    elif action == "read":
                        reader.refresh()
                    elif action == "restart archiver":
                        archiver = reopen(lake, OPEN, "archiver")
                    else:
                        compactor = reopen(lake, COMPACT, "compactor")
            except KilledError:
                if action in ("archive", "restart archiver"):
                    archiver = reopen(lake, OPEN, "archiver")
                elif action == "read":
                    reader = Ledger.load(lake)
                else:
                    compactor = reopen(lake, COMPACT, "compactor")
            after = Ledger.load(lake)
            end = max(ends) + 10 if action == "archive" else max(ends)
            assert after.last(KEY) is not None
            assert after.ranges()[-1].end in ({end} if kill is None else {max(ends), end})
            ends = {after.ranges()[-1].end}
            assert sum(archived.rows for archived in after.ranges()) == max(ends)
            assert [start for start, _ in list_ranges(after)][1:] == [end for _, end in list_ranges(after)][:-1]
            if action in ("checkpoint", "remove", "read"):
                assert after.ranges() == before.ranges()
            assert after.settings == SETTINGS
        reader.refresh()
        assert describe(reader) == describe(Ledger.load(lake))
        archive(archiver)
        merge(compactor, "last")
        compactor.commit_checkpoint("compactor")
        remove(compactor)
        assert list_ranges(Ledger.load(lake))[-1][1] == max(ends) + 10
        entries = [read_entry(directory_of(compactor) / file_name(number)) for number in range(compactor.entries)]
        assert [journal._is_removed(entry) for entry in entries] == [True] * (compactor.entries - 1) + [False]


def test_readers_see_every_commit_while_entries_are_removed(ledger: Ledger) -> None:
    """An archiver, a compactor and readers at the same time."""
    commits, errors = 60, []
    done = threading.Event()

    def run(work: Callable[[], None]) -> threading.Thread:
        def report() -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=report)
        thread.start()
        return thread

    def archive_all() -> None:
        for _ in range(commits):
            archive(ledger)

    def compact_all() -> None:
        compactor = Ledger.load(ledger.lake)
        compactor.commit(COMPACT, "compactor")
        number = 0
        while not done.is_set():
            number += 1
            merge(compactor, f"merge-{number}")
            compactor.commit_checkpoint("compactor")
            remove(compactor)

    def read_all() -> None:
        reader, end = Ledger.load(ledger.lake), 0
        while not done.is_set():
            reader.refresh()
            for state in (reader, Ledger.load(ledger.lake)):
                assert state.ranges()[-1].end >= end
                end = state.ranges()[-1].end

    archiver = run(archive_all)
    others = [run(compact_all), run(read_all), run(read_all)]
    archiver.join()
    done.set()
    for thread in others:
        thread.join()
    assert not errors
    final = Ledger.load(ledger.lake)
    assert final.ranges()[-1].end == 50 + 10 * commits
    assert sum(archived.rows for archived in final.ranges()) == 50 + 10 * commits
