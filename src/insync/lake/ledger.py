"""The ledger of a lake: which offsets of which partition are in which files. Only what it names is archived.

`LAKE/_ledger/` is a journal with an entry per commit. Replaying them gives the state: for each partition, generations
of ranges. The ranges of a generation follow each other without gap or overlap. A new generation begins when the topic
was recreated, or the log truncated below what was archived: from then on its offsets mean other records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from insync.client.model import TopicPartition
from insync.lake.journal import Journal, JournalDamagedError

DIRECTORY = "_ledger"
OPEN, RANGES = "open", "ranges"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """One Parquet file."""

    path: str
    """Inside the lake."""
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
    """The offsets from `start` up to, but not including, `end`: in `files`, or lost.

    There may be fewer rows than offsets: transaction markers, aborted and compacted records leave holes.
    """

    topic: str
    topic_id: str
    partition: int
    generation: int
    start: int
    end: int
    rows: int = 0
    epoch: int = -1
    """Leader epoch of the last batch in the range, transaction markers included; -1 if there was none."""
    seen: int = -1
    """One past that batch's last offset, at most `end`: how far the log reached in that epoch."""
    files: tuple[File, ...] = ()
    lost: str = ""
    """Why the range is lost."""
    why: str = ""
    """In the first range of a generation: why it began."""

    @property
    def key(self) -> TopicPartition:
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
    """The state after all entries. `load` reads them; `commit` adds one, to the journal and to the state."""

    def __init__(self, lake: Path) -> None:
        self.lake = lake
        self.settings: dict[str, str] = {}
        self._journal = Journal(lake / DIRECTORY)
        self._partitions: dict[TopicPartition, list[Range]] = {}
        self._committed_at: dict[TopicPartition, str] = {}

    @staticmethod
    def load(lake: Path, entries: int | None = None) -> Ledger:
        ledger = Ledger(lake)
        for path, body in islice(ledger._journal.load(), entries):
            try:
                entry = _parse_entry(body)
            except (KeyError, TypeError) as error:
                raise JournalDamagedError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
            ledger._apply(entry, path)
        return ledger

    @property
    def entries(self) -> int:
        return self._journal.length

    @property
    def directory(self) -> Path:
        return self._journal.directory

    # --- queries -----------------------------------------------------------------------------------------------------

    def ranges(self, key: TopicPartition | None = None, generation: int | None = None) -> list[Range]:
        """By partition, generation and offset."""
        keys = sorted(self._partitions) if key is None else [key]
        return [
            archived
            for key in keys
            for archived in self._partitions.get(key, ())
            if generation is None or archived.generation == generation
        ]

    def partitions(self) -> list[TopicPartition]:
        return sorted(self._partitions)

    def last(self, key: TopicPartition) -> Range | None:
        ranges = self._partitions.get(key)
        return ranges[-1] if ranges else None

    def last_ranges(self) -> list[Range]:
        """The last range of each partition."""
        return [ranges[-1] for ranges in self._partitions.values()]

    def last_seen(self, key: TopicPartition) -> tuple[int, int]:
        """(epoch, seen) of the last range of the current generation that has them; otherwise (-1, -1)."""
        ranges = self._partitions.get(key, [])
        for archived in reversed(ranges):
            if archived.generation != ranges[-1].generation:
                break
            if archived.epoch >= 0:
                return archived.epoch, archived.seen
        return -1, -1

    def committed_at_s(self, key: TopicPartition) -> float:
        """When the last range of a partition was added, in seconds since 1970; 0 if there is none."""
        return datetime.fromisoformat(self._committed_at[key]).timestamp() if key in self._committed_at else 0.0

    def files(self) -> dict[str, File]:
        return {file.path: file for archived in self.ranges() for file in archived.files}

    # --- changes -----------------------------------------------------------------------------------------------------

    def commit(
        self, kind: str, archiver: str, *, settings: Mapping[str, str] | None = None, ranges: Sequence[Range] = ()
    ) -> Entry:
        """Durable when it returns. After an EntryTakenError nothing has changed: another archiver was faster."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = Entry(kind=kind, archiver=archiver, at=at, settings=dict(settings or {}), ranges=tuple(ranges))
        path = self._journal.next_path
        ends = {added.key: self._partitions.get(added.key, [])[-1:] for added in ranges}
        for added in ranges:
            _append_range(ends[added.key], added, path)
        self._journal.append(asdict(entry))
        self._apply(entry, path)
        return entry

    def _apply(self, entry: Entry, path: Path) -> None:
        for added in entry.ranges:
            _append_range(self._partitions.setdefault(added.key, []), added, path)
            self._committed_at[added.key] = entry.at
        self.settings |= entry.settings


def _append_range(ranges: list[Range], added: Range, path: Path) -> None:
    """Append to a partition's ranges; raises if that would leave a gap or an overlap."""
    where = f"{path}: {added.topic}-{added.partition} offsets {added.start} to {added.end}"
    if added.end <= added.start or (added.rows and not added.files) or (added.lost and added.files):
        raise JournalDamagedError(f"{where} are not a valid range")
    if added.rows != sum(file.rows for file in added.files) or added.rows > added.end - added.start:
        raise JournalDamagedError(f"{where}: {added.rows} rows do not match its files, or are more than its offsets")
    last = ranges[-1] if ranges else None
    if last is None or added.generation != last.generation:
        if added.generation != (0 if last is None else last.generation + 1):
            raise JournalDamagedError(f"{where}: generation {added.generation} is not the next one")
    elif added.topic_id != last.topic_id:
        raise JournalDamagedError(f"{where}: another topic id without a new generation")
    elif added.start != last.end:
        what = "a gap" if added.start > last.end else "an overlap"
        raise JournalDamagedError(f"{where}: {what}, the range before it ends at {last.end}")
    ranges.append(added)


def _parse_entry(body: Mapping[str, Any]) -> Entry:
    ranges = tuple(
        Range(**{**fields, "files": tuple(File(**file) for file in fields["files"])}) for fields in body["ranges"]
    )
    return Entry(**{**body, "ranges": ranges})
