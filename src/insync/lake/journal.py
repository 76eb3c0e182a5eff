"""A journal: a directory of numbered JSON files without gaps. Each file appears whole or not at all, and only once.

An entry is written to a temporary file, synced, and linked to its name. Linking fails if the name exists, so the slower
of two writers finds out about the other. Each entry carries its checksum and that of the entry before it.

A checkpoint is an entry with the state that all entries before it lead to. Reading starts at the newest one, and the
content of older entries can be removed. Their names stay, as links to one small file: a writer that was suspended for
long would otherwise find its name free, and write an entry that counts nowhere.
"""

from __future__ import annotations

import errno
import json
import os
import uuid
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FORMAT = 1
CHECKPOINT_FORMAT = 3
NEWEST_FORMAT = 3
"""An entry says which format it needs: a version that does not know it stops there instead of misreading it."""


class JournalError(Exception):
    """The text says which file is wrong, and how."""


class JournalDamagedError(JournalError):
    """The journal contradicts itself. Nothing is added to it."""


class EntryRemovedError(JournalError):
    """Entries that are asked for were removed after a checkpoint."""


class EntryTakenError(JournalError):
    """Another process has written the next entry."""


class Journal:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.length = 0
        self.skipped = False
        """Whether entries were skipped before the one that was loaded last, which is a checkpoint then."""
        self._last_crc = 0

    @property
    def next_path(self) -> Path:
        return self.directory / file_name(self.length)

    def load(self, end: int | None = None) -> Iterator[tuple[Path, dict[str, Any]]]:
        """The entries that were not loaded yet, up to but not including number `end`, with their files.

        The first one may be a checkpoint that is not the next entry: then `skipped` is true.
        Exhaust it before calling `append`.
        """
        for path, document in self._find_documents(end):
            is_next = document["sequence"] == self.length
            if is_next and document["previous"] != self._last_crc:
                raise JournalDamagedError(f"{path} does not follow the entry before it: one of the two was changed")
            if not is_next and not document.get("checkpoint"):
                raise JournalDamagedError(f"{path} says that it is entry {document['sequence']}")
            self.length, self._last_crc = document["sequence"] + 1, document["crc"]
            self.skipped = not is_next
            yield path, document["entry"]

    def _find_documents(self, end: int | None) -> Iterator[tuple[Path, dict[str, Any]]]:
        """From the next entry on, or from the newest checkpoint if the next entry was removed or is the first."""
        for path in self._list(end) if self.length else ():
            document = _read(path)
            if _is_removed(document):
                break
            yield path, _check_sequence(path, document)
        else:
            if self.length:
                return
        yield from self._find_from_checkpoint(end)

    def _find_from_checkpoint(self, end: int | None) -> list[tuple[Path, dict[str, Any]]]:
        """Read backwards up to the newest checkpoint; without one, up to the first entry."""
        while True:
            paths = self._list(end)
            documents: list[tuple[Path, dict[str, Any]]] = []
            for path in reversed(paths):
                document = _read(path)
                if _is_removed(document):
                    break
                documents.append((path, _check_sequence(path, document)))
                if document.get("checkpoint"):
                    return documents[::-1]
            else:
                return documents[::-1]
            if self._list(end)[-1] == paths[-1]:  # otherwise a checkpoint may have been added meanwhile
                raise EntryRemovedError(
                    f"{path} was removed after a checkpoint: the state before it can no longer be read; "
                    "what needs it must start again"
                )

    def _list(self, end: int | None) -> list[Path]:
        paths = _list_files(self.directory, since=self.next_path.name)
        for number, path in enumerate(paths):
            if path.name != file_name(self.length + number):
                missing = self.directory / file_name(self.length + number)
                raise JournalDamagedError(f"{missing} is missing: {path.name} comes after it")
        return paths if end is None else paths[: max(end - self.length, 0)]

    def append(self, entry: Mapping[str, Any], *, required_format: int = FORMAT, checkpoint: bool = False) -> None:
        """Durable when it returns. If it raises EntryTakenError, nothing has changed."""
        document = {"format": required_format, "sequence": self.length, "previous": self._last_crc, "entry": entry}
        if checkpoint:
            document |= {"format": CHECKPOINT_FORMAT, "checkpoint": True}
        crc = _crc(document)
        create_exclusively(self.next_path, (json.dumps({**document, "crc": crc}, indent=1) + "\n").encode())
        self.length, self._last_crc, self.skipped = self.length + 1, crc, False

    def remove_before(self, checkpoint: int) -> int:
        """Remove the content of the entries before a checkpoint, oldest first; returns of how many.

        Only entries that a checkpoint covers may be removed: readers need nothing else. After a kill at any point, the
        next call goes on.
        """
        document = _read(self.directory / file_name(checkpoint))
        if not document.get("checkpoint") or document["sequence"] != checkpoint:
            raise JournalDamagedError(f"{self.directory / file_name(checkpoint)} is not a checkpoint")
        paths = []
        for number in range(checkpoint - 1, -1, -1):
            path = self.directory / file_name(number)
            if _is_removed(_read(path)):
                break  # and so are all before it
            paths.append(path)
        marker: Path | None = None
        try:
            for path in reversed(paths):
                marker = _replace_by_marker(path, marker)
        finally:
            if marker is not None:
                marker.unlink(missing_ok=True)
        if paths:
            sync_directory(self.directory)
        return len(paths)


def _replace_by_marker(path: Path, marker: Path | None) -> Path:
    """Let a name refer to a file that says that its entry was removed; returns that file, which names share."""
    while True:
        if marker is None:
            marker = path.with_name(f".removed.json.{uuid.uuid4().hex}")
            _write_marker(marker)
        link = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
        try:
            os.link(marker, link)
            os.replace(link, path)
        except FileNotFoundError:  # a process that starts has deleted it, as those of killed ones
            if not path.parent.is_dir():
                raise
            marker = None
        except OSError as error:
            if error.errno != errno.EMLINK:
                raise
            marker.unlink(missing_ok=True)
            marker = None  # it has as many names as the file system allows
        else:
            return marker


def _write_marker(path: Path) -> None:
    document = {"format": CHECKPOINT_FORMAT, "sequence": -1, "previous": 0, "entry": {}, "removed": True}
    with open(path, "xb") as file:
        file.write((json.dumps({**document, "crc": _crc(document)}, indent=1) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())


def _is_removed(document: Mapping[str, Any]) -> bool:
    return bool(document.get("removed"))


def _check_sequence(path: Path, document: dict[str, Any]) -> dict[str, Any]:
    if path.name != file_name(document["sequence"]):
        raise JournalDamagedError(f"{path} says that it is entry {document['sequence']}")
    return document


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
