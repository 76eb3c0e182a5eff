"""A store in an object store, through `obstore` (the Rust library `object_store`), without fsspec or boto.

A file is created with a conditional put: the server writes it only if there is none. If the answer gets lost, it is
unknown whether it was written, and a repetition finds it there. So the file is read back: with the same bytes it is
our own, because every entry of a journal names the process that wrote it.

What the settings do not say (see `location`), such as credentials, comes from the machine: its role, or a web identity.
"""

from __future__ import annotations

import functools
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, cast

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
from crc32c import crc32c
from obstore.exceptions import AlreadyExistsError, BaseError
from obstore.store import MemoryStore, S3Store

from insync.lake.store import Output, Store, StoredFile, StoreError, checksum_of

if TYPE_CHECKING:
    from obstore.store import S3Config

CREATE_ATTEMPTS = 5
PAUSE_S = 0.1
"""Before the second attempt; twice as long before each that follows."""
PARALLEL_READS = 16
PART_BYTES = 16 << 20
"""Larger files are uploaded in parts of this size."""
PARALLEL_PARTS = 4
LISTED = 1000
MAX_RETRIES = 6
"""Of requests that can be repeated, by obstore itself."""


@functools.lru_cache(maxsize=32)
def connect(url: str, settings: tuple[tuple[str, str], ...] = (), prefix: str = "") -> ObjectStore:
    """Kept, because a store keeps its connections. `url` is that of the prefix."""
    known = dict(settings)
    root = url.removesuffix(f"/{prefix}") if prefix else url
    try:
        backend = S3Store.from_url(
            root,
            config=cast("S3Config", known),
            client_options={"allow_http": known.get("endpoint", "").startswith("http://")},
            retry_config={"max_retries": MAX_RETRIES},
        )
    except (BaseError, ValueError) as error:
        raise StoreError(f"{url}: {shorten_error(error)}") from None
    return ObjectStore(url, backend, prefix, settings)


class ObjectStore(Store):
    def __init__(
        self,
        url: str,
        backend: S3Store | MemoryStore,
        prefix: str = "",
        settings: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self._url = url
        self._backend = backend
        self._prefix = prefix
        """Inside what the backend shows."""
        self._settings = settings

    def __reduce__(self) -> tuple[Any, ...]:
        return connect, (self._url, self._settings, self._prefix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectStore) and (self._url, self._settings) == (other._url, other._settings)

    def __hash__(self) -> int:
        return hash((self._url, self._settings))

    def __str__(self) -> str:
        return self._url

    def child(self, directory: str) -> ObjectStore:
        return ObjectStore(f"{self._url}/{directory}", self._backend, self._key(directory), self._settings)

    def _key(self, path: str) -> str:
        return "/".join(part for part in (self._prefix, path) if part)

    def _path(self, key: str) -> str:
        return key[len(self._prefix) + 1 :] if self._prefix else key

    @contextmanager
    def _reporting(self, action: str, path: str) -> Iterator[None]:
        """Errors of the server as StoreError; FileNotFoundError passes, with the file's name."""
        try:
            yield
        except FileNotFoundError:
            raise FileNotFoundError(2, "No such object", f"{self}/{path}") from None
        except BaseError as error:
            raise StoreError(f"cannot {action} {self}/{path}: {shorten_error(error)}") from None

    # --- small files -------------------------------------------------------------------------------------------------

    def create(self, path: str, data: bytes) -> None:
        """A conditional put, repeated until it is known whether the file is ours."""
        pause_s, reason = PAUSE_S, ""
        for attempt in range(CREATE_ATTEMPTS):
            if attempt:
                time.sleep(pause_s)
                pause_s *= 2
            try:
                self._put_if_absent(path, data)
                return
            except AlreadyExistsError as error:  # or S3 reports a conflict, and there is none in the end
                reason = shorten_error(error)
            except BaseError as error:  # it may have been written all the same, or may be written later
                reason = shorten_error(error)
            stored = self._read_if_present(path)
            if stored == data:
                return
            if stored is not None:
                raise FileExistsError(17, "Object exists", f"{self}/{path}")
        raise StoreError(f"it is unknown whether {self}/{path} was written: {reason}")

    def _put_if_absent(self, path: str, data: bytes) -> None:
        obstore.put(self._backend, self._key(path), data, mode="create", use_multipart=False)

    def replace(self, paths: Iterable[str], data: bytes) -> None:
        for path in paths:
            with self._reporting("write", path):
                obstore.put(self._backend, self._key(path), data, use_multipart=False)

    def _read_if_present(self, path: str) -> bytes | None:
        try:
            return self._read(path)
        except FileNotFoundError:
            return None

    def _read(self, path: str) -> bytes:
        with self._reporting("read", path):
            return obstore.get(self._backend, self._key(path)).bytes().to_bytes()

    def read_files(self, paths: Iterable[str]) -> Iterator[bytes]:
        """Some at a time: a ledger has thousands, and each takes a round trip."""
        remaining = iter(paths)
        with ThreadPoolExecutor(PARALLEL_READS) as pool:
            while chunk := list(islice(remaining, PARALLEL_READS * 4)):
                yield from pool.map(self._read, chunk)

    def list_names(self, directory: str, since: str = "") -> list[str]:
        offset = f"{self._key(directory)}/{since}"[:-1] if since else None  # an offset itself is not listed
        start = len(directory) + 1 if directory else 0
        names = (self._path(entry["path"])[start:] for entry in self._list(directory, offset))
        return sorted(name for name in names if "/" not in name and name >= since)

    # --- all files ---------------------------------------------------------------------------------------------------

    def _list(self, directory: str, offset: str | None = None) -> Iterator[Mapping[str, Any]]:
        with self._reporting("list", directory):
            for chunk in obstore.list(self._backend, self._key(directory) or None, offset=offset, chunk_size=LISTED):
                yield from chunk

    def list_directories(self) -> list[str]:
        with self._reporting("list", ""):
            listed = obstore.list_with_delimiter(self._backend, self._prefix or None)
        return sorted(self._path(key) for key in listed["common_prefixes"])

    def list_files(self, directory: str) -> list[StoredFile]:
        return sorted(map(self._to_file, self._list(directory)), key=lambda file: file.path)

    def _to_file(self, entry: Mapping[str, Any]) -> StoredFile:
        return StoredFile(self._path(entry["path"]), entry["size"], entry["last_modified"].timestamp())

    def find(self, path: str) -> StoredFile | None:
        try:
            with self._reporting("find", path):
                return self._to_file(obstore.head(self._backend, self._key(path)))
        except FileNotFoundError:
            return None

    def delete(self, path: str) -> None:
        try:
            with self._reporting("delete", path):
                obstore.delete(self._backend, self._key(path))
        except FileNotFoundError:
            return

    def link(self, source: str, target: str) -> None:
        """A copy that the server makes: it appears whole."""
        with self._reporting("copy", source):
            obstore.copy(self._backend, self._key(source), self._key(target))

    # --- Parquet files -----------------------------------------------------------------------------------------------

    def open_output(self, path: str) -> Output:
        return _Upload(self, path)

    def upload(self, path: str, file: IO[bytes]) -> None:
        with self._reporting("write", path):
            obstore.put(self._backend, self._key(path), file, chunk_size=PART_BYTES, max_concurrency=PARALLEL_PARTS)

    def open_parquet(self, path: str) -> pq.ParquetFile:
        """A row group's columns are read with few requests: pyarrow puts neighbouring ranges together."""
        file = self.find(path)
        if file is None:
            raise FileNotFoundError(2, "No such object", f"{self}/{path}")
        return pq.ParquetFile(_RangeReader(self, path, file.size), pre_buffer=True)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        with self._reporting("read", path):
            return obstore.get_range(self._backend, self._key(path), start=start, length=length).to_bytes()

    def checksum(self, path: str) -> int:
        crc = 0
        with self._reporting("read", path):
            for data in obstore.get(self._backend, self._key(path)):
                crc = crc32c(data, crc)
        return crc

    # --- what only directories need ----------------------------------------------------------------------------------

    def prepare(self, directory: str = "", *, purpose: str = "be a lake") -> None:
        pass

    def sync(self, directories: Iterable[str]) -> None:
        pass

    def lock(self, owner: str, name: str) -> Callable[[], None]:
        return _release_nothing

    def remove_temporary_files(self, directory: str) -> None:
        pass


def _release_nothing() -> None:
    pass


class _Upload(Output):
    """Written to a temporary file without a name, and uploaded when it is published: until then nothing is there."""

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._is_published = False
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `publish` or `discard`)
        self.stream = pa.OSFile(f"/proc/self/fd/{self._file.fileno()}", "wb")

    def publish(self) -> tuple[int, int]:
        size, crc = checksum_of(self._file)
        self._file.seek(0)
        self._is_published = True  # perhaps, from here on
        self._store.upload(self._path, self._file)
        self._file.close()
        return size, crc

    def discard(self) -> None:
        self._file.close()
        if self._is_published:
            with suppress(StoreError):  # then it is an orphan
                self._store.delete(self._path)


class _RangeReader:
    """What pyarrow needs of a file."""

    def __init__(self, store: ObjectStore, path: str, size: int) -> None:
        self._store = store
        self._path = path
        self._size = size
        self._position = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        length = min(size if size >= 0 else self._size, self._size - self._position)
        if length <= 0:
            return b""
        data = self._store.read_range(self._path, self._position, length)
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    def flush(self) -> None:
        pass


def shorten_error(error: Exception) -> str:
    """The first line: what follows describes objects of the library."""
    return str(error).partition("\n")[0].rstrip(": ")
