"""What a power cut leaves of a node's files, according to the journal of its disk."""

from __future__ import annotations

import errno
import random
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.cluster import power_loss
from insync.cluster.disk import JOURNAL, FaultyDisk, FaultyFile
from insync.sim.engine.disk import SimDisk
from insync.storage import disk as disks
from insync.storage import posix
from insync.storage.disk import Disk


@pytest.fixture
def disk(tmp_path: Path) -> FaultyDisk:
    return _open_disk(tmp_path)


def _open_disk(tmp_path: Path) -> FaultyDisk:
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


def test_a_file_that_was_never_made_durable_is_gone(disk: FaultyDisk, tmp_path: Path) -> None:
    disk.open("first").append(b"lost")
    disk.mkdir("a/b")
    disk.open("a/b/second").append(b"")
    assert _power_cut(tmp_path) == {"first": 4, "a/b/second": 0}
    assert disk.listdir("") == []


def test_syncing_a_file_makes_its_directories_durable(disk: FaultyDisk, tmp_path: Path) -> None:
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


def test_a_file_replaced_atomically_is_complete(disk: FaultyDisk, tmp_path: Path) -> None:
    disks.write_atomically(disk, "state", b"one")
    disks.write_atomically(disk, "state", b"two, longer")
    assert _power_cut(tmp_path) == {}
    assert _content(disk, "state") == b"two, longer"


def test_bytes_synced_through_a_handle_count_under_a_later_name(disk: FaultyDisk, tmp_path: Path) -> None:
    file = disk.open("log.swap")
    disk.rename("log.swap", "log")
    file.append(b"kept")
    file.sync_later()()
    file.append(b"lost")
    assert _power_cut(tmp_path) == {"log": 4}
    assert _content(disk, "log") == b"kept"


def _begin_sync(disk: FaultyDisk) -> FaultyFile:
    """A file of ten bytes, for which sync 7 has not returned."""
    file = disk.open("log")
    file.append(b"0123456789")
    disk.note("syncing", 7, file.inode, file.size)
    return file


def test_a_truncation_during_a_sync_is_not_undone_by_its_end(disk: FaultyDisk, tmp_path: Path) -> None:
    """Bytes written after the truncation are not covered, though the file is as long as before."""
    file = _begin_sync(disk)
    file.truncate(4)
    file.append(b"abcdef")
    disk.note("synced", 7)
    assert _power_cut(tmp_path) == {"log": 6}
    assert _content(disk, "log") == b"0123"


def test_an_unfinished_sync_makes_nothing_durable(disk: FaultyDisk, tmp_path: Path) -> None:
    _begin_sync(disk)
    assert _power_cut(tmp_path) == {"log": 10}
    assert not disk.exists("log")


def test_the_next_process_continues_the_journal(disk: FaultyDisk, tmp_path: Path) -> None:
    """kill -9 keeps the page cache: what the first process did not sync is at risk until another sync."""
    file = disk.open("log")
    file.append(b"synced")
    file.sync()
    file.append(b" by nobody")
    again = _open_disk(tmp_path)
    again.open("log").append(b" either")
    assert _power_cut(tmp_path) == {"log": 17}
    assert _content(again, "log") == b"synced"


def test_what_survived_one_power_cut_survives_the_next(disk: FaultyDisk, tmp_path: Path) -> None:
    file = disk.open("log")
    file.append(b"old")
    file.sync()
    _power_cut(tmp_path)
    again = _open_disk(tmp_path)
    again.open("log").append(b" and new")
    assert _power_cut(tmp_path) == {"log": 8}
    assert _content(again, "log") == b"old"


def test_a_reused_inode_number_starts_without_durable_bytes() -> None:
    journal = ["created 1 5", "syncing 7 5 100", "synced 7", "renamed 1", "created 1 5"]
    assert power_loss.replay_journal(journal).sizes[5] == 0


def test_creations_before_a_durable_rename_survive(disk: FaultyDisk, tmp_path: Path) -> None:
    """Changes of a directory become durable in order: a later one implies all earlier ones."""
    disk.open("first")
    disk.open("second")
    disk.rename("second", "third")
    disk.open("fourth")
    assert _power_cut(tmp_path) == {"fourth": 0}
    assert disk.listdir("") == ["first", "third"]


def test_on_a_full_disk_only_writes_fail(disk: FaultyDisk) -> None:
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
    """Nothing that was not synced survives."""

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
def test_the_simulated_disk_loses_the_same_in_the_worst_case(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]
) -> None:
    directory = tmp_path_factory.mktemp("disk")
    simulated, real = SimDisk(), _open_disk(directory)
    with mock.patch("os.fsync"), mock.patch.object(posix, "_sync_file_system"):  # no power cut here
        for disk in (simulated, real):
            _play(disk, steps)
    simulated.lossy_crash(_WorstLuck())
    _power_cut(directory)
    assert _tree(real) == _tree(simulated)


def _play(disk: Disk, steps: list[tuple[str, str]]) -> None:
    for action, path in steps:
        if action == "sync_all":
            disk.sync_all()
            continue
        if action == "sync_dir":
            disk.mkdir(path)
            disk.sync_dir(path)
            continue
        if "/" in path:
            disk.mkdir(disks.parent(path))
        file = disk.open(path)
        if action == "append":
            file.append(b"record")
        else:
            file.sync()
        file.close()


def _tree(disk: Disk, path: str = "") -> dict[str, bytes]:
    tree: dict[str, bytes] = {}
    for name in disk.listdir(path):
        child = disks.join(path, name)
        try:
            tree |= {f"{child}/": b"", **_tree(disk, child)}
        except OSError:
            tree[child] = disks.read_all(disk, child)
    return tree
