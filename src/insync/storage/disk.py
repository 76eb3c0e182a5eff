"""The seam to the disk: the few file operations a log needs, so that a simulated disk can stand in for a real one.

Paths are relative to the disk's root, with "/" between names. What a crash keeps is the contract here: bytes are
safe after `sync` of their file, names (creations, renames, removals) after `sync_dir` of their directory. Everything
else may be there, be missing, or be there in part. A failing disk raises OSError.

A write or a sync that fails ends the node. A read that fails (D6: a bad sector, a file without permission) is damage
to these bytes and concerns nothing else: what looks for batches takes them as zeros, which are no batch and end a walk
as a changed byte does. What is served to clients and replicas never contains such zeros.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Protocol

Bytes = bytes | bytearray | memoryview
TEMPORARY = ".tmp"
"""What the name of a file ends with that is about to replace another."""
SyncLater = Callable[[], None]
"""Makes durable what was written, from any thread, even if the handle it came from is closed by then."""
SECTOR = 4_096
_READ_ERRORS = (errno.EIO, errno.EBADMSG, errno.ENODATA, getattr(errno, "EUCLEAN", errno.EIO))
"""A bad sector, or a checksum of the file system that does not match."""
_OPEN_ERRORS = (*_READ_ERRORS, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENXIO)
"""The file is there and cannot be opened, however often it is tried."""


class DiskFile(Protocol):
    """An open file that only grows at its end or is cut."""

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
        """All bytes and all names, however many files they are in."""


def write_atomically(disk: Disk, path: str, data: Bytes) -> None:
    """Replace a file so that a crash leaves the old content or the new, and never a mixture."""
    temporary = path + TEMPORARY
    write_plainly(disk, temporary, data, sync=True)
    disk.rename(temporary, path)
    disk.sync_dir(parent(path))


def write_plainly(disk: Disk, path: str, data: Bytes, *, sync: bool = False) -> None:
    """Replace a file that can be rebuilt: a crash may leave any of it."""
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
    """Bytes that cannot be read are zeros: the caller finds the file damaged."""
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
    """Whether these bytes cannot be read; other errors, such as too many open files, say nothing about them."""
    return error.errno in _OPEN_ERRORS


def read_with_gaps(file: DiskFile, position: int, n: int) -> bytes:
    """As `file.read`, with zeros in the place of the sectors that cannot be read."""
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
    """From where to where the bytes from `position` on cannot be read."""
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
    """As `disk.open`; a file that cannot be opened fails when it is used, so that reading it is reading damage."""
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
        """There is nothing to close."""
