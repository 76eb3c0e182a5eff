"""What a power cut leaves of a node's files, told from the notes that its disk took."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.cluster import power_loss
from insync.cluster.disk import JOURNAL, FaultyDisk
from insync.sim.engine.disk import SimDisk
from insync.storage import disk as disks
from insync.storage import posix
from insync.storage.disk import Disk


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    return _opened(tmp_path)


def _opened(tmp_path: Path) -> FaultyDisk:
    return FaultyDisk(str(tmp_path / "data"), str(tmp_path / JOURNAL))


def _power_cut(tmp_path: Path) -> dict[str, int]:
    return power_loss.lose_unflushed(tmp_path / "data", tmp_path / JOURNAL)


def _content(disk: Disk, path: str) -> bytes | None:
    return disks.read_if_exists(disk, path)


def test_bytes_that_were_not_synced_are_gone(disk: FaultyDisk, tmp_path: Path) -> None:
    file = disk.open("log")
    file.append(b"synced")
    file.sync()
    file.append(b" and not")
    assert _power_cut(tmp_path) == {"log": 8}
    assert _content(disk, "log") == b"synced"


def test_a_file_that_nothing_settled_is_gone(disk: FaultyDisk, tmp_path: Path) -> None:
    disk.open("first").append(b"lost")
    disk.mkdir("a/b")
    disk.open("a/b/second").append(b"")
    assert _power_cut(tmp_path) == {"first": 4, "a/b/second": 0}
    assert disk.listdir("") == []


def test_syncing_a_file_settles_its_directories_too(disk: FaultyDisk, tmp_path: Path) -> None:
    disk.mkdir("a/b")
    file = disk.open("a/b/log")
    file.append(b"x")
    file.sync()
    disk.open("a/b/later")
    assert _power_cut(tmp_path) == {"a/b/later": 0}
    assert _content(disk, "a/b/log") == b"x"


def test_a_synced_directory_keeps_its_names_but_not_their_bytes(disk: FaultyDisk, tmp_path: Path) -> None:
    disk.mkdir("a")
    disk.open("a/index").append(b"lost")
    disk.sync_dir("a")
    assert _power_cut(tmp_path) == {"a/index": 4}
    assert _content(disk, "a/index") == b""


def test_a_file_replaced_atomically_is_there_whole(disk: FaultyDisk, tmp_path: Path) -> None:
    disks.write_atomically(disk, "state", b"one")
    disks.write_atomically(disk, "state", b"two, longer")
    assert _power_cut(tmp_path) == {}
    assert _content(disk, "state") == b"two, longer"


def test_what_is_synced_through_a_handle_counts_under_the_later_name(disk: FaultyDisk, tmp_path: Path) -> None:
    file = disk.open("log.swap")
    disk.rename("log.swap", "log")
    file.append(b"kept")
    file.sync_later()()
    file.append(b"lost")
    assert _power_cut(tmp_path) == {"log": 4}
    assert _content(disk, "log") == b"kept"


def test_a_cut_during_a_sync_is_not_undone_by_its_end(disk: FaultyDisk, tmp_path: Path) -> None:
    """Bytes written after the cut are new ones, though the file is as long as before."""
    file = disk.open("log")
    file.append(b"0123456789")
    disk.note("syncing", 7, file.inode, file.size)
    file.truncate(4)
    file.append(b"abcdef")
    disk.note("synced", 7)
    assert _power_cut(tmp_path) == {"log": 6}
    assert _content(disk, "log") == b"0123"


def test_a_sync_that_had_not_ended_settles_nothing(disk: FaultyDisk, tmp_path: Path) -> None:
    file = disk.open("log")
    file.append(b"0123456789")
    disk.note("syncing", 7, file.inode, file.size)
    assert _power_cut(tmp_path) == {"log": 10}
    assert not disk.exists("log")


def test_the_next_process_goes_on_with_the_notes_of_the_last(disk: FaultyDisk, tmp_path: Path) -> None:
    """kill -9 leaves the page cache alone: what the first process did not sync is at risk until somebody does."""
    file = disk.open("log")
    file.append(b"synced")
    file.sync()
    file.append(b" by nobody")
    again = _opened(tmp_path)
    again.open("log").append(b" either")
    assert _power_cut(tmp_path) == {"log": 17}
    assert _content(again, "log") == b"synced"


def test_what_outlived_one_power_cut_is_safe_in_the_next(disk: FaultyDisk, tmp_path: Path) -> None:
    file = disk.open("log")
    file.append(b"old")
    file.sync()
    _power_cut(tmp_path)
    again = _opened(tmp_path)
    again.open("log").append(b" and new")
    assert _power_cut(tmp_path) == {"log": 8}
    assert _content(again, "log") == b"old"


def test_a_number_of_a_removed_file_tells_nothing_about_the_next_file_that_has_it() -> None:
    notes = ["created 1 5", "syncing 7 5 100", "synced 7", "renamed 1", "created 1 5"]
    assert power_loss.read(notes).safe[5] == 0


def test_creations_before_a_rename_stay_because_the_rename_does(disk: FaultyDisk, tmp_path: Path) -> None:
    """Changes of one directory happen in order: a later one that happened means that earlier ones did."""
    disk.open("first")
    disk.open("second")
    disk.rename("second", "third")
    disk.open("fourth")
    assert _power_cut(tmp_path) == {"fourth": 0}
    assert disk.listdir("") == ["first", "third"]


def test_on_a_full_disk_only_writing_fails(disk: FaultyDisk) -> None:
    file = disk.open("log")
    file.append(b"before")
    disk.full = True
    with pytest.raises(OSError, match="No space left") as failure:
        file.append(b"more")
    assert failure.value.errno == errno.ENOSPC
    file.sync()
    assert file.read(0, 100) == b"before"
    disk.full = False
    file.append(b" and after")
    assert file.read(0, 100) == b"before and after"


class _WorstLuck(random.Random):
    """Nothing that was not synced reaches the platter."""

    def random(self) -> float:
        return 0.0


_PATHS = ("a", "b", "d/a", "d/e/a", "d/e/b")
_steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(_PATHS)),
        st.tuples(st.just("sync"), st.sampled_from(_PATHS)),
        st.tuples(st.just("sync_dir"), st.sampled_from(("", "d", "d/e"))),
        st.just(("sync_all", "")),
    ),
    max_size=20,
)


@given(_steps)
@settings(max_examples=60, deadline=None)
def test_the_simulated_disk_loses_the_same_when_it_has_no_luck(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    place = tmp_path_factory.mktemp("disk")
    simulated, real = SimDisk(), _opened(place)
    with mock.patch("os.fsync"), mock.patch.object(posix, "_sync_file_system"):  # nobody cuts this machine's power
        for disk in (simulated, real):
            _play(disk, steps)
    simulated.lossy_crash(_WorstLuck())
    _power_cut(place)
    assert _tree(real) == _tree(simulated)


def _play(disk: Disk, steps: list[tuple[str, str]]) -> None:
    for what, path in steps:
        if what == "sync_all":
            disk.sync_all()
            continue
        if what == "sync_dir":
            disk.mkdir(path)
            disk.sync_dir(path)
            continue
        if "/" in path:
            disk.mkdir(disks.parent(path))
        file = disk.open(path)
        if what == "append":
            file.append(b"record")
        else:
            file.sync()
        file.close()


def _tree(disk: Disk, path: str = "") -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for name in disk.listdir(path):
        child = disks.join(path, name)
        try:
            found |= {f"{child}/": b"", **_tree(disk, child)}
        except OSError:
            found[child] = disks.read_all(disk, child)
    return found
