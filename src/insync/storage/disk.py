"""The interface to the disk: the few file operations that a log needs. The simulator implements it in memory.

Paths are relative to the disk's root, with "/" between names. The contract is what a crash keeps: bytes are safe after
`sync` of their file, names (creations, renames, removals) after `sync_dir` of their directory. Anything else may be
there, be missing, or be there in part. A failing disk raises OSError.

A write or a sync that fails ends the node. A read that fails (D6: a bad sector, a file without permission) is damage to
these bytes only: code that scans for batches reads them as zeros, which are not a batch and end the scan as a changed
byte does. What is served to clients and replicas never contains such zeros.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

Bytes = bytes | bytearray | memoryview
TEMPORARY = ".tmp"
"""Suffix of a file that is about to replace another."""
SyncLater = Callable[[], None]
"""Makes what was written durable. Can run on any thread, even after the file it came from was closed."""
SECTOR = 4_096
_READ_ERRORS = (errno.EIO, errno.EBADMSG, errno.ENODATA, getattr(errno, "EUCLEAN", errno.EIO))
"""A bad sector, or a wrong checksum in the file system."""
_OPEN_ERRORS = (*_READ_ERRORS, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)
"""The file exists and cannot be opened, now or later."""


class DiskFile(Protocol):
    """An open file that is only appended to or truncated."""

    @property
    def size(self) -> int: ...
    def append(self, data: Bytes) -> None: ...
    def read(self, pos: int, n: int) -> bytes: ...
    def truncate(self, n: int) -> None: ...
    def sync(self) -> None: ...
    def sync_later(self) -> SyncLater: ...
    def close(self) -> None: ...


class Disk(Protocol):
    """A tree of files. `open` creates a missing file, never a missing directory."""

    def open(self, path: str) -> DiskFile: ...
    def exists(self, path: str) -> bool: ...
    def size(self, path: str) -> int: ...
    def listdir(self, path: str) -> list[str]: ...
    def mkdir(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def rmtree(self, path: str) -> None: ...
    def sync_dir(self, path: str) -> None: ...
    def sync_dir_later(self, path: str) -> SyncLater: ...
    def sync_all(self) -> None:
        """Sync all bytes and all names of the disk."""


def write_atomically(disk: Disk, path: str, data: Bytes) -> None:
    """Replace a file durably, so that a crash leaves the old content or the new, never a mixture."""
    temporary = path + TEMPORARY
    write_plainly(disk, temporary, data, sync=True)
    disk.rename(temporary, path)
    disk.sync_dir(parent(path))


def write_plainly(disk: Disk, path: str, data: Bytes, *, sync: bool = False) -> None:
    """Replace a file that can be rebuilt: a crash may leave any part of it."""
    file = disk.open(path)
    try:
        file.truncate(0)
        file.append(data)
        if sync:
            file.sync()
    finally:
        file.close()


def sync_file_later(disk: Disk, path: str) -> SyncLater:
    file = disk.open(path)
    try:
        return file.sync_later()
    finally:
        file.close()


def read_all(disk: Disk, path: str) -> bytes:
    """The content of a file, with zeros for unreadable bytes: the caller then finds the file damaged."""
    try:
        file = disk.open(path)
    except OSError as error:
        if not is_read_error(error):
            raise
        return b""
    try:
        return read_with_gaps(file, 0, file.size)
    finally:
        file.close()


def read_if_exists(disk: Disk, path: str) -> bytes | None:
    return read_all(disk, path) if disk.exists(path) else None


def remove_if_exists(disk: Disk, path: str) -> None:
    if disk.exists(path):
        disk.remove(path)


def parent(path: str) -> str:
    return path.rpartition("/")[0]


def join(directory: str, name: str) -> str:
    return f"{directory}/{name}" if directory else name


# --- bytes that cannot be read --------------------------------------------------------------------------------------


def is_read_error(error: OSError) -> bool:
    """Whether the bytes are unreadable. Other errors, such as too many open files, say nothing about the bytes."""
    return error.errno in _OPEN_ERRORS


def read_with_gaps(file: DiskFile, position: int, n: int) -> bytes:
    """Like `file.read`, with zeros in place of unreadable sectors."""
    try:
        return file.read(position, n)
    except OSError as error:
        if not is_read_error(error):
            raise
    if n <= SECTOR:
        return bytes(n)
    ends = [*range((position // SECTOR + 1) * SECTOR, position + n, SECTOR), position + n]
    starts = [position, *ends[:-1]]
    return b"".join([read_with_gaps(file, start, end - start) for start, end in zip(starts, ends, strict=True)])


def unreadable_ranges(file: DiskFile, position: int, n: int) -> list[tuple[int, int]]:
    """The (start, end) of the unreadable bytes among the `n` from `position` on."""
    try:
        file.read(position, n)
    except OSError as error:
        if not is_read_error(error):
            raise
        if n <= SECTOR:
            return [(position, position + n)]
        middle = (position + n // 2) // SECTOR * SECTOR
        middle = middle if position < middle < position + n else position + n // 2
        return [
            *unreadable_ranges(file, position, middle - position),
            *unreadable_ranges(file, middle, position + n - middle),
        ]
    return []


def open_file(disk: Disk, path: str) -> DiskFile:
    """Like `disk.open`, but a file that cannot be opened only fails when it is used: reading it is reading damage."""
    try:
        return disk.open(path)
    except OSError as error:
        if not is_read_error(error):
            raise
        return _UnopenableFile(error)


class _UnopenableFile:
    __slots__ = ("_error",)

    def __init__(self, error: OSError) -> None:
        self._error = error

    @property
    def size(self) -> int:
        raise self._error

    def append(self, data: Bytes) -> None:
        raise self._error

    def read(self, pos: int, n: int) -> bytes:
        raise self._error

    def truncate(self, n: int) -> None:
        raise self._error

    def sync(self) -> None:
        raise self._error

    def sync_later(self) -> SyncLater:
        raise self._error

    def close(self) -> None:
        """Nothing was opened."""
