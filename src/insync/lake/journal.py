"""A journal: a directory of numbered JSON files without gaps. Each file appears whole or not at all, and only once.

An entry is created under its number, which fails if the number is taken (see `store`), so the slower of two writers
finds out about the other. Each entry carries its checksum and that of the entry before it.

A checkpoint is an entry with the state that all entries before it lead to. Reading starts at the newest one, and the
content of older entries can be removed. Their names stay, with a small content: a writer that was suspended for long
would otherwise find its name free, and write an entry that counts nowhere.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from insync.lake.store import Store

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
    def __init__(self, store: Store, directory: str = "") -> None:
        self.store = store
        self.directory = directory
        self.length = 0
        self.skipped = False
        """Whether entries were skipped before the one that was loaded last, which is a checkpoint then."""
        self._last_crc = 0
        self._writer = uuid.uuid4().hex[:12]
        """In every entry: the bytes of an entry say which process wrote it."""

    @property
    def next_path(self) -> str:
        return self._describe(file_name(self.length))

    def load(self, end: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
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

    def _find_documents(self, end: int | None) -> Iterator[tuple[str, dict[str, Any]]]:
        """From the next entry on, or from the newest checkpoint if the next entry was removed or is the first."""
        for path, document in self._read_all(self._list(end)) if self.length else ():
            if _is_removed(document):
                break
            yield path, _check_sequence(path, document)
        else:
            if self.length:
                return
        yield from self._find_from_checkpoint(end)

    def _find_from_checkpoint(self, end: int | None) -> list[tuple[str, dict[str, Any]]]:
        """Read backwards up to the newest checkpoint; without one, up to the first entry."""
        while True:
            names = self._list(end)
            documents: list[tuple[str, dict[str, Any]]] = []
            for path, document in self._read_all(names[::-1]):
                if _is_removed(document):
                    break
                documents.append((path, _check_sequence(path, document)))
                if document.get("checkpoint"):
                    return documents[::-1]
            else:
                return documents[::-1]
            if self._list(end)[-1] == names[-1]:  # otherwise a checkpoint may have been added meanwhile
                raise EntryRemovedError(
                    f"{path} was removed after a checkpoint: the state before it can no longer be read; "
                    "what needs it must start again"
                )

    def _list(self, end: int | None) -> list[str]:
        since = file_name(self.length)
        names = [name for name in self.store.list_names(self.directory, since) if name.endswith(".json")]
        for number, name in enumerate(names):
            if name != file_name(self.length + number):
                missing = self._describe(file_name(self.length + number))
                raise JournalDamagedError(f"{missing} is missing: {name} comes after it")
        return names if end is None else names[: max(end - self.length, 0)]

    def _read_all(self, names: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
        contents = self.store.read_files(self._path(name) for name in names)
        for name, data in zip(names, contents, strict=True):
            yield self._describe(name), _parse(self._describe(name), data)

    def _path(self, name: str) -> str:
        return f"{self.directory}/{name}" if self.directory else name

    def _describe(self, name: str) -> str:
        return f"{self.store}/{self._path(name)}"

    def append(self, entry: Mapping[str, Any], *, required_format: int = FORMAT, checkpoint: bool = False) -> None:
        """Durable when it returns. If it raises EntryTakenError, nothing has changed."""
        document = {
            "format": required_format,
            "sequence": self.length,
            "previous": self._last_crc,
            "writer": self._writer,
            "entry": entry,
        }
        if checkpoint:
            document |= {"format": CHECKPOINT_FORMAT, "checkpoint": True}
        crc = _crc(document)
        try:
            self.store.create(self._path(file_name(self.length)), _to_bytes(document))
        except FileExistsError:
            raise EntryTakenError(
                f"{self.next_path} exists: another process is writing this journal; aborting"
            ) from None
        self.length, self._last_crc, self.skipped = self.length + 1, crc, False

    def remove_before(self, checkpoint: int) -> int:
        """Remove the content of the entries before a checkpoint, oldest first; returns of how many.

        Only entries that a checkpoint covers may be removed: readers need nothing else. After a kill at any point, the
        next call goes on.
        """
        name = file_name(checkpoint)
        ((path, document),) = self._read_all([name])
        if not document.get("checkpoint") or document["sequence"] != checkpoint:
            raise JournalDamagedError(f"{path} is not a checkpoint")
        earlier = [file_name(number) for number in range(checkpoint - 1, -1, -1)]
        names: list[str] = []
        for name, (_, document) in zip(earlier, self._read_all(earlier), strict=False):
            if _is_removed(document):
                break  # and so are all before it
            names.append(name)
        marker = {"format": CHECKPOINT_FORMAT, "sequence": -1, "previous": 0, "entry": {}, "removed": True}
        self.store.replace([self._path(name) for name in reversed(names)], _to_bytes(marker))
        return len(names)


def _is_removed(document: Mapping[str, Any]) -> bool:
    return bool(document.get("removed"))


def _check_sequence(path: str, document: dict[str, Any]) -> dict[str, Any]:
    if path.rpartition("/")[2] != file_name(document["sequence"]):
        raise JournalDamagedError(f"{path} says that it is entry {document['sequence']}")
    return document


def file_name(sequence: int) -> str:
    return f"{sequence:020d}.json"


def _to_bytes(document: Mapping[str, Any]) -> bytes:
    return (json.dumps({**document, "crc": _crc(document)}, indent=1) + "\n").encode()


def _parse(path: str, data: bytes) -> dict[str, Any]:
    try:
        document: dict[str, Any] = json.loads(data)
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
