"""What a replay reads: each partition's ranges in the ledger, in order, limited to the selected offsets and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from insync.client.model import TopicPartition
from insync.lake.ledger import File, Ledger, Range
from insync.lake.reader import Selection, Unit
from insync.metadata import topic_names
from insync.pipeline.text import format_time


class ReplayError(Exception):
    """A replay cannot start or go on; the text says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcePartition:
    """A partition of the lake, and the topic it goes to."""

    topic: str
    partition: int
    generation: int
    target: str
    units: tuple[Unit, ...]
    end: int
    """Offsets from here on are not selected."""

    @property
    def key(self) -> TopicPartition:
        return self.topic, self.partition

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def rows(self) -> int:
        return sum(unit.rows for unit in self.units)

    def remaining(self, start: int, max_rows: int) -> list[Unit]:
        """Units from offset `start` on, enough for `max_rows` rows even if nothing of the first one is left."""
        units: list[Unit] = []
        rows = 0
        for unit in self.units:
            if unit.end <= start:
                continue
            units.append(unit)
            rows += unit.rows
            if rows >= max_rows + units[0].rows:
                break
        return units


def check_names(targets: Mapping[str, str]) -> None:
    for name in targets.values():
        if not topic_names.is_valid(name):
            raise ReplayError(f"'{name}' is not a valid topic name: {topic_names.RULE}")


def check_selection(selection: Selection) -> None:
    """Raise if no row can match."""
    if selection.from_offset >= selection.to_offset:
        offsets = f"--from-offset {selection.from_offset} is not before --to-offset {selection.to_offset}"
        raise ReplayError(f"{offsets}: nothing is selected")
    if selection.from_time >= selection.to_time:
        times = (
            f"--from-time {format_time(selection.from_time)} is not before --to-time {format_time(selection.to_time)}"
        )
        raise ReplayError(f"{times}: nothing is selected")


def plan_sources(
    ledger: Ledger,
    targets: Mapping[str, str],
    selection: Selection,
    *,
    partitions: Sequence[int] = (),
    generation: int | None = None,
    began: Ledger | None = None,
) -> list[SourcePartition]:
    """`began`: the ledger when the replay began. What was archived later is not part of it; the files are those that
    count now, because a compaction may have replaced those of then."""
    known = (began or ledger).partitions()
    for topic in targets:
        if not any(name == topic for name, _ in known):
            names = ", ".join(dict.fromkeys(name for name, _ in known)) or "nothing"
            raise ReplayError(f"topic '{topic}' is not in {ledger.lake}, which has {names}")
    sources = [
        _plan_source(ledger, key, targets[key[0]], selection, generation, began or ledger)
        for key in known
        if key[0] in targets and (not partitions or key[1] in partitions)
    ]
    if not sources:
        raise ReplayError(f"no partition {', '.join(map(str, partitions))} of {', '.join(targets)} is in {ledger.lake}")
    return sources


def _plan_source(
    ledger: Ledger, key: TopicPartition, target: str, selection: Selection, generation: int | None, began: Ledger
) -> SourcePartition:
    newest = began.ranges(key)[-1].generation
    generation = newest if generation is None else generation
    ranges = ledger.ranges(key, generation)
    if not ranges:
        raise ReplayError(f"{key[0]}-{key[1]} has no generation {generation}; its newest is {newest}")
    end = min(selection.to_offset, began.ranges(key, generation)[-1].end)
    units = [unit for archived in ranges if (unit := _make_unit(archived, replace(selection, to_offset=end))).files]
    return SourcePartition(
        topic=key[0], partition=key[1], generation=generation, target=target, units=tuple(units), end=end
    )


def find_expired(ledger: Ledger, began: Ledger, source: SourcePartition, position: int) -> Range | None:
    """A range from `position` on whose rows were removed from the lake after the replay began."""
    had_rows = [archived for archived in began.ranges(source.key, source.generation) if archived.files]
    return next(
        (
            archived
            for archived in ledger.ranges(source.key, source.generation)
            if archived.expired
            and archived.end > position
            and any(before.start < archived.end and before.end > max(position, archived.start) for before in had_rows)
        ),
        None,
    )


def _make_unit(archived: Range, selection: Selection) -> Unit:
    files = tuple(file for file in archived.files if selection.may_match(file))
    rows = sum(_max_rows(file, selection) for file in files)
    return Unit(end=min(archived.end, selection.to_offset), files=files, rows=rows)


def _max_rows(file: File, selection: Selection) -> int:
    inside = min(file.last + 1, selection.to_offset) - max(file.first, selection.from_offset)
    return min(file.rows, inside)
