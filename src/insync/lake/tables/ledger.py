"""The ledger of an archive whose targets are tables.

There is no journal beside the tables: the commit that adds files to a table also records how far each partition is
archived. So both become visible at once, and a repeated commit would contradict what is recorded. A commit is made
against the version of the table that the state was read from. If the table has changed, the state is read again: if it
is the same, another engine has changed the table (by merging files) and the commit is repeated; if it is what this
commit was to make of it, only the answer got lost; otherwise another archiver is at work, and this one stops.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime

from insync.lake.journal import EntryTakenError
from insync.lake.ledger import RANGES, Entry, Ledger, Range
from insync.lake.store import LakeError, Store

MAX_CONFLICTS = 20
MAX_UNKNOWN = 3


class TableChangedError(Exception):
    """The table is not the one that the commit was prepared for; nothing was committed."""


class CommitUnknownError(Exception):
    """There was no answer: the commit was made, or not, or may be made later. A repetition excludes the latter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """How far a partition is archived. The fields are those of `Range`; `end` is the next offset."""

    partition: int
    generation: int
    topic_id: str
    end: int
    epoch: int
    seen: int
    at_ms: int
    """When that was committed."""


class Table(ABC):
    """A table of one topic. `data` is where the files are written before they are committed."""

    topic: str
    data: Store

    @abstractmethod
    def load(self) -> dict[int, PartitionState]:
        """The newest version's state, by partition. The next commit is made against that version."""

    @abstractmethod
    def commit(self, ranges: Sequence[Range], states: Sequence[PartitionState]) -> None:
        """Add the ranges' files and set the states of their partitions. Raises TableChangedError or
        CommitUnknownError."""


class TableLedger(Ledger):
    """As Ledger, with a range per partition: the newest."""

    def __init__(self, lake: Store, tables: Sequence[Table], create: Callable[[str], Table]) -> None:
        super().__init__(lake)
        self._create = create
        self._tables: dict[str, Table] = {}
        self._states: dict[str, dict[int, PartitionState]] = {}
        for table in tables:
            self._add(table)

    def table(self, topic: str) -> Table:
        if topic not in self._tables:
            self._add(self._create(topic))
        return self._tables[topic]

    def _add(self, table: Table) -> None:
        self._tables[table.topic] = table
        self._states[table.topic] = table.load()
        for index, state in self._states[table.topic].items():
            key = table.topic, index
            self._partitions[key] = [_to_range(table.topic, state)]
            self._committed_at[key] = datetime.fromtimestamp(state.at_ms / 1000, UTC).isoformat()

    def commit(
        self, kind: str, archiver: str, *, settings: Mapping[str, str] | None = None, ranges: Sequence[Range] = ()
    ) -> Entry:
        """Durable when it returns. The tables of several topics are committed one after the other."""
        at = datetime.now(UTC)
        entry = Entry(kind=kind, archiver=archiver, at=at.isoformat(timespec="milliseconds"), ranges=tuple(ranges))
        if kind != RANGES:
            raise LakeError(f"tables have no entries of kind '{kind}'")
        for topic in dict.fromkeys(added.topic for added in ranges):
            own = replace(entry, ranges=tuple(added for added in ranges if added.topic == topic))
            self._check(own, str(self.lake))
            self._commit_table(self.table(topic), own, int(at.timestamp() * 1000))
        return entry

    def _commit_table(self, table: Table, entry: Entry, at_ms: int) -> None:
        known = self._states[table.topic]
        states = dict(known)
        for added in entry.ranges:
            states[added.partition] = _advance(states.get(added.partition), added, at_ms)
        changed = [state for index, state in states.items() if state != known.get(index)]
        unknown = 0
        for _ in range(MAX_CONFLICTS):
            try:
                table.commit(entry.ranges, changed)
                break
            except (TableChangedError, CommitUnknownError) as error:
                stored = table.load()
                if stored == states:  # our own commit, whose answer got lost
                    break
                if stored != known:
                    raise EntryTakenError(
                        f"another archiver has written to the table of '{table.topic}': {error}"
                    ) from None
                unknown += isinstance(error, CommitUnknownError)
                if unknown == MAX_UNKNOWN:
                    raise LakeError(f"the table of '{table.topic}' cannot be committed to: {error}") from None
        else:
            raise EntryTakenError(f"the table of '{table.topic}' changed {MAX_CONFLICTS} times during a commit")
        self._states[table.topic] = states
        self._apply_ranges(entry, str(self.lake))


def _advance(before: PartitionState | None, added: Range, at_ms: int) -> PartitionState:
    """Epochs of ranges without a batch are those of the range before."""
    epoch, seen = added.epoch, added.seen
    if epoch < 0 and before is not None and before.generation == added.generation:
        epoch, seen = before.epoch, before.seen
    return PartitionState(
        partition=added.partition,
        generation=added.generation,
        topic_id=added.topic_id,
        end=added.end,
        epoch=epoch,
        seen=seen,
        at_ms=at_ms,
    )


def _to_range(topic: str, state: PartitionState) -> Range:
    """An empty range at the end: only its end counts."""
    fields = asdict(state)
    del fields["at_ms"]
    return Range(topic=topic, start=state.end, **fields)


def describe_range(added: Range) -> dict[str, object]:
    """For a commit's own properties, which show what it added."""
    fields: dict[str, object] = {
        "partition": added.partition,
        "generation": added.generation,
        "start": added.start,
        "end": added.end,
    }
    return fields | ({"lost": added.lost} if added.lost else {}) | ({"why": added.why} if added.why else {})


class TableLake:
    """What an archiver needs of a lake: `with TableLake(ledger) as lake`. Orphans are left to the table's own tools."""

    def __init__(self, ledger: TableLedger) -> None:
        self.store = ledger.lake
        self.ledger = ledger
        self.writer = uuid.uuid4().hex[:12]
        self.removed_orphans: list[str] = []

    def data_store(self, topic: str) -> Store:
        """To which the files of a topic are written."""
        return self.ledger.table(topic).data

    def close(self) -> None:
        pass

    def __enter__(self) -> TableLake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
