"""The production disk: plain POSIX files under one root. The only module of the core that touches the machine.

Appends go to the page cache at the size that the file object knows, so the next write overwrites one that failed
half-way. A `sync_later` owns a descriptor of its own: the file may be closed or removed while another thread runs the
fsync.

Two things keep appends to a large file from waiting for the disk. Its next blocks are allocated ahead: otherwise ext4
allocates them when the kernel writes pages back, under a lock that an append to the same file waits for. And what was
appended is written back soon: by default the kernel collects writes for half a minute and sends them at once, and an
append waits for the page that it shares with them. Each took up to 250 ms. A thread does both; without a thread,
neither is done.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from insync.storage.disk import Bytes, SyncLater

RunLater = Callable[[Callable[[], None]], bool]
"""Hands a function to a thread; False if the thread's queue is full."""
_FLAGS = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
_LARGE_BYTES = 1 << 20
"""Smaller files are neither allocated ahead nor written back."""
_MAX_AHEAD_BYTES = 8 << 20
_PAGE_BYTES = 4_096
_NEVER = 1 << 63
_KEEP_SIZE = 1  # FALLOC_FL_KEEP_SIZE: the blocks lie behind the end of the file
_SYNC_FILE_RANGE_WRITE = 2


class PosixDisk:
    __slots__ = ("root", "run_later")

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.run_later: RunLater | None = None
        os.makedirs(self.root, exist_ok=True)

    def open(self, path: str) -> PosixFile:
        return PosixFile(os.open(self._at(path), _FLAGS, 0o644), self.run_later)

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
        """Sync the whole file system at once, or each file where the operating system has no call for that."""
        fd = os.open(self.root, os.O_RDONLY)
        try:
            if not _sync_file_system(fd):
                self._sync_files()
        finally:
            os.close(fd)

    def _sync_files(self) -> None:
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
    """False if the operating system has no such call."""
    import ctypes  # only a stop needs it

    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "syncfs"):
        return False
    if libc.syncfs(fd) != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return True


class PosixFile:
    __slots__ = ("_fd", "_grow_at", "_has_spare_blocks", "_run_later", "_written_back", "size")

    def __init__(self, fd: int, run_later: RunLater | None = None) -> None:
        self._fd = fd
        self.size = os.fstat(fd).st_size
        self._run_later = run_later
        self._written_back = self.size
        self._grow_at = _LARGE_BYTES if run_later is not None else _NEVER
        self._has_spare_blocks = False

    def append(self, data: Bytes) -> None:
        n = os.pwrite(self._fd, data, self.size)
        if n != len(data):
            self._append_rest(memoryview(data), n)
        self.size += len(data)
        if self.size >= self._grow_at:
            self._grow()

    def read(self, pos: int, n: int) -> bytes:
        return os.pread(self._fd, n, pos)

    def truncate(self, n: int) -> None:
        os.ftruncate(self._fd, n)
        self.size = n
        self._written_back = min(n, self._written_back)
        self._grow_at = min(self._grow_at, max(n, _LARGE_BYTES))
        self._has_spare_blocks = False

    def sync(self) -> None:
        os.fsync(self._fd)

    def sync_later(self) -> SyncLater:
        return _OwnDescriptor(os.dup(self._fd))

    def close(self) -> None:
        if self._has_spare_blocks:
            os.ftruncate(self._fd, self.size)  # frees them; only the handle that appends may do this
        os.close(self._fd)

    def _grow(self) -> None:
        ahead = min(self.size // 4, _MAX_AHEAD_BYTES)
        self._grow_at = self.size + ahead // 2  # half of it is left when more is allocated
        whole = self.size - self.size % _PAGE_BYTES  # the next append is likely to write to the last page
        growth = _Growth(os.dup(self._fd), self.size, ahead, self._written_back, whole)
        if self._run_later is not None and self._run_later(growth):
            self._written_back = whole
            self._has_spare_blocks = True
        else:
            growth.close()

    def _append_rest(self, data: memoryview, done: int) -> None:
        """A short write is legal (a signal, a nearly full disk): continue, the next error is a real one."""
        try:
            while done < len(data):
                done += os.pwrite(self._fd, data[done:], self.size + done)
        except OSError:
            os.ftruncate(self._fd, self.size)  # else half a write is part of the file when it is opened again
            raise


class _Growth:
    """Allocate blocks after `size`, and start writing back the bytes between two positions.

    Both calls only save time, so their errors are ignored: on a full or broken disk the write or the fsync fails.
    """

    __slots__ = ("_ahead", "_end", "_fd", "_size", "_start")

    def __init__(self, fd: int, size: int, ahead: int, start: int, end: int) -> None:
        self._fd = fd
        self._size = size
        self._ahead = ahead
        self._start = start
        self._end = end

    def __call__(self) -> None:
        try:
            _call_libc("fallocate", self._fd, _KEEP_SIZE, self._size, self._ahead)
            _call_libc("sync_file_range", self._fd, self._start, self._end - self._start, _SYNC_FILE_RANGE_WRITE)
        finally:
            self.close()

    def close(self) -> None:
        os.close(self._fd)


def _call_libc(function: str, fd: int, *arguments: int) -> None:
    """Call a function of the C library that Python does not offer; no-op if the library has none."""
    import ctypes  # only nodes with large segments need it

    libc = ctypes.CDLL(None)
    if hasattr(libc, function):
        getattr(libc, function)(fd, *(ctypes.c_int64(argument) for argument in arguments))


class _OwnDescriptor:
    """One fsync on a descriptor of its own, which it closes."""

    __slots__ = ("_fd",)

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def __call__(self) -> None:
        try:
            os.fsync(self._fd)
        finally:
            os.close(self._fd)
