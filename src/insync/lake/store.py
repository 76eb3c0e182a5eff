"""Where a lake is: a local directory, or a prefix of an object store. Paths are relative to it, with slashes.

A store has no rename and no lock that can be relied on. What the lake needs is less: a small file that is created only
if there is none (an entry of a journal), a large one that appears whole (a Parquet file), a second name for one that
exists (a staged file in its final place), and listings that show every change that was made before.
"""

from __future__ import annotations

import errno
import fcntl
import functools
import os
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c

_READ_BYTES = 8 << 20


class LakeError(Exception):
    """A lake cannot be used; the text says why."""


class LakeLockedError(LakeError):
    """Another process has the same role."""


class StoreError(LakeError, OSError):
    """An object store did not do what it was asked to."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    size: int
    named_s: float
    """When it got this name, in seconds since 1970."""


class Output(ABC):
    """A file while it is written: to `stream`, then `close`, then `publish` or `discard`."""

    stream: Any
    """For pyarrow."""

    def close(self) -> None:
        self.stream.close()

    @abstractmethod
    def publish(self) -> tuple[int, int]:
        """Give it its name, and return its size and CRC-32C."""

    @abstractmethod
    def discard(self) -> None:
        """Leave nothing of it."""


class Store(ABC):
    """Can be pickled to executors."""

    @abstractmethod
    def __str__(self) -> str:
        """The absolute path or URL."""

    @abstractmethod
    def child(self, directory: str) -> Store:
        """The store below a directory of this one."""

    # --- small files -------------------------------------------------------------------------------------------------

    @abstractmethod
    def create(self, path: str, data: bytes) -> None:
        """Create a file, whole and durable when it returns. Raises FileExistsError if it exists with other data."""

    @abstractmethod
    def replace(self, paths: Iterable[str], data: bytes) -> None:
        """Give files that exist another content, the same for all, one after the other in this order."""

    @abstractmethod
    def read_files(self, paths: Iterable[str]) -> Iterator[bytes]:
        """The contents of small files, one after the other."""

    @abstractmethod
    def list_names(self, directory: str, since: str = "") -> list[str]:
        """The names of the files in a directory, in order, from the name `since` on."""

    # --- all files ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def list_directories(self) -> list[str]:
        """Directories of the store itself, by name."""

    @abstractmethod
    def list_files(self, directory: str) -> list[StoredFile]:
        """All files below a directory, in the order of their paths."""

    @abstractmethod
    def find(self, path: str) -> StoredFile | None: ...

    @abstractmethod
    def delete(self, path: str) -> None:
        """Nothing happens if there is none."""

    @abstractmethod
    def link(self, source: str, target: str) -> None:
        """Give a file a second name. Raises FileNotFoundError."""

    # --- Parquet files -----------------------------------------------------------------------------------------------

    @abstractmethod
    def open_output(self, path: str) -> Output: ...

    @abstractmethod
    def open_parquet(self, path: str) -> pq.ParquetFile: ...

    @abstractmethod
    def checksum(self, path: str) -> int:
        """CRC-32C of a file."""

    # --- what only directories need ----------------------------------------------------------------------------------

    @abstractmethod
    def prepare(self, directory: str = "", *, purpose: str = "be a lake") -> None:
        """Create a directory, where there are any."""

    @abstractmethod
    def sync(self, directories: Iterable[str]) -> None:
        """Make the names in directories durable, where that is not part of creating them."""

    @abstractmethod
    def lock(self, owner: str, name: str) -> Callable[[], None]:
        """Take a lock, where there are any, and return what releases it. It tells a second process at once what it
        would learn later: the journal fences processes that no lock reaches."""

    @abstractmethod
    def remove_temporary_files(self, directory: str) -> None:
        """Those that a killed process left when it created files in a directory."""


class LocalStore(Store):
    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    def __str__(self) -> str:
        return str(self.root)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LocalStore) and self.root == other.root

    def __hash__(self) -> int:
        return hash(self.root)

    def child(self, directory: str) -> LocalStore:
        return LocalStore(self.root / directory)

    def create(self, path: str, data: bytes) -> None:
        """Write a temporary file, sync it and link it to its name: linking fails if the name exists."""
        while not _link_new_file(self.root / path, data):
            pass
        sync_directory((self.root / path).parent)

    def replace(self, paths: Iterable[str], data: bytes) -> None:
        """The names share one file, as links."""
        shared: Path | None = None
        directories: dict[Path, None] = {}
        try:
            for path in paths:
                shared = _link_in_place(self.root / path, shared, data)
                directories[(self.root / path).parent] = None
        finally:
            if shared is not None:
                shared.unlink(missing_ok=True)
        for directory in directories:
            sync_directory(directory)

    def read_files(self, paths: Iterable[str]) -> Iterator[bytes]:
        for path in paths:
            yield (self.root / path).read_bytes()

    def list_names(self, directory: str, since: str = "") -> list[str]:
        if not (self.root / directory).is_dir():
            return []
        return sorted(name for name in os.listdir(self.root / directory) if name >= since)

    def list_directories(self) -> list[str]:
        if not self.root.is_dir():
            return []
        return sorted(path.name for path in self.root.iterdir() if path.is_dir())

    def list_files(self, directory: str) -> list[StoredFile]:
        names = (
            os.path.join(parent, name) for parent, _, names in os.walk(self.root / directory) for name in sorted(names)
        )
        files = (self.find(os.path.relpath(name, self.root)) for name in names)
        return sorted((file for file in files if file is not None), key=lambda file: file.path)

    def find(self, path: str) -> StoredFile | None:
        try:
            status = (self.root / path).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        return StoredFile(path, status.st_size, status.st_ctime)

    def delete(self, path: str) -> None:
        (self.root / path).unlink(missing_ok=True)

    def link(self, source: str, target: str) -> None:
        final = self.root / target
        final.parent.mkdir(parents=True, exist_ok=True)
        os.link(self.root / source, final)
        sync_directory(final.parent)

    def open_output(self, path: str) -> Output:
        return _LocalOutput(self.root / path)

    def open_parquet(self, path: str) -> pq.ParquetFile:
        return pq.ParquetFile(self.root / path)

    def checksum(self, path: str) -> int:
        with open(self.root / path, "rb") as file:
            return checksum_of(file)[1]

    def prepare(self, directory: str = "", *, purpose: str = "be a lake") -> None:
        try:
            (self.root / directory).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LakeError(f"{self} cannot {purpose}: {error.strerror}") from None
        sync_directory(self.root)

    def sync(self, directories: Iterable[str]) -> None:
        for directory in directories:
            sync_directory(self.root / directory)

    def lock(self, owner: str, name: str) -> Callable[[], None]:
        """Held until it is released or the process ends."""
        handle = os.open(self.root / name, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise LakeLockedError(f"another {owner} is using {self}: stop it, or name another directory") from None
        return functools.partial(os.close, handle)

    def remove_temporary_files(self, directory: str) -> None:
        for temporary in (self.root / directory).glob(".*.json.*"):
            temporary.unlink(missing_ok=True)


class _LocalOutput(Output):
    """Has a hidden name until it is published."""

    def __init__(self, final: Path) -> None:
        final.parent.mkdir(parents=True, exist_ok=True)
        self._final = final
        self._hidden = final.with_name(f".{final.name}")
        self.stream = pa.OSFile(str(self._hidden), "wb")

    def publish(self) -> tuple[int, int]:
        with open(self._hidden, "rb") as file:
            os.fsync(file.fileno())
            size, crc = checksum_of(file)
        self._hidden.rename(self._final)
        return size, crc

    def discard(self) -> None:
        self._hidden.unlink(missing_ok=True)


def _link_new_file(path: Path, data: bytes) -> bool:
    """False if a process that starts has deleted the temporary file, as those of killed ones."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        _write_synced(temporary, data)
        os.link(temporary, path)
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def _link_in_place(path: Path, shared: Path | None, data: bytes) -> Path:
    """Let a name refer to a file with other data; returns that file, which names share."""
    while True:
        if shared is None:
            shared = path.with_name(f".removed.json.{uuid.uuid4().hex}")
            _write_synced(shared, data)
        link = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            os.link(shared, link)
            os.replace(link, path)
        except FileNotFoundError:  # a process that starts has deleted it, as those of killed ones
            if not path.parent.is_dir():
                raise
            shared = None
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            shared.unlink(missing_ok=True)
            shared = None  # it has as many names as the file system allows
        else:
            return shared


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def checksum_of(file: Any) -> tuple[int, int]:
    """(size, CRC-32C) of the rest of an open file."""
    size, crc = 0, 0
    while data := file.read(_READ_BYTES):
        size, crc = size + len(data), crc32c(data, crc)
    return size, crc


def sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Make the names in it durable."""
    sync_file(path)
