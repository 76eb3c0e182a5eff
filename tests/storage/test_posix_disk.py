"""The production disk keeps the contract of `storage.disk`, as the simulated one does."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from insync.storage import disk as disks
from insync.storage.posix import PosixDisk
from tests.storage.storage_harness import LogHarness, content, shape


@pytest.fixture
def disk(tmp_path: Path) -> PosixDisk:
    return PosixDisk(str(tmp_path / "root"))


def test_files_are_appended_to_read_and_truncated(disk: PosixDisk) -> None:
    disk.mkdir("a/b")
    file = disk.open("a/b/f")
    file.append(b"hello")
    file.append(memoryview(b" world"))
    assert (file.size, file.read(6, 99), file.read(0, 5)) == (11, b"world", b"hello")
    file.truncate(5)
    file.append(bytearray(b"!"))
    file.sync()
    file.close()
    assert disks.read_all(disk, "a/b/f") == b"hello!"
    assert disk.size("a/b/f") == 6


def test_names_are_listed_renamed_and_removed(disk: PosixDisk) -> None:
    disk.mkdir("d")
    disks.write_atomically(disk, "d/z", b"1")
    disks.write_atomically(disk, "d/y", b"2")
    disk.rename("d/z", "d/a")
    assert disk.listdir("d") == ["a", "y"]
    disk.remove("d/y")
    assert not disk.exists("d/y")
    disk.rmtree("d")
    assert disk.listdir("") == []
    disk.sync_dir("")


def open_files(directory: Path) -> list[str]:
    """The files below a directory that this process has open."""
    paths = []
    for fd in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            paths.append(os.readlink(f"/proc/self/fd/{fd}"))
    return [path for path in paths if path.startswith(str(directory))]


def test_a_deferred_sync_outlives_its_file_and_leaks_no_descriptor(disk: PosixDisk, tmp_path: Path) -> None:
    disk.mkdir("d")
    file = disk.open("d/f")
    file.append(b"x")
    syncs = [file.sync_later(), disk.sync_dir_later("d")]
    file.close()
    disk.rmtree("d")
    assert len(open_files(tmp_path)) == len(syncs)
    for sync in syncs:
        sync()
    assert open_files(tmp_path) == []


def test_a_write_that_fails_half_way_leaves_no_trace(disk: PosixDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("f")
    file.append(b"whole")
    real, calls = os.pwrite, []

    def nearly_full(fd: int, data: bytes, at: int) -> int:
        calls.append(at)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(fd, bytes(data)[:3], at)

    monkeypatch.setattr(os, "pwrite", nearly_full)
    with pytest.raises(OSError, match="No space"):
        file.append(b"torn batch")
    monkeypatch.undo()
    assert disk.size("f") == file.size == 5
    file.append(b"!")
    assert disks.read_all(disk, "f") == b"whole!"


def test_a_short_write_is_continued(disk: PosixDisk, monkeypatch: pytest.MonkeyPatch) -> None:
    file = disk.open("f")
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, bytes(data)[:3], at))
    file.append(b"a long batch")
    assert disks.read_all(disk, "f") == b"a long batch"


def test_a_large_file_has_blocks_ahead_of_its_end_until_it_is_closed(disk: PosixDisk) -> None:
    """So an append does not wait for the disk. The file size, which recovery reads, does not include these blocks."""
    disk.run_later = _run_immediately
    small, large = disk.open("small"), disk.open("large")
    small.append(b"x" * 4_096)
    for _ in range(5):
        large.append(b"x" * (1 << 20))
    assert _allocated_bytes(disk, "small") == 4_096
    assert _allocated_bytes(disk, "large") >= large.size + (1 << 19)
    assert disk.size("large") == large.size == 5 << 20
    large.append(b"y")
    reader = disk.open("large")
    large.append(b"z")
    reader.close()  # it did not append, so it frees no blocks
    assert large.read(5 << 20, 10) == b"yz"
    large.close()
    assert disk.size("large") == (5 << 20) + 2
    assert _allocated_bytes(disk, "large") < (5 << 20) + (1 << 16)


def test_a_truncated_file_has_blocks_ahead_of_its_new_end(disk: PosixDisk) -> None:
    disk.run_later = _run_immediately
    file = disk.open("file")
    for _ in range(8):
        file.append(b"x" * (1 << 20))
    file.truncate(3 << 20)
    assert _allocated_bytes(disk, "file") < (3 << 20) + (1 << 16)
    file.append(b"x" * (1 << 20))
    assert _allocated_bytes(disk, "file") >= (4 << 20) + (1 << 19)
    file.close()


def test_a_file_grows_without_a_thread_to_allocate_blocks(disk: PosixDisk) -> None:
    """Without a thread, or if its queue is full, nothing is allocated ahead and no descriptor leaks."""
    before = len(os.listdir("/proc/self/fd"))
    for run_later in (None, lambda job: False):
        disk.run_later = run_later
        file = disk.open("file")
        file.truncate(0)
        for _ in range(4):
            file.append(b"x" * (1 << 20))
        assert _allocated_bytes(disk, "file") == 4 << 20
        file.close()
    assert len(os.listdir("/proc/self/fd")) == before


def _run_immediately(job: Callable[[], None]) -> bool:
    job()
    return True


def _allocated_bytes(disk: PosixDisk, name: str) -> int:
    return os.stat(f"{disk.root}/{name}").st_blocks * 512


def test_a_log_survives_clean_and_unclean_stops(disk: PosixDisk) -> None:
    harness = LogHarness(disk, segment_bytes=200, index_interval_bytes=1)
    for epoch in (1, 1, 2, 3, 3):
        harness.append(2, epoch=epoch)
    before, rows = content(harness.log), shape(harness.log)
    job = harness.log.begin_flush()
    job.run()
    harness.log.finish_flush(job)
    log = harness.reopen_clean()
    assert (content(log), shape(log), log.recovery) == (before, rows, None)
    harness.append(2, epoch=4)
    log.close_files()
    with open(f"{disk.root}/{log.active.paths()[0]}", "ab") as file:
        file.write(b"torn")
    log = harness.open(recovery_point=10)
    assert log.leo == 12
    assert log.recovery is not None
    assert log.recovery.truncated_bytes == 4
    assert log.epochs.entries == [(1, 0), (2, 4), (3, 6), (4, 10)]
    log.close_files()
