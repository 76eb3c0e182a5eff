"""Slow disk work off the event loop, without letting an old file replace a newer one.

Small files are written under a name of their own and synced in one thread, one write of a file at a time. The rename
happens back on the loop, where the node's own writes to the same path are known: the later one wins. The file that is
replaced is held open meanwhile and closed in the thread: the loop would wait while the file system frees it. Flushes
run in a small pool; each is independent of the others, and a log has one under way at a time. So however slow the disk
is, little waits for it.
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
"""A disk that is further behind has enough to do."""

Done = Callable[[OSError | None], None]


class ServerDisk(PosixDisk):
    """A disk that remembers how often the loop has replaced a file, of those that threads write too."""

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
        """A rename that the loop does not count as its own."""
        super().rename(source, target)

    def hold(self, path: str) -> int | None:
        """A descriptor that keeps a file in existence when another one takes its name."""
        try:
            return os.open(self._at(path), os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None


class _Write:
    """`seen`: how often the loop had replaced the file when this was asked for. `held`: the file that is replaced."""

    __slots__ = ("data", "dones", "held", "path", "seen", "temporary")

    def __init__(self, path: str, data: bytes, seen: int, dones: list[Done]) -> None:
        self.path = path
        self.temporary = path + ".new"
        self.data = data
        self.seen = seen
        self.dones = dones
        self.held: int | None = None

    def let_go(self) -> None:
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
        self._waiting: dict[str, _Write | None] = {}  # by path, where a write is under way: what follows it

    def flush(self, job: FlushJob, done: Done) -> None:
        self._flushers.submit(self._run, job.run, done)

    def write(self, path: str, data: bytes, done: Done) -> None:
        """While one write of a file is under way at most one waits: the newest, in place of the others."""
        write = _Write(path, data, self._disk.times_replaced(path), [done])
        if path not in self._waiting:
            self._waiting[path] = None
            self._begin(write)
            return
        before = self._waiting[path]
        if before is not None:
            write.dones += before.dones
        self._waiting[path] = write

    def run_later(self, job: Callable[[], None]) -> bool:
        """For work that only saves time: False if there is no room for more of it."""
        if self._closed or not self._may_wait.acquire(blocking=False):
            return False
        self._helper.submit(job).add_done_callback(lambda _: self._may_wait.release())
        return True

    def _begin(self, write: _Write) -> None:
        def ended(error: OSError | None) -> None:
            following = self._waiting.pop(write.path)
            if following is not None:
                self._waiting[write.path] = None
                self._begin(following)
            for done in write.dones:
                done(error)

        def written(error: OSError | None) -> None:
            if error is None and self._disk.times_replaced(write.path) == write.seen:
                self._publish(write, ended)
            else:
                write.let_go()
                ended(error)

        def work() -> None:
            disks.write_plainly(self._disk, write.temporary, write.data, sync=True)
            write.held = self._disk.hold(write.path)

        self._writer.submit(self._run, work, written)

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
            write.let_go()
            done(error)
        else:
            self._writer.submit(self._run, sync, done)
            self._writer.submit(write.let_go)

    def _run(self, work: Callable[[], None], done: Done) -> None:
        try:
            work()
        except OSError as error:
            self._tell(done, error)
        else:
            self._tell(done, None)

    def _tell(self, done: Done, error: OSError | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(done, error)
