"""A disk that can be full, slow or have bad sectors, and that journals what would survive a power cut.

The journal is a file beside the data with one line per event, in the order of the events. It needs no sync: the process
may be killed, but the machine stays up. `power_loss` reads it. Files and directories are identified by inode number,
because a handle outlives the name under which it was opened.
"""

from __future__ import annotations

import errno
import itertools
import os
import threading
import time
from collections.abc import Iterator

from insync.server.disk import ServerDisk
from insync.storage import disk as disks
from insync.storage.disk import Bytes, SyncLater
from insync.storage.posix import PosixFile

JOURNAL = "disk.journal"

FOUND = "found"  # file, size: existed when it was opened
CREATED = "created"  # directory, inode of the new file or directory
RENAMED = "renamed"  # directory in which a name changed or was removed
CUT = "cut"  # file, size after the truncation
SYNCING = "syncing"  # number, file, size
SYNCING_NAMES = "syncing-names"  # number, directory
SYNCED = "synced"  # number


class FaultyDisk(ServerDisk):
    """`full`: writes fail, everything else works. `fsync_ms`: how much longer every sync takes. `bad_sectors`: the
    unreadable byte range [start, end) of a file, by inode number."""

    __slots__ = ("_broken_paths", "_journal", "_numbers", "bad_sectors", "fsync_ms", "full", "lock")

    def __init__(self, root: str, journal: str) -> None:
        super().__init__(root)
        self.full = False
        self.fsync_ms = 0
        self.bad_sectors: dict[int, tuple[int, int]] = {}
        self._broken_paths: dict[int, str] = {}
        self.lock = threading.Lock()
        self._numbers = itertools.count(os.getpid() << 32)
        self._journal = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)

    def open(self, path: str) -> FaultyFile:
        try:
            file = FaultyFile(self, os.open(self._at(path), os.O_RDWR | os.O_CLOEXEC))
            self.note(FOUND, file.inode, file.size)
            return file
        except FileNotFoundError:
            with self.lock:
                fd = os.open(self._at(path), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
                self.note(CREATED, self._inode(disks.parent(path)), os.fstat(fd).st_ino)
            return FaultyFile(self, fd)

    def mkdir(self, path: str) -> None:
        if path and not self.exists(path):
            self.mkdir(disks.parent(path))
            super().mkdir(path)
            self.note(CREATED, self._inode(disks.parent(path)), self._inode(path))

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self.note(RENAMED, self._inode(disks.parent(target)))

    def publish(self, source: str, target: str) -> None:
        super().publish(source, target)
        self.note(RENAMED, self._inode(disks.parent(target)))

    def remove(self, path: str) -> None:
        super().remove(path)
        self.note(RENAMED, self._inode(disks.parent(path)))

    def rmtree(self, path: str) -> None:
        super().rmtree(path)
        self.note(RENAMED, self._inode(disks.parent(path)))

    def sync_dir_later(self, path: str) -> SyncLater:
        inode, sync = self._inode(path), super().sync_dir_later(path)

        def run() -> None:
            number = self.next_sync_number()
            self.note(SYNCING_NAMES, number, inode)
            self.delay_sync()
            sync()
            self.note(SYNCED, number)

        return run

    def sync_all(self) -> None:
        with self.lock:
            numbers = [
                number
                for directory, _, names in os.walk(self.root)
                for number in self._note_syncing_all(directory, names)
            ]
        self.delay_sync()
        super().sync_all()
        for number in numbers:
            self.note(SYNCED, number)

    def break_sectors(self, sectors: tuple[tuple[str, int, int], ...]) -> None:
        """A file that replaces a broken one is elsewhere on the disk and can be read."""
        known = {path: inode for inode, path in self._broken_paths.items()}
        self._broken_paths = {known.get(path, 0) or os.stat(path).st_ino: path for path, _, _ in sectors}
        places = {path: (start, end) for path, start, end in sectors}
        self.bad_sectors = {inode: places[path] for inode, path in self._broken_paths.items()}

    def delay_sync(self) -> None:
        if self.fsync_ms:
            time.sleep(self.fsync_ms / 1_000)

    # --- the journal -------------------------------------------------------------------------------------------------

    def next_sync_number(self) -> int:
        """Unique in this process and among all processes before it."""
        return next(self._numbers)

    def note(self, *words: object) -> None:
        os.write(self._journal, (" ".join(map(str, words)) + "\n").encode())

    def _note_syncing_all(self, directory: str, names: list[str]) -> Iterator[int]:
        """Journal that a directory and its files are being synced; yields the numbers of these syncs."""
        yield (number := self.next_sync_number())
        self.note(SYNCING_NAMES, number, os.stat(directory).st_ino)
        for name in names:
            if not os.path.exists(f"{directory}/{name}"):
                continue  # a dangling symbolic link
            stat = os.stat(f"{directory}/{name}")
            yield (number := self.next_sync_number())
            self.note(SYNCING, number, stat.st_ino, stat.st_size)

    def _inode(self, path: str) -> int:
        return os.stat(self._at(path)).st_ino


class FaultyFile(PosixFile):
    __slots__ = ("_disk", "inode")

    def __init__(self, disk: FaultyDisk, fd: int) -> None:
        super().__init__(fd, disk.run_later)
        self._disk = disk
        self.inode = os.fstat(fd).st_ino

    def append(self, data: Bytes) -> None:
        if self._disk.full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        super().append(data)

    def read(self, pos: int, n: int) -> bytes:
        bad = self._disk.bad_sectors.get(self.inode)
        if bad is not None and pos < bad[1] and bad[0] < pos + n:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().read(pos, n)

    def truncate(self, n: int) -> None:
        with self._disk.lock:
            super().truncate(n)
            self._disk.note(CUT, self.inode, n)

    def sync(self) -> None:
        self._journaled_sync(self._fd, super().sync)

    def sync_later(self) -> SyncLater:
        fd, sync = os.dup(self._fd), super().sync_later()

        def run() -> None:
            try:
                self._journaled_sync(fd, sync)
            finally:
                os.close(fd)

        return run

    def _journaled_sync(self, fd: int, sync: SyncLater) -> None:
        """Durable afterwards: what was in the file when the sync began, less what is truncated before it ends."""
        with self._disk.lock:
            number = self._disk.next_sync_number()
            self._disk.note(SYNCING, number, self.inode, os.fstat(fd).st_size)
        self._disk.delay_sync()
        sync()
        self._disk.note(SYNCED, number)
