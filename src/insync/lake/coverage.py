"""What a lake has of a partition as it is now: the generations of one topic id, put together.

A generation that began because the log was truncated takes over where the two histories diverge: what the generation
before has from there on is no longer part of the log. Generations of other topic ids, of a topic that was deleted and
recreated, are not part of it at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.compute as pc

from insync.client.model import TopicPartition
from insync.lake.ledger import Ledger, Range
from insync.lake.reader import Unit
from insync.lake.staging import open_file
from insync.lake.store import Store


@dataclass(frozen=True, slots=True)
class Piece:
    """The offsets from `start` up to, but not including, `end`, as far as a range has them."""

    start: int
    end: int
    archived: Range

    @property
    def missing(self) -> str:
        """Why the lake does not have the rows; empty if it has them."""
        return self.archived.lost or self.archived.expired

    def clip(self, start: int, end: int) -> Piece:
        return Piece(max(self.start, start), min(self.end, end), self.archived)

    def to_unit(self) -> Unit:
        files = tuple(file for file in self.archived.files if file.last >= self.start and file.first < self.end)
        return Unit(end=self.end, files=files, rows=sum(file.rows for file in files))


def list_pieces(ledger: Ledger, key: TopicPartition, topic_id: str) -> list[Piece]:
    """In the order of their offsets, without gaps or overlaps."""
    pieces: list[Piece] = []
    for archived in ledger.ranges(key):
        if archived.topic_id != topic_id:
            continue
        if pieces and archived.start < pieces[-1].end:  # of a new generation
            pieces = [piece.clip(0, archived.start) for piece in pieces if piece.start < archived.start]
        pieces.append(Piece(archived.start, archived.end, archived))
    return pieces


def select_pieces(pieces: Sequence[Piece], start: int, end: int) -> list[Piece]:
    """Those with rows, clipped to a range of offsets."""
    clipped = [piece.clip(start, end) for piece in pieces if not piece.missing]
    return [piece for piece in clipped if piece.start < piece.end]


def find_offset_by_time(lake: Store, pieces: Sequence[Piece], time_ms: int) -> int:
    """The first offset of a record that is not older; -1 if there is none."""
    for piece in pieces:
        files = [file for file in piece.to_unit().files if file.newest >= time_ms]
        offsets = [_find_in_file(lake, file.path, piece, time_ms) for file in files]
        if matches := [offset for offset in offsets if offset >= 0]:
            return min(matches)
    return -1


def _find_in_file(lake: Store, path: str, piece: Piece, time_ms: int) -> int:
    with open_file(lake, path) as parquet:
        table = parquet.read(columns=["offset", "timestamp"])
    offsets, times = table.column("offset"), table.column("timestamp").cast("int64")
    inside = pc.and_(pc.greater_equal(offsets, piece.start), pc.less(offsets, piece.end))
    matches = offsets.filter(pc.and_(inside, pc.greater_equal(times, time_ms * 1000)))
    return int(pc.min(matches).as_py()) if len(matches) else -1
