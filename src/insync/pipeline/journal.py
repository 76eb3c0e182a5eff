"""A journal: a directory of numbered JSON files, without a gap, each of which appears whole or not at all, and once.

An entry is written and synced aside, then linked to its name: linking fails if the name is taken, so that of two
writers one learns that it is not alone. Each entry carries its checksum and that of the entry before it.
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


class JournalError(Exception):
    """The text says which file is wrong, and how."""


class Damaged(JournalError):  # noqa: N818  these names say what happened
    """The journal contradicts itself. Nothing is added to it."""


class Taken(JournalError):  # noqa: N818
    """Somebody else has written the next entry."""


class Journal:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.length = 0
        self._last_crc = 0

    @property
    def next_path(self) -> Path:
        return self.directory / file_name(self.length)

    def load(self) -> Iterator[tuple[Path, dict[str, Any]]]:
        """Every entry, and the file that has it. `append` is for those who have read all of them."""
        for path in _files(self.directory):
            if path != self.next_path:
                raise Damaged(f"{self.next_path} is missing: {path.name} comes after it")
            found = _read(path)
            if found["sequence"] != self.length:
                raise Damaged(f"{path} says that it is entry {found['sequence']}")
            if found["previous"] != self._last_crc:
                raise Damaged(f"{path} does not follow the entry before it: one of the two was changed")
            self.length, self._last_crc = self.length + 1, found["crc"]
            yield path, found["entry"]

    def append(self, entry: Mapping[str, Any]) -> None:
        """Durable when it returns; `Taken` if the number is taken, and then nothing has happened."""
        whole = {"format": FORMAT, "sequence": self.length, "previous": self._last_crc, "entry": entry}
        crc = _crc(whole)
        create_exclusively(self.next_path, (json.dumps({**whole, "crc": crc}, indent=1) + "\n").encode())
        self.length, self._last_crc = self.length + 1, crc


def file_name(sequence: int) -> str:
    return f"{sequence:020d}.json"


def create_exclusively(path: Path, data: bytes) -> None:
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with open(aside, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(aside, path)
        except FileExistsError:
            raise Taken(f"{path} exists: somebody else works on the same, and this one stops") from None
    finally:
        aside.unlink(missing_ok=True)
    sync_directory(path.parent)


def remove_asides(directory: Path) -> None:
    """What a killed writer left."""
    for aside in directory.glob(".*.json.*"):
        aside.unlink(missing_ok=True)


def sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.suffix == ".json") if directory.is_dir() else []


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_bytes())
        crc = found["crc"]
        if _crc({name: value for name, value in found.items() if name != "crc"}) != crc:
            raise Damaged(f"{path} is damaged: its checksum is wrong")
        if found["format"] != FORMAT:
            raise Damaged(f"{path} has format {found['format']}, this version knows {FORMAT}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{path} cannot be read: {type(error).__name__}: {error}") from None
    return found


def _crc(whole: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(whole, sort_keys=True, separators=(",", ":")).encode())
