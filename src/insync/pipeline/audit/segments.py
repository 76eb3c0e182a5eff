"""Checks one segment of one replica by its batch headers: a task of an audit.

Batches are not decoded. Their checksums are verified, their offsets and epochs must increase, and the indexes must
match. For the comparison of replicas the task returns digests: one number for the batches of each *stretch* of 65,536
offsets. It is equal on replicas with equal batches, wherever their segments begin. A stretch also ends where a replica
of the partition begins or has its high watermark, so that each is compared only where it must hold the batches.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from crc32c import crc32c

from insync.columnar.headers import MAGIC, Headers
from insync.logdir import indexes
from insync.logdir.chunks import Chunk, TrailingBytes, read_chunks
from insync.logdir.files import Segment
from insync.logdir.indexes import EMPTY, Index, IndexFileError
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import MEANINGS, Finding
from insync.storage.checkpoints import LEADER_EPOCHS, decode_epochs
from insync.storage.file_names import INDEX, TIME_INDEX
from insync.storage.index import OFFSET_ENTRY

STRETCH_BITS = 16
MAX_FINDINGS = 1_000
"""Per segment: a file of noise would have one per batch."""
_CRC_FROM = 21


@dataclass(frozen=True)
class SegmentTask:
    segment: Segment
    log_start: int
    hwm: int
    edges: tuple[int, ...]
    """Log starts and high watermarks of the partition's replicas."""
    compacted: bool


@dataclass
class SegmentFacts:
    """What a task found in a segment."""

    first: int = -1
    next: int = -1
    first_epoch: int = -1
    last_epoch: int = -1
    batches: int = 0
    records: int = 0
    size: int = 0
    stretches: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """By (interval between edges, stretch): (digest, batches)."""
    findings: list[Finding] = field(default_factory=list)


def check_segment(task: SegmentTask) -> SegmentFacts:
    return _SegmentCheck(task).run()


class _SegmentCheck:
    def __init__(self, task: SegmentTask) -> None:
        self._task = task
        self._segment = task.segment
        self._facts = SegmentFacts(next=task.segment.base)
        self._edges = np.array(task.edges, np.int64)
        self._epochs: Any = None
        self._newest = -1
        self._digests: dict[tuple[int, int], tuple[int, int]] = {}

    def run(self) -> SegmentFacts:
        segment, facts = self._segment, self._facts
        offsets = self._read_index(indexes.read_offset_index)
        times = self._read_index(indexes.read_time_index)
        self._epochs = self._read_epoch_starts()
        try:
            facts.size = os.path.getsize(segment.path)
            for piece in read_chunks(segment.path, 0):
                if isinstance(piece, TrailingBytes):
                    self._report_trailing_bytes(piece)
                else:
                    self._check_chunk(piece, offsets, times)
        except OSError as error:
            self._add(kinds.UNREADABLE, facts.next, segment.path, None, f"cannot be read: {error.strerror}")
        self._check_index_end(offsets)
        facts.stretches = self._digests
        return facts

    def _check_chunk(self, chunk: Chunk, offsets: Index, times: Index) -> None:
        headers, facts = chunk.headers, self._facts
        self._check_formats(chunk)
        self._check_checksums(chunk)
        self._check_offsets(chunk)
        self._check_epochs(chunk)
        self._check_offset_index(chunk, offsets)
        self._check_time_index(chunk, times)
        self._add_digests(headers)
        if facts.first < 0:
            facts.first, facts.first_epoch = int(headers.base_offset[0]), int(headers.leader_epoch[0])
        facts.next = max(facts.next, int(headers.last_offset.max()) + 1)
        facts.last_epoch = int(headers.leader_epoch[-1])
        facts.batches += len(headers)
        facts.records += int(headers.count.sum())

    # --- batches -----------------------------------------------------------------------------------------------------

    def _check_formats(self, chunk: Chunk) -> None:
        for i in np.flatnonzero(chunk.headers.magic != MAGIC):
            self._report(kinds.UNREADABLE, chunk, i, f"format {chunk.headers.magic[i]} instead of {MAGIC}")

    def _check_checksums(self, chunk: Chunk) -> None:
        headers, data = chunk.headers, chunk.data
        places = zip(headers.position.tolist(), headers.size.tolist(), headers.crc.tolist(), strict=True)
        for i, (position, size, crc) in enumerate(places):
            actual = crc32c(data[position + _CRC_FROM : position + size])
            if actual != crc:
                self._report(kinds.CRC, chunk, i, f"the batch has checksum {actual:08x}, its header says {crc:08x}")

    def _check_offsets(self, chunk: Chunk) -> None:
        headers = chunk.headers
        base, last = headers.base_offset, headers.last_offset
        expected = np.concatenate(([self._facts.next], last[:-1] + 1))
        for i in np.flatnonzero(base < expected):
            self._report(kinds.ORDER, chunk, i, f"a batch at offset {base[i]} follows offset {expected[i] - 1}")
        if self._task.compacted:
            return
        for i in np.flatnonzero(base > expected):
            detail = f"offsets {expected[i]} to {base[i] - 1} are missing"
            self._add(kinds.GAP, int(expected[i]), *self._location(chunk, i), detail)
        for i in np.flatnonzero(headers.count != headers.last_offset_delta + 1):
            detail = f"{headers.count[i]} records in a batch of offsets {base[i]} to {last[i]}"
            self._report(kinds.GAP, chunk, i, detail)

    def _check_epochs(self, chunk: Chunk) -> None:
        headers = chunk.headers
        epochs = headers.leader_epoch
        before = np.concatenate(([max(self._facts.last_epoch, -1)], epochs[:-1]))
        for i in np.flatnonzero(epochs < before):
            self._report(kinds.EPOCH, chunk, i, f"epoch {epochs[i]} after epoch {before[i]}")
        if self._epochs is None:
            return
        known, starts = self._epochs
        at = np.searchsorted(starts, headers.base_offset, side="right") - 1
        recorded = np.where(at >= 0, known[np.clip(at, 0, None)], -1)
        wrong = (at >= 0) & (recorded != epochs) & (headers.base_offset >= self._task.log_start) & (epochs >= before)
        for i in np.flatnonzero(wrong):
            detail = f"epoch {epochs[i]}, where {LEADER_EPOCHS} has {recorded[i]}"
            self._report(kinds.EPOCH, chunk, i, detail)

    def _read_epoch_starts(self) -> Any:
        path = os.path.join(os.path.dirname(self._segment.path), LEADER_EPOCHS)
        try:
            with open(path, "rb") as file:
                entries = decode_epochs(file.read())
        except FileNotFoundError:
            return None
        increasing = entries is not None and all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries))
        if entries is None or not increasing:
            self._add(kinds.EPOCH, self._segment.base, path, None, "the epoch checkpoint is damaged or not increasing")
            return None
        if not entries:
            return None
        return np.array([epoch for epoch, _ in entries]), np.array([start for _, start in entries])

    def _add_digests(self, headers: Headers) -> None:
        """Of the batches that all replicas must hold."""
        base = headers.base_offset
        bound = (base >= self._task.log_start) & (headers.last_offset < self._task.hwm)
        if not bound.any():
            return
        chosen = headers.select(bound)
        base = chosen.base_offset
        interval = np.searchsorted(self._edges, base, side="right")
        cells = (interval.astype(np.int64) << 48) | (base >> STRETCH_BITS)
        hashes = _hash_batches(chosen)
        for cell in np.unique(cells):
            own = hashes[cells == cell]
            key = (int(cell) >> 48, int(cell) & ((1 << 48) - 1))
            digest, count = self._digests.get(key, (0, 0))
            total = (digest + int(own.sum(dtype=np.uint64))) & ((1 << 64) - 1)
            self._digests[key] = (total, count + len(own))

    # --- indexes -----------------------------------------------------------------------------------------------------

    def _read_index(self, load: Any) -> Index:
        try:
            index: Index = load(self._segment.stem, self._segment.base)
        except IndexFileError as bad:
            self._add(kinds.INDEX, self._segment.base, bad.path, bad.position, bad.reason)
            return EMPTY
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            self._add(kinds.INDEX, self._segment.base, str(error.filename), None, reason)
            return EMPTY
        return index

    def _check_offset_index(self, chunk: Chunk, offsets: Index) -> None:
        """An entry points to the beginning of a batch, with an offset that is not before it."""
        first, after = np.searchsorted(offsets.values, [chunk.position, chunk.end])
        keys, places = offsets.keys[first:after], offsets.values[first:after]
        at = np.searchsorted(chunk.headers.position, places - chunk.position, side="right") - 1
        wrong = (chunk.headers.position[at] + chunk.position != places) | (chunk.headers.base_offset[at] > keys)
        file = self._segment.stem + INDEX
        for i in np.flatnonzero(wrong):
            detail = f"offset {keys[i]} points to {places[i]}, where no such batch begins"
            self._add(kinds.INDEX, int(keys[i]), file, int(first + i) * OFFSET_ENTRY.size, detail)

    def _check_index_end(self, offsets: Index) -> None:
        for i in np.flatnonzero(offsets.values >= max(self._facts.size, 1)):
            detail = f"offset {offsets.keys[i]} points to {offsets.values[i]}, past the end of the segment"
            position = int(i) * OFFSET_ENTRY.size
            self._add(kinds.INDEX, int(offsets.keys[i]), self._segment.stem + INDEX, position, detail)

    def _check_time_index(self, chunk: Chunk, times: Index) -> None:
        """An entry has the largest timestamp so far, and an offset in the batch that has it."""
        headers = chunk.headers
        base, largest = headers.base_offset, np.maximum.accumulate(headers.max_timestamp)
        so_far = np.maximum(largest, self._newest)
        self._newest = int(so_far[-1])
        mine = np.flatnonzero((times.values >= base[0]) & (times.values <= headers.last_offset[-1]))
        at = np.searchsorted(base, times.values[mine], side="right") - 1
        stamps = times.keys[mine]
        wrong = (headers.max_timestamp[at] != stamps) | (so_far[at] != stamps)
        file = self._segment.stem + TIME_INDEX
        for j in np.flatnonzero(wrong):
            detail = (
                f"the index says that {stamps[j]} is the largest timestamp up to offset {times.values[mine[j]]}, "
                f"in the segment it is {so_far[at[j]]}"
            )
            self._add(kinds.INDEX, int(times.values[mine[j]]), file, int(mine[j]) * 12, detail)

    # --- findings ----------------------------------------------------------------------------------------------------

    def _report_trailing_bytes(self, rest: TrailingBytes) -> None:
        """A torn batch at the end of the newest segment is normal, unless the high watermark covers it."""
        facts, newest = self._facts, self._segment.required_end >= 0
        if not newest or facts.next < self._task.hwm:
            self._add(kinds.UNREADABLE, facts.next, self._segment.path, rest.position, rest.reason)

    def _report(self, kind: str, chunk: Chunk, i: Any, detail: str) -> None:
        self._add(kind, int(chunk.headers.base_offset[i]), *self._location(chunk, i), detail)

    def _location(self, chunk: Chunk, i: Any) -> tuple[str, int]:
        return self._segment.path, chunk.position + int(chunk.headers.position[i])

    def _add(self, kind: str, offset: int, file: str, position: int | None, detail: str) -> None:
        if len(self._facts.findings) < MAX_FINDINGS:
            segment = self._segment
            where = (segment.broker, segment.topic, segment.partition, offset, file, position)
            self._facts.findings.append(Finding(kind, MEANINGS[kind][0], *where, detail))


def _hash_batches(headers: Headers) -> Any:
    """64 bits of each batch's offsets, epoch and checksum; their sum does not depend on the order."""
    value = headers.base_offset.astype(np.uint64)
    for column in (headers.last_offset, headers.leader_epoch, headers.crc):
        value = _scramble(value ^ (column.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)))
    return value


def _scramble(value: Any) -> Any:
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))
