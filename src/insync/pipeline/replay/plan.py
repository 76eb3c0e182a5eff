"""What a replay reads: for each partition, the ledger's ranges in order, cut down to the wanted offsets and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from insync.metadata import topic_names
from insync.pipeline.ledger import File, Key, Ledger, Range
from insync.pipeline.wording import when

FOREVER = (1 << 63) - 1


class ReplayError(Exception):
    """The text is meant for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which rows: offsets and times (ms) from, and up to but not including."""

    from_offset: int = 0
    to_offset: int = FOREVER
    from_time: int = -FOREVER
    to_time: int = FOREVER

    def may_have(self, file: File) -> bool:
        return (
            file.last >= self.from_offset
            and file.first < self.to_offset
            and file.newest >= self.from_time
            and file.oldest < self.to_time
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """A range of the ledger as far as it is wanted. Its files may interleave: each has the rows of one date."""

    end: int
    files: tuple[File, ...]
    rows: int
    """At most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One partition of the lake and where it goes."""

    topic: str
    partition: int
    generation: int
    target: str
    units: tuple[Unit, ...]

    @property
    def key(self) -> Key:
        return self.topic, self.partition

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    @property
    def rows(self) -> int:
        return sum(unit.rows for unit in self.units)

    def remaining(self, source: int, most: int) -> list[Unit]:
        """Units that go beyond offset `source`, enough for `most` rows if all of the first is still wanted."""
        found: list[Unit] = []
        rows = 0
        for unit in self.units:
            if unit.end <= source:
                continue
            found.append(unit)
            rows += unit.rows
            if rows >= most + found[0].rows:
                break
        return found


def check_names(targets: Mapping[str, str]) -> None:
    for name in targets.values():
        if not topic_names.is_valid(name):
            raise ReplayError(f"no topic can be called '{name}': {topic_names.RULE}")


def check_selection(selection: Selection) -> None:
    """It could have something in it."""
    if selection.from_offset >= selection.to_offset:
        offsets = f"--from-offset {selection.from_offset} is not before --to-offset {selection.to_offset}"
        raise ReplayError(f"{offsets}: there is nothing between them")
    if selection.from_time >= selection.to_time:
        times = f"--from-time {when(selection.from_time)} is not before --to-time {when(selection.to_time)}"
        raise ReplayError(f"{times}: there is nothing between them")


def sources(
    ledger: Ledger,
    targets: Mapping[str, str],
    selection: Selection,
    *,
    partitions: Sequence[int] = (),
    generation: int | None = None,
) -> list[Source]:
    known = ledger.partitions()
    for topic in targets:
        if not any(name == topic for name, _ in known):
            there = ", ".join(dict.fromkeys(name for name, _ in known)) or "nothing"
            raise ReplayError(f"topic '{topic}' is not in {ledger.lake}; there is {there}")
    found = [
        _source(ledger, key, targets[key[0]], selection, generation)
        for key in known
        if key[0] in targets and (not partitions or key[1] in partitions)
    ]
    if not found:
        raise ReplayError(f"no partition {', '.join(map(str, partitions))} of {', '.join(targets)} is in {ledger.lake}")
    return found


def _source(ledger: Ledger, key: Key, target: str, selection: Selection, generation: int | None) -> Source:
    newest = ledger.ranges(key)[-1].generation
    wanted = newest if generation is None else generation
    ranges = ledger.ranges(key, wanted)
    if not ranges:
        raise ReplayError(f"{key[0]}-{key[1]} has no generation {wanted}; its newest is {newest}")
    units = [unit for each in ranges if (unit := _unit(each, selection)).files]
    return Source(topic=key[0], partition=key[1], generation=wanted, target=target, units=tuple(units))


def _unit(each: Range, selection: Selection) -> Unit:
    files = tuple(file for file in each.files if selection.may_have(file))
    return Unit(end=min(each.end, selection.to_offset), files=files, rows=sum(_at_most(f, selection) for f in files))


def _at_most(file: File, selection: Selection) -> int:
    inside = min(file.last + 1, selection.to_offset) - max(file.first, selection.from_offset)
    return min(file.rows, inside)


def as_dict(selection: Selection) -> dict[str, Any]:
    return {
        "from_offset": selection.from_offset,
        "to_offset": selection.to_offset,
        "from_time": selection.from_time,
        "to_time": selection.to_time,
    }
