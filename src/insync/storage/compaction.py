"""Log compaction: of all records with one key, only the last stays (cleanup.policy compact).

One `Compaction` is one pass over one log, done in small steps so that it can share a thread with everything else. It
reads the part that is new since the last pass and notes the newest offset of each key, as many keys as fit. Then it
copies all closed segments up to there, neighbours that fit into one together, without the records that a newer one
supersedes, and swaps each copy in. Offsets never change; a read of an offset that is gone goes on with the next one.

A record without a value is a tombstone: the pass that first sees it gives its batch a delete horizon, now +
delete.retention.ms, and a later pass drops it. By then what it deletes has gone before it, in the same order.

Kept, though it holds no record any more: the last batch of each producer (P4 can be derived from the log again), and
the last batch of a segment, so that each segment still ends where the next one starts, as recovery demands.

Never touched: the growing segment, and anything not below the high watermark. Each replica compacts for itself, so
below the high watermark replicas agree on the last value of each key, not on bytes; the simulator's checker compares
bytes, and its topics therefore have cleanup.policy delete. How far a log is clean is not stored: after a restart the
first pass looks at all of it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import pairwise

from insync.storage import scan
from insync.storage.disk import SyncLater, open_file
from insync.storage.key_offsets import KeyOffsets
from insync.storage.log import Log
from insync.storage.segment import MAX_RELATIVE_OFFSET, Segment
from insync.storage.survivors import SegmentCopy, Survivors
from insync.wire import batch as batches
from insync.wire import filtering
from insync.wire.batch import BatchHeader
from insync.wire.errors import MalformedBatch

MAX_KEYS = 250_000

Found = tuple[int, BatchHeader, bytes, int]
Work = Generator[int | SyncLater, None, None]


def cleanable_end(log: Log, now: int) -> int:
    """Safeguard: the first offset that compaction must not touch: uncommitted, still growing, or too young."""
    limit = min(log.hwm, log.active.base)
    end, lag = log.segments[0].base, log.config.min_compaction_lag_ms
    for segment, following in pairwise(log.segments):
        if following.base > limit or (lag > 0 and segment.max_timestamp > now - lag):
            break
        end = following.base
    return end


def urgency(log: Log, first_dirty: int, now: int) -> float:
    """The part of the closed segments that is new; 0 while it is not worth a pass, above 1 when one is overdue."""
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
    """Safeguard, D6: rewritten, a damaged batch would get a right CRC; and what lies behind it would be left out."""
    return header.base_offset >= next_offset and batches.crc_ok(buffer, at, header)


class Compaction:
    """`done` after the last step; `clean_to` then says up to where no key occurs twice, unless it was `overtaken`."""

    __slots__ = (
        "_keys",
        "_now",
        "_truncation_count",
        "_work",
        "clean_to",
        "damaged_at",
        "done",
        "log",
        "overtaken",
        "removed_bytes",
        "segments",
    )

    def __init__(self, log: Log, first_dirty: int, now: int, max_keys: int = MAX_KEYS) -> None:
        self.log = log
        self.done = self.overtaken = False
        self.clean_to = first_dirty
        self.damaged_at: int | None = None
        """D6: the pass was given up at the batch from this offset on, because it is damaged."""
        self.removed_bytes = 0
        self.segments = 0
        """How many segments went, replaced by others or merged into them."""
        self._now = now
        self._truncation_count = log.truncation_count
        self._keys = KeyOffsets(first_dirty, max_keys)
        self._work = self._run()

    def step(self, budget: int) -> SyncLater | None:
        """Look at about `budget` bytes. A sync that it returns has to be run, anywhere, before the next step."""
        spent = 0
        for cost in self._work:
            if not isinstance(cost, int):
                return cost
            spent += cost
            if spent >= budget:
                return None
        self.done = True
        return None

    def abandon(self) -> None:
        """Close the files; an unfinished copy is removed when the log is opened or compacted again."""
        self._work.close()
        self.done = self.overtaken = True

    def _run(self) -> Work:
        yield from self._note_keys(cleanable_end(self.log, self._now))
        base = self.log.segments[0].base
        while not self.overtaken and base < self._keys.end:
            sources = _group(self.log, base, self._keys.end)
            base = self._end_of(sources)
            yield from self._replace(sources)
        if not self.overtaken:
            self.clean_to = self._keys.end

    # --- reading -----------------------------------------------------------------------------------------------------

    def _note_keys(self, end: int) -> Work:
        keys = self._keys
        for segment in self._between(keys.end, end):
            for _, header, buffer, at in self._batches([segment]):
                if header.last_offset < keys.end:
                    continue
                if not keys.fits(header.count):
                    return
                self._note_batch(header, buffer, at)
                keys.end = header.next_offset
                yield header.length
        keys.end = max(keys.end, end) if not self.overtaken else keys.end

    def _between(self, start: int, end: int) -> list[Segment]:
        return [s for s, following in pairwise(self.log.segments) if following.base > start and s.base < end]

    def _note_batch(self, header: BatchHeader, buffer: bytes, at: int) -> None:
        if header.is_control:
            return
        try:
            for record in list(filtering.raw_records(buffer, at, header)):
                if record.key is not None:
                    self._keys.put(record.key, record.offset)
        except MalformedBatch:
            return  # what a client wrote and nobody can read is kept as it is

    def _batches(self, segments: list[Segment]) -> Iterator[Found]:
        """With handles of its own: the log opens and closes its files as its readers come and go."""
        for segment in segments:
            if not self._still_there([segment]):
                return
            file = open_file(self.log.disk, segment.paths()[0])
            end, next_offset = 0, segment.base
            try:
                for position, header, buffer, at in scan.batches(file, 0, segment.size):
                    if not is_sound(header, buffer, at, next_offset):
                        break
                    yield position, header, buffer, at
                    end, next_offset = position + header.length, header.next_offset
            finally:
                file.close()
            if end != segment.size and not self.overtaken:
                self.overtaken = True
                self.damaged_at = next_offset
                return

    def _still_there(self, segments: list[Segment]) -> bool:
        """Between two steps the log may have been truncated, or retention may have dropped what is being copied."""
        log = self.log
        there = log.truncation_count == self._truncation_count and all(segment in log.segments for segment in segments)
        self.overtaken = self.overtaken or not there
        return there

    # --- replacing ---------------------------------------------------------------------------------------------------

    def _replace(self, sources: list[Segment]) -> Work:
        log = self.log
        copy = SegmentCopy(log, sources[0].base)
        try:
            yield from self._fill(copy, sources)
            copy.changed = copy.changed or len(sources) > 1
            if copy.changed:
                yield copy.file.sync_later()
        finally:
            copy.file.close()
        if self._still_there(sources) and not self.overtaken and copy.changed:
            self.removed_bytes += sum(segment.size for segment in sources) - copy.segment.size
            self.segments += len(sources)
            log.swap_segments(sources, copy.segment, copy.path)
        else:
            log.disk.remove(copy.path)

    def _end_of(self, sources: list[Segment]) -> int:
        return self.log.segments[self.log.segments.index(sources[-1]) + 1].base

    def _fill(self, copy: SegmentCopy, sources: list[Segment]) -> Work:
        survivors = Survivors(self._keys, self.log, self._now)
        last: BatchHeader | None = None
        for _, header, buffer, at in self._batches(sources):
            copy.put(header, buffer, at, survivors.of(header, buffer, at))
            last = header
            yield header.length
        if last is not None:
            copy.end_at(last)


def _group(log: Log, base: int, end: int) -> list[Segment]:
    """The segments from `base` on that become one: closed, to be cleaned, and together no larger than a segment."""
    found: list[Segment] = []
    size = 0
    for segment, following in pairwise(log.segments):
        if segment.base < base:
            continue
        size += segment.size
        too_wide = following.base - base > MAX_RELATIVE_OFFSET
        if found and (segment.base >= end or size > log.config.segment_bytes or too_wide):
            break
        found.append(segment)
    return found
