"""Log Matching where digests differ: the batches of one stretch on all its replicas, by the property's own predicate.

The replica that most others agree with stands for the committed log. Every other one is held against it up to its own
high watermark, and each batch that differs is named, and which of its records do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from insync.pipeline import audit_findings as kinds
from insync.pipeline.audit_findings import Finding
from insync.properties import log_matching
from insync.properties.committed_log import CommittedLog
from insync.properties.history import Fingerprint
from insync.spark import log_indexes
from insync.spark.log_chunks import Chunk, chunks
from insync.spark.log_files import Segment
from insync.spark.log_indexes import EMPTY, BadIndex
from insync.wire import batch
from insync.wire.errors import MalformedBatch

MOST_DIFFERENCES = 100
"""Of one replica in one stretch."""


@dataclass(frozen=True)
class Member:
    """One replica's part in a stretch."""

    broker: int
    hwm: int
    segments: tuple[Segment, ...]
    """Those that may hold something of it, in order."""


@dataclass(frozen=True)
class Stretch:
    topic: str
    partition: int
    start: int
    end: int
    members: tuple[Member, ...]
    """The first one stands for the committed log."""


def compare(stretch: Stretch) -> list[Finding]:
    truth, *others = [_View(member, stretch.start, stretch.end) for member in stretch.members]
    committed = CommittedLog(stretch.start, keep=len(truth.batches) + 1)
    for each in truth.batches:
        committed.extend(each, 0)
    found: list[Finding] = []
    for view in others:
        found += islice(_differences(stretch, committed, truth, view), MOST_DIFFERENCES)
    return found


class _View:
    """One replica's batches in a stretch, as `CommittedLog` wants to see a log."""

    cuts = 0

    def __init__(self, member: Member, start: int, end: int) -> None:
        self.member = member
        self.log_start = start
        self.batches: list[Fingerprint] = []
        self.places: dict[int, tuple[str, int]] = {}
        """By base offset: file and position."""
        for segment in member.segments:
            self._read(segment, start, min(end, member.hwm))
        self.leo = self.batches[-1].last_offset + 1 if self.batches else start

    def _read(self, segment: Segment, start: int, end: int) -> None:
        try:
            index = log_indexes.offsets(segment.stem, segment.base)
        except BadIndex:
            index = EMPTY
        for piece in chunks(segment.path, index.floor(start, 0)):
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
        return next((each for each in self.batches if each.base_offset <= offset <= each.last_offset), None)

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


def _differences(stretch: Stretch, committed: CommittedLog, truth: _View, view: _View) -> Iterator[Finding]:
    hwm = min(view.member.hwm, stretch.end)
    known = stretch.start
    while True:
        known = committed.verified(view, known)
        if log_matching.check(view.member.broker, known, hwm, committed.end) is None:
            break
        yield _difference(stretch, truth, view, known)
        expected, held = truth.at(known), view.at(known)
        known = max(known + 1, *(each.last_offset + 1 for each in (expected, held) if each is not None))
    for extra in view.iter_headers(committed.end, stretch.end):
        yield _difference(stretch, truth, view, extra.base_offset)


def _difference(stretch: Stretch, truth: _View, view: _View, offset: int) -> Finding:
    expected, held = truth.at(offset), view.at(offset)
    theirs = f"broker {truth.member.broker} holds {expected or 'nothing'}"
    detail = f"holds {held or 'nothing'}, {theirs}{_records(truth.raw(offset), view.raw(offset))}"
    file, position = view.place(offset)
    where = (view.member.broker, stretch.topic, stretch.partition, offset, file, position)
    return Finding(kinds.DIVERGED, log_matching.PROPERTY.id, *where, detail)


def _records(expected: bytes, held: bytes) -> str:
    """Which offsets of the two batches have other records."""
    try:
        ours, theirs = ({each.offset: each for each in batch.records(raw)} if raw else {} for raw in (expected, held))
    except MalformedBatch:
        return ""
    both = sorted(ours.keys() | theirs.keys())
    other = [at for at in both if at not in ours or at not in theirs or _told(ours[at]) != _told(theirs[at])]
    if not other or not expected or not held:
        return ""
    return f"; other records at {', '.join(map(str, other[:10]))}{' ...' if len(other) > 10 else ''}"


def _told(record: batch.Record) -> tuple[object, ...]:
    return (record.key, record.value, record.timestamp_ms, tuple(record.headers))
