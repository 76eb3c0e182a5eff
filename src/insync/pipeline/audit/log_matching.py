"""Log Matching where digests differ: compares the batches of a stretch on all replicas, with the property's predicate.

The batch that most replicas hold at an offset counts as the committed one. Below a high watermark there are no holes
(S9), so a replica without a batch there has no vote. If there is a tie, the most credible replica decides. Each replica
is compared up to its own high watermark, or if that is lost, up to its end; findings name the batches that differ, and
the records in them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from insync.logdir import indexes
from insync.logdir.chunks import Chunk, has_batch_at, read_chunks
from insync.logdir.files import NO_LIMIT, Segment
from insync.logdir.indexes import EMPTY, IndexFileError
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import Finding
from insync.properties import log_matching
from insync.properties.committed_log import CommittedLog
from insync.properties.history import Fingerprint
from insync.wire import batch
from insync.wire.errors import MalformedBatchError

MAX_DIFFERENCES = 100
"""Of one replica in one stretch."""


@dataclass(frozen=True)
class Member:
    """One replica's part in a stretch."""

    broker: int
    hwm: int
    segments: tuple[Segment, ...]
    """That may overlap the stretch, in order."""
    own_hwm: bool = True
    """Whether `hwm` is the replica's own: then its log must reach it."""
    explained: tuple[tuple[int, int], ...] = ()
    """Offsets, from and up to, that have a finding already: differences there are not reported again."""
    excluded: tuple[tuple[str, int], ...] = ()
    """File and position of batches that do not belong where they are."""
    damaged: tuple[tuple[str, int, int], ...] = ()
    """File and positions, from and up to, of bytes that are not batches."""


@dataclass(frozen=True)
class Stretch:
    topic: str
    partition: int
    start: int
    end: int
    members: tuple[Member, ...]
    """Most credible first."""


def compare_stretch(stretch: Stretch) -> list[Finding]:
    views = [_View(member, stretch.start, stretch.end) for member in stretch.members]
    committed = _CommittedBatches(stretch.start, views)
    return [
        finding for view in views for finding in islice(_list_differences(stretch, committed, view), MAX_DIFFERENCES)
    ]


class _View:
    """One replica's batches in a stretch, in the form that `CommittedLog` expects of a log."""

    truncation_count = 0

    def __init__(self, member: Member, start: int, end: int) -> None:
        self.member = member
        self.log_start = start
        self.batches: list[Fingerprint] = []
        self.places: dict[int, tuple[str, int]] = {}
        """By base offset: file and position."""
        for segment in member.segments:
            self._read(segment, start, min(end, member.hwm))
        self.batches = list(_without_overlaps(self.batches))
        self._bases = [batch.base_offset for batch in self.batches]
        self.leo = self.batches[-1].last_offset + 1 if self.batches else start

    def _read(self, segment: Segment, start: int, end: int) -> None:
        try:
            index = indexes.read_offset_index(segment.stem, segment.base)
        except (IndexFileError, OSError):
            index = EMPTY
        position = index.floor(start, 0)
        if not has_batch_at(segment.path, position, segment.base, start):
            position = 0
        edges = [edge for file, *edges in self.member.damaged if file == segment.path for edge in edges]
        for low, high in zip([0, *edges[1::2]], [*edges[::2], None], strict=True):
            if high is None or high > position:
                self._read_part(segment, max(low, position), high, start, end)

    def _read_part(self, segment: Segment, low: int, high: int | None, start: int, end: int) -> None:
        for piece in read_chunks(segment.path, low, high):
            if not isinstance(piece, Chunk) or (piece.headers.base_offset[0] >= end and not self.member.excluded):
                return
            headers = piece.headers.select((piece.headers.base_offset >= start) & (piece.headers.last_offset < end))
            columns = (headers.base_offset, headers.last_offset, headers.leader_epoch, headers.crc)
            for position, *fields in zip(
                headers.position.tolist(), *(column.tolist() for column in columns), strict=True
            ):
                place = (segment.path, piece.position + position)
                if place not in self.member.excluded and not self.is_explained(fields[0]):
                    self.batches.append(Fingerprint(*fields))
                    self.places.setdefault(fields[0], place)

    def is_explained(self, offset: int) -> bool:
        return self.explained_end(offset) > offset

    def explained_end(self, offset: int) -> int:
        """Where the explained range that holds `offset` ends; `offset` if there is none."""
        return max((end for start, end in self.member.explained if start <= offset < end), default=offset)

    def iter_headers(self, from_offset: int, to_offset: int) -> Iterator[Fingerprint]:
        return (batch for batch in self.batches if batch.last_offset >= from_offset and batch.base_offset < to_offset)

    def at(self, offset: int) -> Fingerprint | None:
        place = bisect_left(self._bases, offset + 1) - 1
        return self.batches[place] if place >= 0 and self.batches[place].last_offset >= offset else None

    def following(self, offset: int) -> Fingerprint | None:
        """The first batch that begins at or after `offset`."""
        place = bisect_left(self._bases, offset)
        return self.batches[place] if place < len(self.batches) else None

    def place(self, offset: int) -> tuple[str, int | None]:
        held = self.at(offset)
        if held is not None:
            return self.places[held.base_offset]
        return (self.member.segments[-1].path if self.member.segments else ""), None

    def read_batch(self, offset: int) -> bytes:
        held = self.at(offset)
        if held is None:
            return b""
        path, position = self.places[held.base_offset]
        with open(path, "rb") as file:
            file.seek(position)
            head = file.read(12)
            return head + file.read(int.from_bytes(head[8:12], "big"))


def _without_overlaps(batches: list[Fingerprint]) -> Iterator[Fingerprint]:
    """In the order of offsets, each offset once: wrong order and copies are findings of their own."""
    end = -1
    for held in sorted(batches, key=lambda held: held.base_offset):
        if held.base_offset >= end:
            yield held
            end = held.last_offset + 1


class _CommittedBatches:
    """The committed log that the replicas agree on, and for each batch a replica that holds it."""

    def __init__(self, start: int, views: Sequence[_View]) -> None:
        self.log = CommittedLog(start, keep=sum(len(view.batches) for view in views) + 1)
        self._holders: dict[int, _View] = {}
        offset = start
        while (chosen := _choose_next(views, offset)) is not None:
            batch, self._holders[chosen[0].base_offset] = chosen
            self.log.extend(batch, 0)
            offset = batch.last_offset + 1

    def find_hole_end(self, offset: int) -> int:
        """Where the next batch begins after a hole that all replicas have."""
        return next((batch.base_offset for batch in self.log.batches if batch.base_offset > offset), self.log.end)

    def at(self, offset: int) -> tuple[Fingerprint, _View] | None:
        held = self.log.at(offset)
        return None if held is None else (held, self._holders[held.base_offset])


def _choose_next(views: Sequence[_View], offset: int) -> tuple[Fingerprint, _View] | None:
    """The next batch that most replicas hold, and the first replica that holds it."""
    following = [(batch, view) for view in views if (batch := view.following(offset)) is not None]
    if not following:
        return None
    first = min(batch.base_offset for batch, _ in following)
    votes = Counter(batch for batch, _ in following if batch.base_offset == first)
    most = max(votes.values())
    return next((batch, view) for batch, view in following if votes[batch] == most)


def _list_differences(stretch: Stretch, committed: _CommittedBatches, view: _View) -> Iterator[Finding]:
    hwm = min(view.member.hwm, stretch.end)
    if not view.member.own_hwm:
        hwm = min(hwm, view.leo)
    known = stretch.start
    while True:
        known = max(known, committed.log.verified(view, known))
        if log_matching.check(view.member.broker, known, hwm, committed.log.end) is None:
            return
        held, expected = view.at(known), committed.at(known)
        if view.is_explained(known):
            known = view.explained_end(known)
        elif held is None and expected is None:
            known = committed.find_hole_end(known)
        elif held is None:
            after = view.following(known)
            end = min(hwm, committed.log.end, NO_LIMIT if after is None else after.base_offset)
            end = min(end, *(start for start, _ in view.member.explained if start > known), NO_LIMIT)
            yield _missing(stretch, committed, view, known, end)
            known = end
        else:
            yield _difference(stretch, committed, view, known)
            known = max(batch.last_offset for batch in (held, *(expected or ())[:1])) + 1


def _missing(stretch: Stretch, committed: _CommittedBatches, view: _View, offset: int, end: int) -> Finding:
    expected = committed.at(offset)
    if expected is None:
        return _finding(stretch, view, offset, f"holds nothing up to {end - 1}")
    batch, holder = expected
    more = f" and more, up to {end - 1}" if batch.last_offset + 1 < end else ""
    return _finding(stretch, view, offset, f"holds nothing, broker {holder.member.broker} holds {batch}{more}")


def _difference(stretch: Stretch, committed: _CommittedBatches, view: _View, offset: int) -> Finding:
    held, expected = view.at(offset), committed.at(offset)
    if expected is None:
        return _finding(stretch, view, offset, f"holds {held}, the others hold nothing")
    batch, holder = expected
    records = _describe_records(holder.read_batch(offset), view.read_batch(offset))
    return _finding(stretch, view, offset, f"holds {held}, broker {holder.member.broker} holds {batch}{records}")


def _finding(stretch: Stretch, view: _View, offset: int, detail: str) -> Finding:
    where = (view.member.broker, stretch.topic, stretch.partition, offset, *view.place(offset))
    return Finding(kinds.DIVERGED, log_matching.PROPERTY.id, *where, detail)


def _describe_records(expected: bytes, held: bytes) -> str:
    """At which offsets the records of two batches differ."""
    try:
        ours, theirs = (
            {record.offset: record for record in batch.records(data)} if data else {} for data in (expected, held)
        )
    except MalformedBatchError:
        return ""
    offsets = sorted(ours.keys() | theirs.keys())
    different = [
        at for at in offsets if at not in ours or at not in theirs or _content(ours[at]) != _content(theirs[at])
    ]
    if not different or not expected or not held:
        return ""
    return f"; different records at {', '.join(map(str, different[:10]))}{' ...' if len(different) > 10 else ''}"


def _content(record: batch.Record) -> tuple[object, ...]:
    return (record.key, record.value, record.timestamp_ms, tuple(record.headers))
