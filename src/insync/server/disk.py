"""Slow disk work off the event loop, without letting an old file replace a newer one.

Small files are written under a temporary name and synced in one thread, one write of a file at a time. The rename
happens on the loop, which knows the node's own writes to the same path: the later one wins. The replaced file is held
open meanwhile and closed in the thread, because the loop would wait while the file system frees it. Flushes run in a
small pool; they are independent of each other, and a log has one under way at a time. So even with a slow disk little
waits for it.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Semaphore

from insync.sansio import FlushJob
from insync.storage import disk as disks
from insync.storage.posix import PosixDisk

FLUSH_THREADS = 2
MAX_WAITING_JOBS = 64
"""Optional jobs that may wait for the disk; more are skipped."""

Done = Callable[[OSError | None], None]


class ServerDisk(PosixDisk):
    """Counts how often the loop has replaced each of the files that threads write too."""

    __slots__ = ("_replaced",)

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._replaced: dict[str, int] = {}

    def times_replaced(self, path: str) -> int:
        return self._replaced.setdefault(path, 0)

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        if target in self._replaced:
            self._replaced[target] += 1

    def publish(self, source: str, target: str) -> None:
        """Rename a file that a thread has written."""
        super().rename(source, target)

    def hold(self, path: str) -> int | None:
        """Open a descriptor, so that the file exists on when another one takes its name."""
        try:
            return os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None


class _Write:
    """`replaced_before`: how often the loop had replaced the file when this write was requested. `held`: a descriptor
    of the replaced file."""

    __slots__ = ("callbacks", "data", "held", "path", "replaced_before", "temporary")

    def __init__(self, path: str, data: bytes, replaced_before: int, callbacks: list[Done]) -> None:
        self.path = path
        self.temporary = path + ".new"
        self.data = data
        self.replaced_before = replaced_before
        self.callbacks = callbacks
        self.held: int | None = None

    def close_held(self) -> None:
        if self.held is not None:
            os.close(self.held)
            self.held = None


class DiskThreads:
    """`done` is always called on the loop, with the error if there was one."""

    def __init__(self, disk: ServerDisk, loop: asyncio.AbstractEventLoop) -> None:
        self._disk = disk
        self._loop = loop
        self._flushers = ThreadPoolExecutor(FLUSH_THREADS, "flush")
        self._writer = ThreadPoolExecutor(1, "write")
        self._helper = ThreadPoolExecutor(1, "write-back")
        self._may_wait = Semaphore(MAX_WAITING_JOBS)
        self._closed = False
        disk.run_later = self.run_later
        self._waiting: dict[str, _Write | None] = {}  # by path of a file that is being written: the next write

    def flush(self, job: FlushJob, done: Done) -> None:
        self._flushers.submit(self._run, job.run, done)

    def write(self, path: str, data: bytes, done: Done) -> None:
        """While a file is being written, at most one more write of it waits: the newest."""
        write = _Write(path, data, self._disk.times_replaced(path), [done])
        if path not in self._waiting:
            self._waiting[path] = None
            self._begin(write)
            return
        before = self._waiting[path]
        if before is not None:
            write.callbacks += before.callbacks
        self._waiting[path] = write

    def run_later(self, job: Callable[[], None]) -> bool:
        """Run optional work; False if too much of it is waiting already."""
        if self._closed or not self._may_wait.acquire(blocking=False):
            return False
        self._helper.submit(job).add_done_callback(lambda _: self._may_wait.release())
        return True

    def _begin(self, write: _Write) -> None:
        def on_ended(error: OSError | None) -> None:
            following = self._waiting.pop(write.path)
            if following is not None:
                self._waiting[write.path] = None
                self._begin(following)
            for done in write.callbacks:
                done(error)

        def on_written(error: OSError | None) -> None:
            if error is None and self._disk.times_replaced(write.path) == write.replaced_before:
                self._publish(write, on_ended)
            else:
                write.close_held()
                on_ended(error)

        def write_file() -> None:
            disks.write_plainly(self._disk, write.temporary, write.data, sync=True)
            write.held = self._disk.hold(write.path)

        self._writer.submit(self._run, write_file, on_written)

    def close(self) -> None:
        self._closed = True
        self._flushers.shutdown(wait=False, cancel_futures=True)
        self._writer.shutdown(wait=False, cancel_futures=True)
        self._helper.shutdown(wait=False)

    def _publish(self, write: _Write, done: Done) -> None:
        try:
            self._disk.publish(write.temporary, write.path)
            sync = self._disk.sync_dir_later(disks.parent(write.path))
        except OSError as error:
            write.close_held()
            done(error)
        else:
            self._writer.submit(self._run, sync, done)
            self._writer.submit(write.close_held)

    def _run(self, work: Callable[[], None], done: Done) -> None:
        try:
            work()
        except OSError as error:
            self._call_on_loop(done, error)
        else:
            self._call_on_loop(done, None)

    def _call_on_loop(self, done: Done, error: OSError | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(done, error)
