"""A journal: a directory of numbered JSON files without gaps. Each file appears whole or not at all, and only once.

An entry is written to a temporary file, synced, and linked to its name. Linking fails if the name exists, so the slower
of two writers finds out about the other. Each entry carries its checksum and that of the entry before it.
"""

from __future__ import annotations

import json
import os
import uuid
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FORMAT = 1
NEWEST_FORMAT = 2
"""An entry says which format it needs: a version that does not know it stops there instead of misreading it."""


class JournalError(Exception):
    """The text says which file is wrong, and how."""


class JournalDamagedError(JournalError):
    """The journal contradicts itself. Nothing is added to it."""


class EntryTakenError(JournalError):
    """Another process has written the next entry."""


class Journal:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.length = 0
        self._last_crc = 0

    @property
    def next_path(self) -> Path:
        return self.directory / file_name(self.length)

    def load(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The entries that were not loaded yet, with their files. Exhaust it before calling `append`."""
        for path in _list_files(self.directory, since=self.next_path.name):
            if path != self.next_path:
                raise JournalDamagedError(f"{self.next_path} is missing: {path.name} comes after it")
            document = _read(path)
            if document["sequence"] != self.length:
                raise JournalDamagedError(f"{path} says that it is entry {document['sequence']}")
            if document["previous"] != self._last_crc:
                raise JournalDamagedError(f"{path} does not follow the entry before it: one of the two was changed")
            self.length, self._last_crc = self.length + 1, document["crc"]
            yield path, document["entry"]

    def append(self, entry: Mapping[str, Any], *, required_format: int = FORMAT) -> None:
        """Durable when it returns. If it raises EntryTakenError, nothing has changed."""
        document = {"format": required_format, "sequence": self.length, "previous": self._last_crc, "entry": entry}
        crc = _crc(document)
        create_exclusively(self.next_path, (json.dumps({**document, "crc": crc}, indent=1) + "\n").encode())
        self.length, self._last_crc = self.length + 1, crc


def file_name(sequence: int) -> str:
    return f"{sequence:020d}.json"


def create_exclusively(path: Path, data: bytes) -> None:
    while not _link_new_file(path, data):
        pass
    sync_directory(path.parent)


def _link_new_file(path: Path, data: bytes) -> bool:
    """False if a process that starts has deleted the temporary file, as those of killed ones."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(temporary, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)
    except FileExistsError:
        raise EntryTakenError(f"{path} exists: another process is writing this journal; aborting") from None
    except FileNotFoundError:
        if not path.parent.is_dir():
            raise
        return False
    finally:
        temporary.unlink(missing_ok=True)
    return True


def remove_temporary_files(directory: Path) -> None:
    """Those that a killed writer left behind."""
    for temporary in directory.glob(".*.json.*"):
        temporary.unlink(missing_ok=True)


def sync_file(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Make the names in it durable."""
    sync_file(path)


def _list_files(directory: Path, *, since: str) -> list[Path]:
    if not directory.is_dir():
        return []
    return sorted(path for path in directory.iterdir() if path.suffix == ".json" and path.name >= since)


def _read(path: Path) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(path.read_bytes())
        crc = document["crc"]
        if _crc({name: value for name, value in document.items() if name != "crc"}) != crc:
            raise JournalDamagedError(f"{path} is damaged: its checksum is wrong")
        if not FORMAT <= document["format"] <= NEWEST_FORMAT:
            known = f"formats {FORMAT} to {NEWEST_FORMAT}"
            raise JournalDamagedError(f"{path} has format {document['format']}; this version reads {known}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise JournalDamagedError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
    return document


def _crc(document: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(document, sort_keys=True, separators=(",", ":")).encode())
