"""Slow disk work off the event loop, without letting an old file replace a newer one.

Small files are written under a name of their own and synced in one thread, so they are done in order. The rename
happens back on the loop, where the node's own writes to the same path are known: whoever came later wins. Flushes run
in a small pool; each is independent of the others.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from insync.sansio import FlushJob
from insync.storage import disk as disks
from insync.storage.posix import PosixDisk

FLUSH_THREADS = 2

Done = Callable[[OSError | None], None]


class ServerDisk(PosixDisk):
    """A disk that remembers which files the loop has replaced."""

    __slots__ = ("replaced",)

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self.replaced: dict[str, int] = {}

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.replaced[target] = self.replaced.get(target, 0) + 1


class DiskThreads:
    """`done` is always called on the loop, with the error if there was one."""

    def __init__(self, disk: ServerDisk, loop: asyncio.AbstractEventLoop) -> None:
        self._disk = disk
        self._loop = loop
        self._flushers = ThreadPoolExecutor(FLUSH_THREADS, "flush")
        self._writer = ThreadPoolExecutor(1, "write")

    def flush(self, job: FlushJob, done: Done) -> None:
        self._flushers.submit(self._run, job.run, done)

    def write(self, path: str, data: bytes, done: Done) -> None:
        seen = self._disk.replaced.get(path, 0)
        temporary = path + ".new"

        def written(error: OSError | None) -> None:
            if error is not None:
                done(error)
            elif self._disk.replaced.get(path, 0) == seen:
                self._publish(temporary, path, done)

        self._writer.submit(self._run, lambda: disks.write_plainly(self._disk, temporary, data, sync=True), written)

    def close(self) -> None:
        self._flushers.shutdown(wait=False, cancel_futures=True)
        self._writer.shutdown(wait=False, cancel_futures=True)

    def _publish(self, temporary: str, path: str, done: Done) -> None:
        try:
            os.replace(self._disk.root + "/" + temporary, self._disk.root + "/" + path)
            sync = self._disk.sync_dir_later(disks.parent(path))
        except OSError as error:
            done(error)
        else:
            self._writer.submit(self._run, sync, done)

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
