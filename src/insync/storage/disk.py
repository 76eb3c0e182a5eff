"""The seam to the disk: the few file operations a log needs, so that a simulated disk can stand in for a real one.

Paths are relative to the disk's root, with "/" between names. What a crash keeps is the contract here: bytes are
safe after `sync` of their file, names (creations, renames, removals) after `sync_dir` of their directory. Everything
else may be there, be missing, or be there in part. A failing disk raises OSError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

Bytes = bytes | bytearray | memoryview
TEMPORARY = ".tmp"
"""What the name of a file ends with that is about to replace another."""
SyncLater = Callable[[], None]
"""Makes durable what was written, from any thread, even if the handle it came from is closed by then."""


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


def read_all(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.read(0, file.size)
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
