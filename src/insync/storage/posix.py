"""The production disk: plain POSIX files under one root. The only module of the core that touches the machine.

Appends go to the page cache at the size the handle knows, so a write that failed half-way is overwritten by the next
one. A `sync_later` owns a descriptor of its own: the handle may be closed, the file removed, and another thread may
be in the middle of the fsync, without harm.
"""

from __future__ import annotations

import os
import shutil

from insync.storage.disk import Bytes, SyncLater

_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)


class PosixDisk:
    __slots__ = ("root",)

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        os.makedirs(self.root, exist_ok=True)

    def open(self, path: str) -> PosixFile:
        return PosixFile(os.open(self._at(path), _FLAGS, 0o644))

    def exists(self, path: str) -> bool:
        return os.path.exists(self._at(path))

    def size(self, path: str) -> int:
        return os.stat(self._at(path)).st_size

    def listdir(self, path: str) -> list[str]:
        return sorted(os.listdir(self._at(path)))

    def mkdir(self, path: str) -> None:
        os.makedirs(self._at(path), exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.replace(self._at(source), self._at(target))

    def remove(self, path: str) -> None:
        os.remove(self._at(path))

    def rmtree(self, path: str) -> None:
        shutil.rmtree(self._at(path))

    def sync_dir(self, path: str) -> None:
        self.sync_dir_later(path)()

    def sync_dir_later(self, path: str) -> SyncLater:
        return _OwnDescriptor(os.open(self._at(path), os.O_RDONLY))

    def sync_all(self) -> None:
        """One wait for the whole file system; one for each file where the system cannot do that."""
        fd = os.open(self.root, os.O_RDONLY)
        try:
            if not _sync_file_system(fd):
                self.sync_each()
        finally:
            os.close(fd)

    def sync_each(self) -> None:
        for directory, _, names in os.walk(self.root):
            inside = os.path.relpath(directory, self.root)
            for name in names:
                file = self.open(f"{inside}/{name}")
                try:
                    file.sync()
                finally:
                    file.close()
            self.sync_dir(inside)

    def _at(self, path: str) -> str:
        return f"{self.root}/{path}"


def _sync_file_system(fd: int) -> bool:
    """False where there is no such call."""
    import ctypes  # only a stop needs it

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        return False
    if libc.syncfs(fd) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return True


class PosixFile:
    __slots__ = ("_fd", "size")

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self.size = os.fstat(fd).st_size

    def append(self, data: Bytes) -> None:
        n = os.pwrite(self._fd, data, self.size)
        if n != len(data):
            self._append_rest(memoryview(data), n)
        self.size += len(data)

    def read(self, pos: int, n: int) -> bytes:
        return os.pread(self._fd, n, pos)

    def truncate(self, n: int) -> None:
        os.ftruncate(self._fd, n)
        self.size = n

    def sync(self) -> None:
        os.fsync(self._fd)

    def sync_later(self) -> SyncLater:
        return _OwnDescriptor(os.dup(self._fd))

    def close(self) -> None:
        os.close(self._fd)

    def _append_rest(self, data: memoryview, done: int) -> None:
        """A short write is legal (a signal, a nearly full disk): carry on, the next error is a real one."""
        try:
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], self.size + done)
        except OSError:
            os.ftruncate(self._fd, self.size)  # half a write would count as part of the file when it is next opened
            raise


class _OwnDescriptor:
    """One fsync on a descriptor nobody else knows, closed afterwards."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self) -> None:
        try:
            os.fsync(self._fd)
        finally:
            os.close(self._fd)
