"""Disk work off the loop keeps its order where that matters."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from insync.server.disk import DiskThreads, ServerDisk
from insync.storage import disk as disks

TIMEOUT_S = 10


class _Job:
    def __init__(self, work: Callable[[], None]) -> None:
        self.run = work


def _with_threads(tmp_path: Path, scenario: Callable[[ServerDisk, DiskThreads], Awaitable[None]]) -> None:
    async def run() -> None:
        disk = ServerDisk(str(tmp_path))
        threads = DiskThreads(disk, asyncio.get_running_loop())
        try:
            await asyncio.wait_for(scenario(disk, threads), TIMEOUT_S)
        finally:
            threads.close()

    asyncio.run(run())


def test_the_last_of_many_writes_to_a_file_stays(tmp_path: Path) -> None:
    async def scenario(disk: ServerDisk, threads: DiskThreads) -> None:
        left = asyncio.Semaphore(0)
        for number in range(50):
            threads.write("file", str(number).encode(), lambda error: left.release())
        for _ in range(50):
            await left.acquire()
        assert disks.read_all(disk, "file") == b"49"

    _with_threads(tmp_path, scenario)


def test_writes_that_wait_are_replaced_by_the_newest(tmp_path: Path) -> None:
    """However long the disk takes; all of them complete with it."""

    async def scenario(disk: ServerDisk, threads: DiskThreads) -> None:
        gate, left = threading.Event(), asyncio.Semaphore(0)
        threads._writer.submit(gate.wait)
        for number in range(1_000):
            threads.write("file", b"%d" % number, lambda error: left.release())
        assert threads._writer._work_queue.qsize() == 1
        assert list(threads._waiting) == ["file"]
        gate.set()
        for _ in range(1_000):
            await left.acquire()
        assert disks.read_all(disk, "file") == b"999"
        assert not threads._waiting

    _with_threads(tmp_path, scenario)


def test_a_write_of_the_loop_is_not_replaced_by_an_older_one(tmp_path: Path) -> None:
    """B5: the checkpoint written while stopping must not be overtaken by one that was under way."""

    async def scenario(disk: ServerDisk, threads: DiskThreads) -> None:
        gate, done = threading.Event(), asyncio.Event()
        threads._writer.submit(gate.wait)  # the writer is busy, so the next write is late
        threads.write("file", b"old", lambda error: None)
        disks.write_atomically(disk, "file", b"new")
        gate.set()
        threads._writer.submit(asyncio.get_running_loop().call_soon_threadsafe, done.set)
        await done.wait()
        assert disks.read_all(disk, "file") == b"new"

    _with_threads(tmp_path, scenario)


def test_the_loop_does_not_wait_for_a_replaced_file_to_be_freed(tmp_path: Path) -> None:
    """The file system frees a file with its last name or descriptor, whichever goes last: here, in the thread."""

    async def scenario(disk: ServerDisk, threads: DiskThreads) -> None:
        closed_in: list[int] = []

        def close(fd: int) -> None:
            closed_in.append(threading.get_ident())
            os_close(fd)

        await _written(threads, "file", b"old")
        replaced = os.stat(tmp_path / "file").st_ino
        publish, os_close = disk.publish, os.close
        held: list[bool] = []

        def observed(source: str, target: str) -> None:
            publish(source, target)
            held.append(replaced in _open_inodes())

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ServerDisk, "publish", lambda self, source, target: observed(source, target))
            patch.setattr("insync.server.disk.os.close", close)
            await _written(threads, "file", b"new")
            threads._writer.submit(int).result()  # what was submitted before has run
        assert held == [True]
        assert replaced not in _open_inodes()
        assert threading.get_ident() not in closed_in

    _with_threads(tmp_path, scenario)


async def _written(threads: DiskThreads, path: str, data: bytes) -> None:
    done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
    threads.write(path, data, done.set_result)
    assert await done is None


def _open_inodes() -> list[int]:
    inodes = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            inodes.append(os.fstat(int(fd)).st_ino)
        except OSError:  # the descriptor that listed the directory
            continue
    return inodes


def test_a_flush_runs_off_the_loop_and_completes_on_it(tmp_path: Path) -> None:
    async def scenario(disk: ServerDisk, threads: DiskThreads) -> None:
        ran_in: list[int] = []
        done: asyncio.Future[tuple[int, OSError | None]] = asyncio.get_running_loop().create_future()
        job = _Job(lambda: ran_in.append(threading.get_ident()))
        threads.flush(job, lambda error: done.set_result((threading.get_ident(), error)))
        assert await done == (threading.get_ident(), None)
        assert ran_in != [threading.get_ident()]

    _with_threads(tmp_path, scenario)


def test_a_failing_disk_is_reported(tmp_path: Path) -> None:
    async def scenario(disk: ServerDisk, threads: DiskThreads) -> None:
        failure = OSError(28, "no space left")

        def fail() -> None:
            raise failure

        done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        threads.flush(_Job(fail), done.set_result)
        assert await done is failure
        done = asyncio.get_running_loop().create_future()
        threads.write("missing/file", b"x", done.set_result)
        assert isinstance(await done, OSError)

    _with_threads(tmp_path, scenario)
