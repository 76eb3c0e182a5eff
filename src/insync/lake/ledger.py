"""The ledger of a lake: which offsets of which partition are in which files. Only what it names is archived.

`LAKE/_ledger/` is a journal with an entry per commit. Replaying them gives the state: for each partition, generations
of ranges. The ranges of a generation follow each other without gap or overlap. A new generation begins when the topic
was recreated, or the log truncated below what was archived: from then on its offsets mean other records.

There are two roles. The archiver adds ranges at the end (`open`, `ranges`); the compactor replaces ranges by one that
has the same offsets and the same rows in other files, or none because they expired (`compact`, `replace`). A commit
that finds entries of the other role applies them and tries again; one that finds another process in its own role gives
up (EntryTakenError), because that process may have deleted its files.

The compactor also writes checkpoints with the whole state: readers start there, and older entries can be removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from insync.client.model import TopicPartition
from insync.lake.journal import FORMAT, EntryTakenError, Journal, JournalDamagedError
from insync.lake.location import Location, open_store

DIRECTORY = "_ledger"
OPEN, RANGES = "open", "ranges"
COMPACT, REPLACE = "compact", "replace"
CHECKPOINT = "checkpoint"
COMPACTION = (COMPACT, REPLACE, CHECKPOINT)
COMPACTION_FORMAT = 2
"""Entries of the compactor mean nothing to versions that only know archivers."""


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
    expired: str = ""
    """Why its rows were removed from the lake."""

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
    """In a checkpoint, all that count."""
    state: Mapping[str, Any] = field(default_factory=dict)
    """What else a checkpoint has."""


class Ledger:
    """The state after all entries. `load` reads them; `commit` adds one, to the journal and to the state."""

    def __init__(self, lake: Location) -> None:
        self.lake = open_store(lake)
        self.settings: dict[str, str] = {}
        self._journal = Journal(self.lake, DIRECTORY)
        self._partitions: dict[TopicPartition, list[Range]] = {}
        self._committed_at: dict[TopicPartition, str] = {}
        self.replaced: dict[str, str] = {}
        """Files that no longer count, and since when."""
        self.compacted: dict[str, str] = {}
        """Files that replaced others, and since when."""
        self.checkpoints: dict[int, str] = {}
        """Numbers of the checkpoints that were read, and since when."""
        self._last_entries: dict[str, int] = {}
        """By role: the number of its last entry."""

    @staticmethod
    def load(lake: Location, entries: int | None = None) -> Ledger:
        ledger = Ledger(lake)
        ledger.refresh(entries)
        return ledger

    def refresh(self, entries: int | None = None) -> list[Entry]:
        """Apply the entries that others have added, up to `entries` in all, and return them.

        If some of them were removed, the checkpoint that covers them stands for them.
        """
        added = []
        for path, body in self._journal.load(entries):
            try:
                entry = _parse_entry(body)
                self._apply(entry, path, self._journal.length - 1)
            except (KeyError, TypeError, ValueError) as error:
                raise JournalDamagedError(f"{path} cannot be read: {type(error).__name__}: {error}") from None
            added.append(entry)
        return added

    @property
    def entries(self) -> int:
        return self._journal.length

    @property
    def entries_since_checkpoint(self) -> int:
        return self.entries - max(self.checkpoints, default=-1) - 1

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
        return _to_seconds(self._committed_at[key]) if key in self._committed_at else 0.0

    def files(self) -> dict[str, File]:
        return {file.path: file for archived in self.ranges() for file in archived.files}

    # --- changes -----------------------------------------------------------------------------------------------------

    def commit(
        self, kind: str, archiver: str, *, settings: Mapping[str, str] | None = None, ranges: Sequence[Range] = ()
    ) -> Entry:
        """Durable when it returns. After an EntryTakenError it is not written: another process has taken the role."""

        def make_entry(at: str) -> Entry:
            return Entry(kind=kind, archiver=archiver, at=at, settings=dict(settings or {}), ranges=tuple(ranges))

        return self._commit(make_entry)

    def commit_checkpoint(self, archiver: str, forgotten: Collection[str] = ()) -> Entry:
        """As `commit`, an entry with the whole state, for the compactor. `replaced` and `compacted` lose the files in
        `forgotten`: those with which nothing has to be done any more."""

        def make_entry(at: str) -> Entry:
            return self._make_checkpoint(archiver, at, forgotten)

        return self._commit(make_entry)

    def _commit(self, make_entry: Callable[[str], Entry]) -> Entry:
        while True:
            entry = make_entry(datetime.now(UTC).isoformat(timespec="milliseconds"))
            path, number = self._journal.next_path, self._journal.length
            self._check(entry, path)
            try:
                self._journal.append(
                    _to_dict(entry),
                    required_format=COMPACTION_FORMAT if entry.kind in COMPACTION else FORMAT,
                    checkpoint=entry.kind == CHECKPOINT,
                )
            except EntryTakenError:
                if not self.refresh() or self._last_entries.get(_role_of(entry), -1) >= number:
                    raise
            else:
                self._apply(entry, path, number)
                return entry

    def remove_entries(self, older_than_s: float, *, now_s: float | None = None) -> int:
        """Remove the content of the entries before the newest checkpoint that is so old; returns of how many.

        Only the compactor calls it. The states since that checkpoint can still be read.
        """
        now = time.time() if now_s is None else now_s
        old = [number for number, at in self.checkpoints.items() if now - _to_seconds(at) >= older_than_s]
        if not old:
            return 0
        removed = self._journal.remove_before(max(old))
        self.checkpoints = {number: at for number, at in self.checkpoints.items() if number >= max(old)}
        return removed

    def _make_checkpoint(self, archiver: str, at: str, forgotten: Collection[str]) -> Entry:
        times = [[*key, committed_at] for key, committed_at in sorted(self._committed_at.items())]
        state = {
            "committed_at": times,
            "replaced": {path: since for path, since in self.replaced.items() if path not in forgotten},
            "compacted": {path: since for path, since in self.compacted.items() if path not in forgotten},
            "checkpoints": [[number, since] for number, since in self.checkpoints.items()],
            "last_entries": dict(self._last_entries),
        }
        return Entry(
            kind=CHECKPOINT,
            archiver=archiver,
            at=at,
            settings=dict(self.settings),
            ranges=tuple(self.ranges()),
            state=state,
        )

    def _check(self, entry: Entry, path: str) -> None:
        """Raise, with nothing changed, if the entry cannot be applied."""
        if entry.kind == CHECKPOINT:
            return
        changed = {added.key: list(self._partitions.get(added.key, ())) for added in entry.ranges}
        for added in entry.ranges:
            _change_ranges(changed[added.key], entry.kind, added, path)

    def _apply(self, entry: Entry, path: str, number: int) -> None:
        if entry.kind == CHECKPOINT:
            self._apply_checkpoint(entry, path, number)
        else:
            self._apply_ranges(entry, path)
        self.settings |= entry.settings
        self._last_entries[_role_of(entry)] = number

    def _apply_ranges(self, entry: Entry, path: str) -> None:
        for added in entry.ranges:
            before = _change_ranges(self._partitions.setdefault(added.key, []), entry.kind, added, path)
            if entry.kind == REPLACE:
                self.compacted |= {file.path: entry.at for file in added.files}
                self.replaced |= {file.path: entry.at for old in before for file in old.files}
            else:
                self._committed_at[added.key] = entry.at

    def _apply_checkpoint(self, entry: Entry, path: str, number: int) -> None:
        """Take over its state. If no entry was skipped, its ranges must be those that the entries lead to."""
        partitions: dict[TopicPartition, list[Range]] = {}
        for archived in entry.ranges:
            _append_range(partitions.setdefault(archived.key, []), archived, path)
        if not self._journal.skipped and partitions != {key: known for key, known in self._partitions.items() if known}:
            raise JournalDamagedError(f"{path} is a checkpoint that does not agree with the entries before it")
        state = entry.state
        self._partitions = partitions
        self._committed_at = {(topic, partition): at for topic, partition, at in state["committed_at"]}
        self.replaced = dict(state["replaced"])
        self.compacted = dict(state["compacted"])
        self.checkpoints = dict(state["checkpoints"]) | {number: entry.at}
        self._last_entries = dict(state["last_entries"])


def _role_of(entry: Entry) -> str:
    return "compactor" if entry.kind in COMPACTION else "archiver"


def _to_seconds(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()


def _change_ranges(ranges: list[Range], kind: str, added: Range, path: str) -> list[Range]:
    """Append to a partition's ranges or replace some of them, and return the replaced ones."""
    if kind == REPLACE:
        return _replace_ranges(ranges, added, path)
    _append_range(ranges, added, path)
    return []


def _replace_ranges(ranges: list[Range], merged: Range, path: str) -> list[Range]:
    where = f"{path}: {merged.topic}-{merged.partition} offsets {merged.start} to {merged.end}"
    _check_range(merged, where)
    own = [i for i, archived in enumerate(ranges) if archived.generation == merged.generation]
    first = next((i for i in own if ranges[i].start == merged.start), None)
    last = next((i for i in own if ranges[i].end == merged.end), None)
    if first is None or last is None or last < first:
        raise JournalDamagedError(f"{where} are to replace ranges, but none begins and ends there")
    old = ranges[first : last + 1]
    if any(archived.topic_id != merged.topic_id or archived.lost for archived in old) or merged.lost:
        raise JournalDamagedError(f"{where} are to replace ranges of another topic id, or lost ones")
    rows = sum(archived.rows for archived in old)
    if not merged.expired and (merged.rows != rows or any(archived.expired for archived in old)):
        raise JournalDamagedError(f"{where}: {merged.rows} rows are to replace {rows}")
    ranges[first : last + 1] = [merged]
    return old


def _append_range(ranges: list[Range], added: Range, path: str) -> None:
    """Append to a partition's ranges; raises if that would leave a gap or an overlap."""
    where = f"{path}: {added.topic}-{added.partition} offsets {added.start} to {added.end}"
    _check_range(added, where)
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


def _check_range(added: Range, where: str) -> None:
    without_files = bool(added.lost or added.expired)
    if added.end <= added.start or (added.rows and not added.files) or (without_files and added.files):
        raise JournalDamagedError(f"{where} are not a valid range")
    if added.rows != sum(file.rows for file in added.files) or added.rows > added.end - added.start:
        raise JournalDamagedError(f"{where}: {added.rows} rows do not match its files, or are more than its offsets")


def _to_dict(entry: Entry) -> dict[str, Any]:
    """Without `expired` and `state` where they are empty, so that versions that do not know them can read the entry."""
    fields = asdict(entry)
    if not entry.state:
        del fields["state"]
    for archived in fields["ranges"]:
        if not archived["expired"]:
            del archived["expired"]
    return fields


def _parse_entry(body: Mapping[str, Any]) -> Entry:
    ranges = tuple(
        Range(**{**fields, "files": tuple(File(**file) for file in fields["files"])}) for fields in body["ranges"]
    )
    return Entry(**{**body, "ranges": ranges})
