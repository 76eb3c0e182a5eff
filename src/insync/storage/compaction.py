"""Log compaction: of all records with the same key, only the last one stays (cleanup.policy compact).

One `Compaction` is one pass over one log, done in small steps so that it can share a thread with everything else. It
reads the part that is new since the last pass and builds an offset map: the newest offset of each key, as many keys as
fit. Then it copies all closed segments up to there without the records that a newer one supersedes, joining neighbours
that fit into one segment, and swaps each copy in. Offsets never change; a read of an offset that is gone continues with
the next one.

A record without a value is a tombstone. The first pass that sees one gives its batch a delete horizon, which is now +
delete.retention.ms; a pass after that time drops it. By then the records that it deletes are gone.

Two kinds of batches are kept although they hold no records any more: the last batch of each producer, so that P4 can be
derived from the log again, and the last batch of a segment, so that each segment still ends where the next one starts,
as recovery requires.

The active segment and everything above the high watermark are never touched. Each replica compacts its own log, so
below the high watermark replicas agree on the last value of each key and not on bytes. The simulator's checker compares
bytes; its topics therefore have cleanup.policy delete. How far a log is clean is not stored: after a restart the first
pass reads all of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from hashlib import blake2b
from itertools import pairwise

from insync.storage import scan, segment_swap
from insync.storage.disk import SyncLater, open_file
from insync.storage.log import Log
from insync.storage.segment import MAX_RELATIVE_OFFSET, Segment
from insync.wire import batch as batches
from insync.wire import batch_filter
from insync.wire.batch import BatchHeader
from insync.wire.batch_filter import RawRecord
from insync.wire.errors import MalformedBatchError

MAX_KEYS = 250_000
_MAX_KEY_BYTES = 16
_WRITE_BYTES = 1 << 18
_MAX_HORIZON = 1 << 60

Work = Generator[int | SyncLater, None, None]


def cleanable_end(log: Log, now: int) -> int:
    """Safeguard: the first offset that compaction must not touch: uncommitted, in the active segment, or too young."""
    limit = min(log.hwm, log.active.base)
    end, lag = log.segments[0].base, log.config.min_compaction_lag_ms
    for segment, following in pairwise(log.segments):
        if following.base > limit or (lag > 0 and segment.max_timestamp > now - lag):
            break
        end = following.base
    return end


def urgency(log: Log, first_dirty: int, now: int) -> float:
    """The share of the closed segments that is new; 0 while a pass is not worth it, above 1 when one is overdue."""
    end = cleanable_end(log, now)
    dirty = [s for s, following in pairwise(log.segments) if following.base > first_dirty and s.base < end]
    new = sum(segment.size for segment in dirty)
    if not new or end <= first_dirty:
        return 0
    ratio = new / sum(segment.size for segment in log.segments if segment.base < end)
    if 0 <= dirty[0].max_timestamp < now - log.config.max_compaction_lag_ms:
        return 1 + ratio
    return ratio if ratio >= log.config.min_cleanable_ratio else 0


def is_sound(header: BatchHeader, buffer: bytes, at: int, next_offset: int) -> bool:
    """Safeguard, D6: rewriting a damaged batch would give it a right CRC, and would drop what lies behind it."""
    return header.base_offset >= next_offset and batches.crc_ok(buffer, at, header)


class Compaction:
    """One pass. It is `done` after the last step; unless it was `aborted`, no key occurs twice below `clean_to`."""

    __slots__ = (
        "_now",
        "_offset_map",
        "_truncation_count",
        "_work",
        "aborted",
        "clean_to",
        "damaged_at",
        "done",
        "log",
        "removed_bytes",
        "segments",
    )

    def __init__(self, log: Log, first_dirty: int, now: int, max_keys: int = MAX_KEYS) -> None:
        self.log = log
        self.done = self.aborted = False
        self.clean_to = first_dirty
        self.damaged_at: int | None = None
        """D6: the pass was aborted at the batch that starts at this offset, because it is damaged."""
        self.removed_bytes = 0
        self.segments = 0
        """How many segments were replaced or merged."""
        self._now = now
        self._truncation_count = log.truncation_count
        self._offset_map = OffsetMap(first_dirty, max_keys)
        self._work = self._run()

    def step(self, budget: int) -> SyncLater | None:
        """Process about `budget` bytes. If a sync is returned, it must be run, on any thread, before the next step."""
        spent = 0
        for cost in self._work:
            if not isinstance(cost, int):
                return cost
            spent += cost
            if spent >= budget:
                return None
        self.done = True
        return None

    def abort(self) -> None:
        """Close the files; an unfinished copy is removed when the log is opened or compacted again."""
        self._work.close()
        self.done = self.aborted = True

    def _run(self) -> Work:
        yield from self._fill_offset_map(cleanable_end(self.log, self._now))
        base = self.log.segments[0].base
        while not self.aborted and base < self._offset_map.end:
            sources = _group_segments(self.log, base, self._offset_map.end)
            base = self.log.segment_end(sources[-1])
            yield from self._replace(sources)
        if not self.aborted:
            self.clean_to = self._offset_map.end

    # --- reading -----------------------------------------------------------------------------------------------------

    def _fill_offset_map(self, end: int) -> Work:
        offset_map = self._offset_map
        start = offset_map.end
        for segment in [s for s, following in pairwise(self.log.segments) if following.base > start and s.base < end]:
            for header, buffer, at in self._read_batches([segment]):
                if header.last_offset < offset_map.end:
                    continue
                if not offset_map.has_room(header.count):
                    return
                self._note_keys(header, buffer, at)
                offset_map.end = header.next_offset
                yield header.length
        if not self.aborted:
            offset_map.end = max(offset_map.end, end)

    def _note_keys(self, header: BatchHeader, buffer: bytes, at: int) -> None:
        if header.is_control:
            return
        try:
            for record in list(batch_filter.raw_records(buffer, at, header)):
                if record.key is not None:
                    self._offset_map.put(record.key, record.offset)
        except MalformedBatchError:
            return  # a batch that cannot be decoded is kept as it is

    def _read_batches(self, segments: list[Segment]) -> Iterator[tuple[BatchHeader, bytes, int]]:
        """(header, buffer, position in the buffer) of each batch. Uses file handles of its own: the log opens and
        closes its files as its readers come and go."""
        for segment in segments:
            if not self._are_current([segment]):
                return
            file = open_file(self.log.disk, segment.paths()[0])
            end, next_offset = 0, segment.base
            try:
                for position, header, buffer, at in scan.batches(file, 0, segment.size):
                    if not is_sound(header, buffer, at, next_offset):
                        break
                    yield header, buffer, at
                    end, next_offset = position + header.length, header.next_offset
            finally:
                file.close()
            if end != segment.size and not self.aborted:
                self.aborted = True
                self.damaged_at = next_offset
                return

    def _are_current(self, segments: list[Segment]) -> bool:
        """Aborts if, between two steps, the log was truncated or retention dropped one of the segments."""
        log = self.log
        current = log.truncation_count == self._truncation_count and all(s in log.segments for s in segments)
        self.aborted = self.aborted or not current
        return current

    # --- replacing ---------------------------------------------------------------------------------------------------

    def _replace(self, sources: list[Segment]) -> Work:
        log = self.log
        copy = CleanedSegment(log, sources[0].base)
        try:
            yield from self._copy_records(sources, copy)
            copy.changed = copy.changed or len(sources) > 1
            if copy.changed:
                yield copy.file.sync_later()
        finally:
            copy.file.close()
        if self._are_current(sources) and not self.aborted and copy.changed:
            self.removed_bytes += sum(segment.size for segment in sources) - copy.segment.size
            self.segments += len(sources)
            log.swap_segments(sources, copy.segment, copy.path)
        else:
            log.disk.remove(copy.path)

    def _copy_records(self, sources: list[Segment], copy: CleanedSegment) -> Work:
        record_filter = RecordFilter(self._offset_map, self.log, self._now)
        last: BatchHeader | None = None
        for header, buffer, at in self._read_batches(sources):
            copy.append(header, buffer[at : at + header.length], record_filter.apply(header, buffer, at))
            last = header
            yield header.length
        if last is not None:
            copy.finish(last)


def _group_segments(log: Log, base: int, end: int) -> list[Segment]:
    """The closed segments from `base` on that become one: dirty, and together no larger than a segment may be."""
    group: list[Segment] = []
    size = 0
    for segment, following in pairwise(log.segments):
        if segment.base < base:
            continue
        size += segment.size
        too_wide = following.base - base > MAX_RELATIVE_OFFSET
        if group and (segment.base >= end or size > log.config.segment_bytes or too_wide):
            break
        group.append(segment)
    return group


class OffsetMap:
    """The newest offset of each key below `end`, for at most `limit` keys.

    Long keys are kept as 16-byte digests and short ones as they are: a key of 16 bytes or more never equals a short
    one.
    """

    __slots__ = ("_limit", "_offsets", "end")

    def __init__(self, start: int, limit: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._limit = limit
        self.end = start

    def has_room(self, count: int) -> bool:
        """Whether `count` more keys fit. The first batch always fits."""
        return not self._offsets or len(self._offsets) + count <= self._limit

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_shorten(key)] = offset

    def newest(self, key: bytes) -> int:
        """-1 if the key does not occur."""
        return self._offsets.get(_shorten(key), -1)


def _shorten(key: bytes) -> bytes:
    return key if len(key) < _MAX_KEY_BYTES else blake2b(key, digest_size=_MAX_KEY_BYTES).digest()


class RecordFilter:
    """Which records of a batch stay. Above the end of the offset map nothing is known and everything stays."""

    __slots__ = ("_horizon", "_now", "_offset_map", "_producers")

    def __init__(self, offset_map: OffsetMap, log: Log, now: int) -> None:
        self._offset_map = offset_map
        self._now = now
        self._horizon = min(now + log.config.delete_retention_ms, _MAX_HORIZON)
        self._producers = log.producers.producers

    def apply(self, header: BatchHeader, buffer: bytes, at: int) -> bytes | None:
        """The batch as it is to be stored; None if nothing of it is kept."""
        if header.base_offset >= self._offset_map.end or header.is_control:
            return buffer[at : at + header.length]
        try:
            kept = batch_filter.filter_batch(buffer, at, header, self._make_predicate(header), self._horizon)
        except MalformedBatchError:
            return buffer[at : at + header.length]
        if kept is None and self.is_last_of_producer(header):
            return batch_filter.make_empty_batch(header)
        return kept

    def is_last_of_producer(self, header: BatchHeader) -> bool:
        """P4: a producer's sequence continues from its last batch, so the log must keep that one."""
        producer = self._producers.get(header.producer_id)
        return producer is not None and producer.last_offset == header.last_offset

    def _make_predicate(self, header: BatchHeader) -> batch_filter.Keep:
        horizon = batch_filter.delete_horizon(header)
        drops_tombstones = horizon is not None and self._now >= horizon
        newest = self._offset_map.newest

        def keep(record: RawRecord) -> bool:
            if record.key is None or record.offset < newest(record.key):
                return False  # nothing could ever supersede a record without a key
            return not (record.tombstone and drops_tombstones)

        return keep


class CleanedSegment:
    """A compacted segment under construction: `segment` indexes what is written to `file`."""

    __slots__ = ("_buffer", "_skipped", "changed", "file", "path", "segment")

    def __init__(self, log: Log, base: int) -> None:
        self.segment = Segment(log.disk, log.directory, base, 0, log.config.index_interval_bytes)
        self.path = segment_swap.cleaned_path(log.directory, base)
        self.file = log.disk.open(self.path)
        self.file.truncate(0)
        self.changed = False
        self._buffer = bytearray()
        self._skipped: bytes | None = None  # the previous batch, if nothing of it was kept

    def append(self, header: BatchHeader, original: bytes, kept: bytes | None) -> None:
        """Write what was kept of a batch."""
        self.changed = self.changed or self._skipped is not None or (kept is not None and kept != original)
        self._skipped = original if kept is None else None
        if kept is not None:
            self._write(header, kept)

    def finish(self, last: BatchHeader) -> None:
        """Safeguard: a segment ends where the next one starts; a gap there would be taken for lost records."""
        if self._skipped is not None:
            empty = batch_filter.make_empty_batch(last)
            self.changed = self.changed or empty != self._skipped
            self._write(last, empty)
        self._flush()

    def _write(self, header: BatchHeader, data: bytes) -> None:
        timestamp = batches.read_header(data).max_timestamp
        segment = self.segment
        segment.note(segment.size, len(data), header.last_offset, timestamp)
        segment.size += len(data)
        self._buffer += data
        if len(self._buffer) >= _WRITE_BYTES:
            self._flush()

    def _flush(self) -> None:
        self.file.append(self._buffer)
        self._buffer = bytearray()
