"""Checks one segment of one replica by its batch headers: a task of an audit.

Batches are not decoded. A batch is *sound* if its checksum is right; what lies between two sound batches is one damaged
range and one finding, whatever byte was hit (D6). Offsets and epochs of sound batches must follow one another, and the
indexes must match. Each damage is reported once: a batch with a wrong offset is not a gap and an overlap as well, and
an index is not blamed for batches that moved.

For the comparison of replicas the task returns digests: one number for the batches of each *stretch* of 65,536 offsets.
It is equal on replicas with equal batches, wherever their segments begin. A stretch also ends where a replica of the
partition begins or has its high watermark, so that each is compared only where it must hold the batches. Offsets that a
finding explains are returned too: the comparison does not report them again.
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
from insync.logdir.files import NO_LIMIT, Segment
from insync.logdir.indexes import EMPTY, Index, IndexFileError
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import Finding, make_replica_finding
from insync.storage.checkpoints import LEADER_EPOCHS, decode_epochs
from insync.storage.file_names import INDEX, TIME_INDEX
from insync.storage.index import OFFSET_ENTRY, TIME_ENTRY
from insync.wire.batch import HEADER_SIZE

STRETCH_BITS = 16
MAX_PLACES = 100
"""Of one kind in one file. A file of noise would have one per batch; the last one that is listed has the others'
number."""
_CRC_FROM = 21
_LENGTH_END = 12
_MAGIC_AT = 16
_WINDOW = 4 << 20
_MAX_JUMP = 1 << 31
"""How far above the expected offset the next sound batch after a damaged range can be."""

Range = tuple[int, int]


@dataclass(frozen=True)
class SegmentTask:
    segment: Segment
    log_start: int
    hwm: int
    edges: tuple[int, ...]
    """Log starts and high watermarks of the partition's replicas."""
    compacted: bool
    recovery_point: int | None = None
    """None if it is unknown."""
    index_interval: int | None = None
    """index.interval.bytes of the topic; None if it is unknown."""

    @property
    def newest(self) -> bool:
        """Whether the broker appends to it; the other segments are closed."""
        return self.segment.required_end >= 0

    @property
    def durable_end(self) -> int:
        """What lies above may be torn by a crash."""
        return max(self.hwm, self.recovery_point or 0)


@dataclass
class SegmentFacts:
    """What a task found in a segment."""

    first: int = -1
    """The first offset, -1 if there is no batch."""
    next: int = -1
    first_epoch: int = -1
    last_epoch: int = -1
    batches: int = 0
    records: int = 0
    size: int = 0
    torn: tuple[int, str] | None = None
    """Where the last bytes begin if they are no batch, and why they are none."""
    ends_in_damage: bool = False
    """The end offset is not known: the last batch is damaged."""
    stretches: dict[tuple[int, int], tuple[int, int]] = field(default_factory=dict)
    """By (interval between edges, stretch): (digest, batches)."""
    findings: list[Finding] = field(default_factory=list)
    explained: list[Range] = field(default_factory=list)
    """Offsets that have a finding already."""
    excluded: list[int] = field(default_factory=list)
    """Positions of batches that do not belong where they are."""
    damaged: list[Range] = field(default_factory=list)
    """Positions of bytes that are not sound batches, in order."""


def check_segment(task: SegmentTask) -> SegmentFacts:
    return _SegmentCheck(task).run()


class _SegmentCheck:
    def __init__(self, task: SegmentTask) -> None:
        self._task = task
        self._segment = task.segment
        self._replica = (task.segment.broker, task.segment.topic, task.segment.partition)
        self._facts = SegmentFacts(next=task.segment.base)
        self._edges = np.array(task.edges, np.int64)
        self._epochs: Any = None
        self._newest_time = -1
        self._last_position = -1
        self._after_damage = False
        self._is_moved = False
        """Whether batches are not where the indexes have them."""
        self._gaps: dict[Range, Finding] = {}
        self._index_findings: list[Finding] = []
        self._offsets = self._times = EMPTY

    def run(self) -> SegmentFacts:
        segment, facts = self._segment, self._facts
        self._offsets = self._read_index(indexes.read_offset_index)
        self._times = self._read_index(indexes.read_time_index)
        self._epochs = self._read_epoch_starts()
        try:
            facts.size = os.path.getsize(segment.path)
            position: int | None = 0
            while position is not None:
                position = self._read_from(position)
        except OSError as error:
            self._add(kinds.UNREADABLE, facts.next, segment.path, None, f"cannot be read: {error.strerror}")
            facts.explained.append((facts.next, NO_LIMIT))
            facts.ends_in_damage = True
            return facts
        facts.findings += self._gaps.values()
        self._check_index_files()
        if not self._is_moved:
            facts.findings += self._index_findings
        return facts

    def _read_from(self, position: int) -> int | None:
        """Check the batches from a position up to the next damage; returns where to continue, None at the end."""
        for piece in read_chunks(self._segment.path, position):
            if isinstance(piece, TrailingBytes):
                return self._skip_damage(piece.position, piece.reason)
            bad, reason = self._find_unsound(piece)
            headers = piece.headers
            headers = Headers(headers.position + piece.position, *tuple(headers)[1:])
            if bad:
                self._check_batches(headers.select(slice(0, bad)))
            if bad < len(headers):
                return self._skip_damage(int(headers.position[bad]), reason)
        return None

    def _check_batches(self, headers: Headers) -> None:
        facts = self._facts
        end = int(headers.position[-1] + headers.size[-1])
        self._check_offset_index(headers, end)
        sequence = self._check_offsets(headers, end)
        if not len(sequence):
            return
        if not facts.batches:
            facts.first_epoch = int(sequence.leader_epoch[0])
            facts.first = int(sequence.base_offset.min()) if facts.first < 0 else facts.first
        self._check_epochs(sequence)
        self._check_time_index(sequence)
        self._add_digests(sequence)
        facts.last_epoch = int(sequence.leader_epoch[-1])
        facts.batches += len(sequence)
        facts.records += int(sequence.count.sum())
        self._last_position = int(headers.position[-1])

    # --- damaged ranges ----------------------------------------------------------------------------------------------

    def _find_unsound(self, chunk: Chunk) -> tuple[int, str]:
        """The first batch of the chunk that is not sound, and why it is not; (number of batches, "") if all are."""
        headers, data = chunk.headers, chunk.data
        places = zip(
            headers.position.tolist(), headers.size.tolist(), headers.crc.tolist(), headers.magic.tolist(), strict=True
        )
        for i, (position, size, crc, magic) in enumerate(places):
            if magic != MAGIC:
                return i, f"format {magic} instead of {MAGIC}"
            actual = crc32c(data[position + _CRC_FROM : position + size])
            if actual != crc:
                return i, f"the batch has checksum {actual:08x}, its header says {crc:08x}"
        return len(headers), ""

    def _skip_damage(self, position: int, reason: str) -> int | None:
        """Report one damaged range; returns the position of the next sound batch, None if there is none."""
        facts, size = self._facts, self._facts.size
        with open(self._segment.path, "rb", buffering=0) as file:
            file.seek(position)
            header = file.read(HEADER_SIZE)
        claimed = _LENGTH_END + int.from_bytes(header[8:_LENGTH_END], "big", signed=True)
        direct = position + claimed
        whole = len(header) == HEADER_SIZE and claimed >= HEADER_SIZE and direct <= size
        whole = whole and (direct == size or self._is_sound_at(direct))
        end = direct if whole else self._find_sound_after(position + 1)
        offset = facts.next
        if not facts.batches:
            facts.first = offset  # the name of the file counts
        if end >= size:
            if not whole:
                facts.torn = (position, reason)
                return None
            if self._task.newest and offset >= self._task.durable_end:
                return None  # the batch was being written
            facts.ends_in_damage = True
        next_offset = self._base_at(end) if end < size else NO_LIMIT
        facts.explained.append((offset, max(next_offset, offset + 1)))
        facts.damaged.append((position, end))
        if whole and header[_MAGIC_AT] == MAGIC:
            self._add(kinds.CRC, offset, self._segment.path, position, reason)
        elif whole:
            self._add(kinds.UNREADABLE, offset, self._segment.path, position, reason)
        else:
            detail = f"bytes {position} to {end - 1} are not batches: {reason}"
            self._add(kinds.UNREADABLE, offset, self._segment.path, position, detail)
        self._after_damage = True
        return end if end < size else None

    def _is_sound_at(self, position: int) -> bool:
        with open(self._segment.path, "rb", buffering=0) as file:
            file.seek(position)
            header = file.read(HEADER_SIZE)
            if len(header) < HEADER_SIZE or header[_MAGIC_AT] != MAGIC:
                return False
            size = _LENGTH_END + int.from_bytes(header[8:_LENGTH_END], "big", signed=True)
            if not HEADER_SIZE <= size <= self._facts.size - position:
                return False
            body = header[_CRC_FROM:] + file.read(size - HEADER_SIZE)
        return crc32c(body) == int.from_bytes(header[17:_CRC_FROM], "big")

    def _base_at(self, position: int) -> int:
        with open(self._segment.path, "rb", buffering=0) as file:
            file.seek(position)
            return int.from_bytes(file.read(8), "big", signed=True)

    def _find_sound_after(self, start: int) -> int:
        """The position of the first sound batch from `start` on; the size of the file if there is none."""
        size, expected = self._facts.size, self._facts.next
        with open(self._segment.path, "rb") as file:
            while start + HEADER_SIZE <= size:
                file.seek(start)
                window = np.frombuffer(file.read(_WINDOW + HEADER_SIZE), np.uint8)
                if len(window) < HEADER_SIZE:
                    break
                count = len(window) - HEADER_SIZE + 1
                places = np.flatnonzero(window[_MAGIC_AT : _MAGIC_AT + count] == MAGIC)
                base = np.zeros(len(places), np.int64)
                for byte in range(8):
                    base = (base << 8) | window[places + byte].astype(np.int64)
                places = places[(base >= expected) & (base < expected + _MAX_JUMP)]
                for place in places.tolist():
                    if self._is_sound_at(start + place):
                        return int(start + place)
                start += count
        return size

    # --- offsets -----------------------------------------------------------------------------------------------------

    def _check_offsets(self, headers: Headers, end: int) -> Headers:
        """The batches that belong here, each with the offset that it should have."""
        facts, compacted = self._facts, self._task.compacted
        base, last = headers.base_offset, headers.last_offset
        if not facts.batches and not self._after_damage:
            self._begin(headers, end)
        elif self._after_damage and base[0] > facts.next:
            facts.next = int(base[0])
        self._after_damage = False
        expected = np.concatenate(([facts.next], last[:-1] + 1))
        if (base >= expected if compacted else base == expected).all():
            facts.next = int(last[-1]) + 1
        else:
            headers = self._check_irregular(headers, end)
        if not compacted:
            base, last = headers.base_offset, headers.last_offset
            for i in np.flatnonzero(headers.count != headers.last_offset_delta + 1):
                detail = f"{headers.count[i]} records in a batch of offsets {base[i]} to {last[i]}"
                self._report(kinds.GAP, headers, i, detail)
                facts.explained.append((int(base[i]), int(last[i]) + 1))
        return headers

    def _begin(self, headers: Headers, end: int) -> None:
        """A file that begins with another offset than its name says is checked with the segments around it, unless
        only the first batch is wrong."""
        first, delta = int(headers.base_offset[0]), int(headers.last_offset_delta[0])
        following = int(headers.base_offset[1]) if len(headers) > 1 else self._peek(end)
        is_wrong_batch = following == self._segment.base + delta + 1 and following != first + delta + 1
        is_second = following == self._segment.base < first
        if not is_wrong_batch and not is_second and (not self._task.compacted or first < self._segment.base):
            self._facts.next = first

    def _check_irregular(self, headers: Headers, end: int) -> Headers:
        facts, compacted = self._facts, self._task.compacted
        bases = headers.base_offset.copy()
        following = [*bases[1:].tolist(), self._peek(end)]
        after = [*following[1:], None]
        kept = np.ones(len(headers), bool)
        for i, base in enumerate(headers.base_offset.tolist()):
            expected, delta, then = facts.next, int(headers.last_offset_delta[i]), following[i]
            last = base + delta
            if base == expected or (compacted and base > expected and not _is_too_high(last, then, after[i], expected)):
                facts.next = last + 1
                continue
            belongs = expected + delta + 1 == then
            if belongs or (compacted and base > expected):
                detail = f"a batch with offset {base} where offset {expected} belongs"
                self._report(kinds.ORDER, headers, i, detail, offset=expected)
                self._exclude(headers, i, (expected, expected + delta + 1))
                if belongs:
                    bases[i], facts.next = expected, expected + delta + 1
                else:
                    kept[i] = False
            elif base > expected:
                place = self._location(headers, i)
                detail = f"offsets {expected} to {base - 1} are missing"
                self._gaps[expected, base] = self._make(kinds.GAP, expected, *place, detail)
                facts.explained.append((expected, base))
                self._is_moved = True
                facts.next = last + 1
            elif self._fills_gap(base, last):
                self._report(kinds.ORDER, headers, i, f"a batch at offset {base} follows offset {expected - 1}")
                facts.excluded.append(int(headers.position[i]))
                self._is_moved = True
            else:
                is_copy = last < expected and self._holds(headers, i)
                kind = kinds.DUPLICATED if is_copy else kinds.ORDER
                copy = f"the batch of offsets {base} to {last} is there again"
                what = copy if is_copy else f"a batch at offset {base}"
                self._report(kind, headers, i, f"{what}, after offset {expected - 1}")
                self._exclude(headers, i, (base, last + 1) if last >= expected else None)
                kept[i] = False
                facts.next = max(expected, last + 1)
        columns = list(headers)
        columns[Headers._fields.index("base_offset")] = bases
        return Headers(*columns).select(kept)

    def _exclude(self, headers: Headers, i: int, explained: Range | None) -> None:
        self._facts.excluded.append(int(headers.position[i]))
        if explained is not None:
            self._facts.explained.append(explained)
        self._is_moved = True

    def _fills_gap(self, base: int, last: int) -> bool:
        """Whether a batch is the one that was missing: then it is in the wrong place, and not missing."""
        gap = next((gap for gap in self._gaps if gap[0] <= base and last < gap[1]), None)
        if gap is None:
            return False
        finding = self._gaps.pop(gap)
        for start, end in ((gap[0], base), (last + 1, gap[1])):
            if start < end:
                detail = f"offsets {start} to {end - 1} are missing"
                self._gaps[start, end] = finding._replace(offset=start, detail=detail)
        return True

    def _holds(self, headers: Headers, i: int) -> bool:
        """Whether a batch with this offset and checksum lies before this one in the file."""
        base, crc, position = (int(column[i]) for column in (headers.base_offset, headers.crc, headers.position))
        for piece in read_chunks(self._segment.path, 0, position):
            if not isinstance(piece, Chunk):
                continue
            if ((piece.headers.base_offset == base) & (piece.headers.crc == crc)).any():
                return True
        return False

    def _peek(self, position: int) -> int | None:
        """The base offset of the batch at a position; None if there is no sound one."""
        return self._base_at(position) if position < self._facts.size and self._is_sound_at(position) else None

    # --- epochs ------------------------------------------------------------------------------------------------------

    def _check_epochs(self, headers: Headers) -> None:
        epochs, base = headers.leader_epoch, headers.base_offset
        before = np.concatenate(([self._facts.last_epoch], epochs[:-1]))
        following = np.concatenate((epochs[1:], epochs[-1:]))
        falls = epochs < before
        if self._epochs is None:
            for i in np.flatnonzero(falls):
                too_high = i > 0 and before[i] > before[i - 1] and epochs[i] >= before[i - 1]
                place = i - 1 if too_high else i
                known, other = (epochs[i], "before") if too_high else (before[i], "after")
                self._report_epoch(headers, place, f"epoch {epochs[place]} {other} epoch {known}")
            return
        known, starts = self._epochs
        at = np.searchsorted(starts, base, side="right") - 1
        recorded = np.where(at >= 0, known[np.clip(at, 0, None)], -1)
        unsynced = (base >= (self._task.recovery_point or 0)) & (epochs > known[-1])
        wrong = (at >= 0) & (recorded != epochs) & (base >= self._task.log_start) & ~unsynced
        for i in np.flatnonzero(wrong):
            if falls[i] or epochs[i] > following[i]:
                self._report_epoch(headers, i, f"epoch {epochs[i]}, where {LEADER_EPOCHS} has {recorded[i]}")
            else:
                detail = f"has epoch {recorded[i]}, the batch has epoch {epochs[i]}"
                self._add(kinds.EPOCH, int(base[i]), self._epoch_file, None, detail)

    def _report_epoch(self, headers: Headers, i: Any, detail: str) -> None:
        self._report(kinds.EPOCH, headers, i, detail)
        self._facts.explained.append((int(headers.base_offset[i]), int(headers.last_offset[i]) + 1))

    @property
    def _epoch_file(self) -> str:
        return os.path.join(os.path.dirname(self._segment.path), LEADER_EPOCHS)

    def _read_epoch_starts(self) -> Any:
        """None if there are none; the check of the replica's small files reports why."""
        entries = read_epochs(self._epoch_file)
        if not entries:
            return None
        return np.array([epoch for epoch, _ in entries]), np.array([start for _, start in entries])

    # --- digests -----------------------------------------------------------------------------------------------------

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
        digests = self._facts.stretches
        for cell in np.unique(cells):
            own = hashes[cells == cell]
            key = (int(cell) >> 48, int(cell) & ((1 << 48) - 1))
            digest, count = digests.get(key, (0, 0))
            total = (digest + int(own.sum(dtype=np.uint64))) & ((1 << 64) - 1)
            digests[key] = (total, count + len(own))

    # --- indexes -----------------------------------------------------------------------------------------------------

    def _read_index(self, load: Any) -> Index:
        try:
            index: Index = load(self._segment.stem, self._segment.base)
        except IndexFileError as bad:
            self._add_index(self._segment.base, bad.path, bad.position, bad.reason)
            return EMPTY
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
            self._add_index(self._segment.base, str(error.filename), None, reason)
            return EMPTY
        return index

    def _check_offset_index(self, headers: Headers, end: int) -> None:
        """An entry points to the beginning of a batch, with an offset that is not before it."""
        offsets = self._offsets
        first, after = np.searchsorted(offsets.values, [int(headers.position[0]), end])
        keys, places = offsets.keys[first:after], offsets.values[first:after]
        at = np.searchsorted(headers.position, places, side="right") - 1
        wrong = (headers.position[at] != places) | (headers.base_offset[at] > keys)
        for i in np.flatnonzero(wrong):
            detail = f"offset {keys[i]} points to {places[i]}, where no such batch begins"
            position = int(first + i) * OFFSET_ENTRY.size
            self._add_index(int(keys[i]), self._segment.stem + INDEX, position, detail)

    def _check_time_index(self, headers: Headers) -> None:
        """An entry has the largest timestamp so far, and an offset in the batch that has it."""
        times = self._times
        base, largest = headers.base_offset, np.maximum.accumulate(headers.max_timestamp)
        so_far = np.maximum(largest, self._newest_time)
        self._newest_time = int(so_far[-1])
        mine = np.flatnonzero((times.values >= base[0]) & (times.values <= headers.last_offset[-1]))
        at = np.searchsorted(base, times.values[mine], side="right") - 1
        stamps = times.keys[mine]
        wrong = (headers.max_timestamp[at] != stamps) | (so_far[at] != stamps)
        if self._facts.damaged:
            wrong &= stamps < so_far[at]  # a damaged batch may have had a larger timestamp
        for j in np.flatnonzero(wrong):
            detail = (
                f"the index says that {stamps[j]} is the largest timestamp up to offset {times.values[mine[j]]}, "
                f"in the segment it is {so_far[at[j]]}"
            )
            position = int(mine[j]) * TIME_ENTRY.size
            self._add_index(int(times.values[mine[j]]), self._segment.stem + TIME_INDEX, position, detail)

    def _check_index_files(self) -> None:
        """What all of a segment's batches tell about its indexes."""
        facts, segment, offsets, times = self._facts, self._segment, self._offsets, self._times
        for i in np.flatnonzero(offsets.values >= max(facts.size, 1)):
            detail = f"offset {offsets.keys[i]} points to {offsets.values[i]}, past the end of the segment"
            self._add_index(int(offsets.keys[i]), segment.stem + INDEX, int(i) * OFFSET_ENTRY.size, detail)
        for i in np.flatnonzero((times.values < facts.first) | (times.values >= facts.next)):
            if facts.batches and not self._facts.damaged:
                detail = f"offset {times.values[i]} is not in the segment"
                self._add_index(int(times.values[i]), segment.stem + TIME_INDEX, int(i) * TIME_ENTRY.size, detail)
        if self._task.newest or not facts.batches or self._facts.damaged or self._index_findings:
            return
        present = {suffix for suffix in (INDEX, TIME_INDEX) if os.path.exists(segment.stem + suffix)}
        interval = self._task.index_interval
        needed = interval is not None and self._last_position > interval
        counts = {INDEX: len(offsets), TIME_INDEX: len(times)}
        for suffix, other in ((INDEX, TIME_INDEX), (TIME_INDEX, INDEX)):
            other_entries = counts[other] - (other == TIME_INDEX)  # closing a segment adds one to the time index
            if suffix not in present and (counts[other] or needed):
                self._add_index(segment.base, segment.stem + suffix, None, "the file is missing")
            elif suffix in present and not counts[suffix] and other_entries > 0 and self._newest_time >= 0:
                self._add_index(segment.base, segment.stem + suffix, None, "there are no entries in it")
        if len(times) and times.keys[-1] < self._newest_time and not self._index_findings:
            detail = f"ends with {times.keys[-1]}, the largest timestamp in the segment is {self._newest_time}"
            position = (len(times) - 1) * TIME_ENTRY.size
            self._add_index(int(times.values[-1]), segment.stem + TIME_INDEX, position, detail)

    # --- findings ----------------------------------------------------------------------------------------------------

    def _report(self, kind: str, headers: Headers, i: Any, detail: str, offset: int | None = None) -> None:
        at = int(headers.base_offset[i]) if offset is None else offset
        self._add(kind, at, *self._location(headers, i), detail)

    def _location(self, headers: Headers, i: Any) -> tuple[str, int]:
        return self._segment.path, int(headers.position[i])

    def _make(self, kind: str, offset: int, file: str, position: int | None, detail: str) -> Finding:
        return make_replica_finding(kind, self._replica, file, detail, offset=offset, position=position)

    def _add(self, kind: str, offset: int, file: str, position: int | None, detail: str) -> None:
        add_place(self._facts.findings, self._make(kind, offset, file, position, detail))

    def _add_index(self, offset: int, file: str, position: int | None, detail: str) -> None:
        add_place(self._index_findings, self._make(kinds.INDEX, offset, file, position, detail))


def add_place(findings: list[Finding], finding: Finding) -> None:
    """Append a finding; above MAX_PLACES of one kind in one file, it only counts."""
    same = [i for i, known in enumerate(findings) if known.kind == finding.kind and known.file == finding.file]
    if len(same) < MAX_PLACES:
        findings.append(finding)
    else:
        findings[same[-1]] = findings[same[-1]]._replace(places=findings[same[-1]].places + finding.places)


def read_epochs(path: str) -> list[tuple[int, int]] | None:
    """The entries of an epoch checkpoint; None if it is missing, damaged, or its entries do not rise. A file without
    content is that of a log that Apache Kafka has created and never written to."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    entries = decode_epochs(data) if data else []
    if entries is None or not all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(entries)):
        return None
    return entries


def _is_too_high(last: int, following: int | None, after: int | None, expected: int) -> bool:
    """In a compacted log: whether the two batches that follow are both below the end of this one, and above what came
    before it."""
    return following is not None and after is not None and expected <= following <= last and after <= last


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
