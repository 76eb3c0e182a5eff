"""Log Matching where digests differ: the batches of one stretch on all its replicas, by the property's own predicate.

What most of those hold who hold anything at an offset stands for the committed log: below a high watermark there are no
holes (S9), so that holding nothing is no opinion. Where as many hold the one as the other, the most credible replica
decides. Each is held against that up to its own high watermark, and each batch that differs is named, and which of its
records do. A replica whose high watermark is lost is held to what it has.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from insync.logdir import indexes
from insync.logdir.chunks import Chunk, read_chunks
from insync.logdir.files import NO_LIMIT, Segment
from insync.logdir.indexes import EMPTY, IndexFileError
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import Finding
from insync.properties import log_matching
from insync.properties.committed_log import CommittedLog
from insync.properties.history import Fingerprint
from insync.wire import batch
from insync.wire.errors import MalformedBatchError

MOST_DIFFERENCES = 100
"""Of one replica in one stretch."""


@dataclass(frozen=True)
class Member:
    """One replica's part in a stretch."""

    broker: int
    hwm: int
    segments: tuple[Segment, ...]
    """Those that may hold something of it, in order."""
    marked: bool = True
    """Whether the high watermark is its own, so that the log must reach it."""


@dataclass(frozen=True)
class Stretch:
    topic: str
    partition: int
    start: int
    end: int
    members: tuple[Member, ...]
    """The most credible first."""


def compare(stretch: Stretch) -> list[Finding]:
    views = [_View(member, stretch.start, stretch.end) for member in stretch.members]
    truth = _Truth(stretch.start, views)
    found: list[Finding] = []
    for view in views:
        found += islice(_differences(stretch, truth, view), MOST_DIFFERENCES)
    return found


class _View:
    """One replica's batches in a stretch, as `CommittedLog` wants to see a log."""

    truncation_count = 0

    def __init__(self, member: Member, start: int, end: int) -> None:
        self.member = member
        self.log_start = start
        self.batches: list[Fingerprint] = []
        self.places: dict[int, tuple[str, int]] = {}
        """By base offset: file and position."""
        for segment in member.segments:
            self._read(segment, start, min(end, member.hwm))
        self.batches.sort(key=lambda each: each.base_offset)  # a file that is out of order is a finding of its own
        self._bases = [each.base_offset for each in self.batches]
        self.leo = self.batches[-1].last_offset + 1 if self.batches else start

    def _read(self, segment: Segment, start: int, end: int) -> None:
        try:
            index = indexes.read_offset_index(segment.stem, segment.base)
        except IndexFileError:
            index = EMPTY
        for piece in read_chunks(segment.path, index.floor(start, 0)):
            if not isinstance(piece, Chunk) or piece.headers.base_offset[0] >= end:
                return
            headers = piece.headers.select((piece.headers.base_offset >= start) & (piece.headers.last_offset < end))
            columns = (headers.base_offset, headers.last_offset, headers.leader_epoch, headers.crc)
            for position, *facts in zip(headers.position.tolist(), *(each.tolist() for each in columns), strict=True):
                self.batches.append(Fingerprint(*facts))
                self.places[facts[0]] = (segment.path, piece.position + position)

    def iter_headers(self, from_offset: int, to_offset: int) -> Iterator[Fingerprint]:
        return (each for each in self.batches if each.last_offset >= from_offset and each.base_offset < to_offset)

    def at(self, offset: int) -> Fingerprint | None:
        place = bisect_left(self._bases, offset + 1) - 1
        return self.batches[place] if place >= 0 and self.batches[place].last_offset >= offset else None

    def following(self, offset: int) -> Fingerprint | None:
        """The first batch that begins at `offset` or behind it."""
        place = bisect_left(self._bases, offset)
        return self.batches[place] if place < len(self.batches) else None

    def place(self, offset: int) -> tuple[str, int | None]:
        held = self.at(offset)
        if held is not None:
            return self.places[held.base_offset]
        return (self.member.segments[-1].path if self.member.segments else ""), None

    def raw(self, offset: int) -> bytes:
        held = self.at(offset)
        if held is None:
            return b""
        path, position = self.places[held.base_offset]
        with open(path, "rb") as file:
            file.seek(position)
            head = file.read(12)
            return head + file.read(int.from_bytes(head[8:12], "big"))


class _Truth:
    """The committed log as the replicas themselves have it, and who has which batch of it."""

    def __init__(self, start: int, views: Sequence[_View]) -> None:
        self.log = CommittedLog(start, keep=sum(len(view.batches) for view in views) + 1)
        self._holders: dict[int, _View] = {}
        offset = start
        while (chosen := _chosen(views, offset)) is not None:
            batch, self._holders[chosen[0].base_offset] = chosen
            self.log.extend(batch, 0)
            offset = batch.last_offset + 1

    def holes_end(self, offset: int) -> int:
        """Where the next batch begins, of a hole that all have."""
        return next((each.base_offset for each in self.log.batches if each.base_offset > offset), self.log.end)

    def at(self, offset: int) -> tuple[Fingerprint, _View] | None:
        held = self.log.at(offset)
        return None if held is None else (held, self._holders[held.base_offset])


def _chosen(views: Sequence[_View], offset: int) -> tuple[Fingerprint, _View] | None:
    """Of the batches that come next, the one that most hold, and the first who does."""
    following = [(each, view) for view in views if (each := view.following(offset)) is not None]
    if not following:
        return None
    first = min(each.base_offset for each, _ in following)
    votes = Counter(each for each, _ in following if each.base_offset == first)
    most = max(votes.values())
    return next((each, view) for each, view in following if votes[each] == most)


def _differences(stretch: Stretch, truth: _Truth, view: _View) -> Iterator[Finding]:
    hwm = min(view.member.hwm, stretch.end)
    if not view.member.marked:
        hwm = min(hwm, view.leo)
    known = stretch.start
    while True:
        known = max(known, truth.log.verified(view, known))
        if log_matching.check(view.member.broker, known, hwm, truth.log.end) is None:
            return
        held, expected = view.at(known), truth.at(known)
        if held is None and expected is None:
            known = truth.holes_end(known)
        elif held is None:
            after = view.following(known)
            end = min(hwm, truth.log.end, NO_LIMIT if after is None else after.base_offset)
            yield _missing(stretch, truth, view, known, end)
            known = end
        else:
            yield _difference(stretch, truth, view, known)
            known = max(each.last_offset for each in (held, *(expected or ())[:1])) + 1


def _missing(stretch: Stretch, truth: _Truth, view: _View, offset: int, end: int) -> Finding:
    expected = truth.at(offset)
    if expected is None:
        return _finding(stretch, view, offset, f"holds nothing up to {end - 1}")
    batch, holder = expected
    more = f" and more, up to {end - 1}" if batch.last_offset + 1 < end else ""
    return _finding(stretch, view, offset, f"holds nothing, broker {holder.member.broker} holds {batch}{more}")


def _difference(stretch: Stretch, truth: _Truth, view: _View, offset: int) -> Finding:
    held, expected = view.at(offset), truth.at(offset)
    if expected is None:
        return _finding(stretch, view, offset, f"holds {held}, the others hold nothing")
    batch, holder = expected
    records = _records(holder.raw(offset), view.raw(offset))
    return _finding(stretch, view, offset, f"holds {held}, broker {holder.member.broker} holds {batch}{records}")


def _finding(stretch: Stretch, view: _View, offset: int, detail: str) -> Finding:
    where = (view.member.broker, stretch.topic, stretch.partition, offset, *view.place(offset))
    return Finding(kinds.DIVERGED, log_matching.PROPERTY.id, *where, detail)


def _records(expected: bytes, held: bytes) -> str:
    """Which offsets of the two batches have other records."""
    try:
        ours, theirs = ({each.offset: each for each in batch.records(raw)} if raw else {} for raw in (expected, held))
    except MalformedBatchError:
        return ""
    both = sorted(ours.keys() | theirs.keys())
    other = [at for at in both if at not in ours or at not in theirs or _told(ours[at]) != _told(theirs[at])]
    if not other or not expected or not held:
        return ""
    return f"; other records at {', '.join(map(str, other[:10]))}{' ...' if len(other) > 10 else ''}"


def _told(record: batch.Record) -> tuple[object, ...]:
    return (record.key, record.value, record.timestamp_ms, tuple(record.headers))
