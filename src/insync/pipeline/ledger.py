"""The ledger of a lake: which offsets of which partition are in which files. Who reads the lake believes it alone.

`LAKE/_ledger/` is a journal: an entry for each commit. Replaying all of them gives the state: for each partition,
generations of ranges. A generation's ranges follow each other without gap and overlap; the next generation begins when
the topic was deleted and made anew, or when the log was cut back below what was archived, so that its offsets start to
mean other records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from insync.pipeline.journal import Damaged, Journal

DIRECTORY = "_ledger"
OPEN, RANGES = "open", "ranges"

Key = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One Parquet file, by its path inside the lake."""

    path: str
    rows: int
    bytes: int
    crc: int
    first: int
    last: int
    """Offsets of its first and last row."""
    oldest: int
    newest: int
    """Timestamps of its rows, in ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """The offsets from `start` up to, not including, `end`: in `files`, or lost for a reason.

    Rows may be fewer than offsets: markers of transactions, aborted records and compacted ones leave holes.
    """

    topic: str
    topic_id: str
    partition: int
    generation: int
    start: int
    end: int
    rows: int = 0
    epoch: int = -1
    """Leader epoch of the last batch that was seen, markers of transactions included; -1 if there was none."""
    seen: int = -1
    """One past that batch's last offset, or `end`: how far the log is known to have reached in that epoch."""
    files: tuple[File, ...] = ()
    lost: str = ""
    why: str = ""
    """Of a generation's first range: why it began."""

    @property
    def key(self) -> Key:
        return self.topic, self.partition

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    kind: str
    archiver: str
    at: str
    settings: Mapping[str, str] = field(default_factory=dict)
    ranges: tuple[Range, ...] = ()


class Ledger:
    """What the entries say together. `load` only reads; `commit` adds an entry to the files and to the state."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.settings: dict[str, str] = {}
        self._journal = Journal(lake / DIRECTORY)
        self._partitions: dict[Key, list[Range]] = {}

    @staticmethod
    def load(lake: Path, entries: int | None = None) -> Ledger:
        ledger = Ledger(lake)
        for path, body in islice(ledger._journal.load(), entries):
            try:
                entry = _entry(body)
            except (KeyError, TypeError) as error:
                raise Damaged(f"{path} cannot be read: {type(error).__name__}: {error}") from None
            ledger._adopt(entry, path)
        return ledger

    @property
    def entries(self) -> int:
        return self._journal.length

    @property
    def directory(self) -> Path:
        return self._journal.directory

    # --- what it says ------------------------------------------------------------------------------------------------

    def ranges(self, key: Key | None = None, generation: int | None = None) -> list[Range]:
        """In the order of the offsets, generation after generation."""
        keys = sorted(self._partitions) if key is None else [key] if key in self._partitions else []
        found = [each for one in keys for each in self._partitions[one]]
        return found if generation is None else [each for each in found if each.generation == generation]

    def partitions(self) -> list[Key]:
        return sorted(self._partitions)

    def last(self, key: Key) -> Range | None:
        found = self._partitions.get(key)
        return found[-1] if found else None

    def newest(self) -> list[Range]:
        """The last one of each partition."""
        return [found[-1] for found in self._partitions.values()]

    def last_seen(self, key: Key) -> tuple[int, int]:
        """(epoch, seen) of the newest range that has them, in the generation that is being written; else (-1, -1)."""
        found = self._partitions.get(key, [])
        for each in reversed(found):
            if each.generation != found[-1].generation:
                break
            if each.epoch >= 0:
                return each.epoch, each.seen
        return -1, -1

    def files(self) -> dict[str, File]:
        return {file.path: file for each in self.ranges() for file in each.files}

    # --- changing it -------------------------------------------------------------------------------------------------

    def commit(
        self, kind: str, archiver: str, *, settings: Mapping[str, str] | None = None, ranges: Sequence[Range] = ()
    ) -> Entry:
        """Durable when it returns. `Taken` if somebody else was faster: then nothing has happened."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = Entry(kind=kind, archiver=archiver, at=at, settings=dict(settings or {}), ranges=tuple(ranges))
        path = self._journal.next_path
        ends = {each.key: self._partitions.get(each.key, [])[-1:] for each in ranges}
        for each in ranges:
            _continue(ends[each.key], each, path)
        self._journal.append(asdict(entry))
        self._adopt(entry, path)
        return entry

    def _adopt(self, entry: Entry, path: Path) -> None:
        for each in entry.ranges:
            _continue(self._partitions.setdefault(each.key, []), each, path)
        self.settings |= entry.settings


def _continue(before: list[Range], each: Range, path: Path) -> None:
    """No gap, no overlap."""
    where = f"{path}: {each.topic}-{each.partition} offsets {each.start} to {each.end}"
    if each.end <= each.start or (each.rows and not each.files) or (each.lost and each.files):
        raise Damaged(f"{where} make no sense")
    if each.rows != sum(file.rows for file in each.files) or each.rows > each.end - each.start:
        raise Damaged(f"{where}: {each.rows} rows are not what its files have, or more than its offsets")
    last = before[-1] if before else None
    if last is None or each.generation != last.generation:
        if each.generation != (0 if last is None else last.generation + 1):
            raise Damaged(f"{where}: generation {each.generation} does not come next")
    elif each.topic_id != last.topic_id:
        raise Damaged(f"{where}: another topic id without a new generation")
    elif each.start != last.end:
        what = "a gap" if each.start > last.end else "an overlap"
        raise Damaged(f"{where}: {what}, the range before it ends at {last.end}")
    before.append(each)


def _entry(body: Mapping[str, Any]) -> Entry:
    ranges = tuple(Range(**{**each, "files": tuple(File(**file) for file in each["files"])}) for each in body["ranges"])
    return Entry(**{**body, "ranges": ranges})


__all__ = ["DIRECTORY", "OPEN", "RANGES", "Entry", "File", "Ledger", "Range"]
