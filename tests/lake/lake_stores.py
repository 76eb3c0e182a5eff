"""Places for lakes in tests: a directory, or an object store in memory that is opened by its URL."""

from __future__ import annotations

from pathlib import Path

import pytest
from obstore.store import MemoryStore

from insync.lake import location
from insync.lake.location import open_store
from insync.lake.objects import ObjectStore
from insync.lake.staging import list_data_files

URL = "s3://units/lake"


def use_memory(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """From now on, URLs of object stores are in this one."""
    backend = MemoryStore()

    def open_in_memory(url: str, settings: object) -> ObjectStore:
        return ObjectStore(url, backend, url.removeprefix("s3://"))

    monkeypatch.setattr(location, "_open_object_store", open_in_memory)
    return backend


@pytest.fixture(params=["directory", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where a lake can be created."""
    if request.param == "directory":
        return str(tmp_path / "lake")
    use_memory(monkeypatch)
    return URL


def write_file(place: str, path: str, data: bytes) -> None:
    """Overwrites one that exists."""
    output = open_store(place).open_output(path)
    output.stream.write(data)
    output.close()
    output.publish()


def read_file(place: str, path: str) -> bytes:
    (data,) = open_store(place).read_files([path])
    return data


def list_kinds(place: str) -> list[str]:
    """What a reader finds that lists directories: `part` or `compact` for every file."""
    paths = list_data_files(open_store(place))
    return sorted(path.rpartition("/")[2].partition("-")[0] for path in paths)
