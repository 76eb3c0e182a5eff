"""Which records of a batch outlive a compaction, and the copy of a segment that they make."""

from __future__ import annotations

from insync.storage import segment_swap
from insync.storage.key_offsets import KeyOffsets
from insync.storage.log import Log
from insync.storage.segment import Segment
from insync.wire import batch as batches
from insync.wire import filtering
from insync.wire.batch import BatchHeader
from insync.wire.errors import MalformedBatch
from insync.wire.filtering import RawRecord

_CHUNK = 1 << 18
_FAR = 1 << 60


class Survivors:
    """By the newest offsets of the keys, below `keys.end`; above it nothing is known and everything stays."""

    __slots__ = ("_horizon", "_keys", "_now", "_producers")

    def __init__(self, keys: KeyOffsets, log: Log, now: int) -> None:
        self._keys = keys
        self._now = now
        self._horizon = min(now + log.config.delete_retention_ms, _FAR)
        self._producers = log.producers.producers

    def of(self, header: BatchHeader, buffer: bytes, at: int) -> bytes | None:
        """The batch as it is to be stored; None if nothing of it is."""
        if header.base_offset >= self._keys.end or header.is_control:
            return buffer[at : at + header.length]
        try:
            kept = filtering.filtered(buffer, at, header, self._keep_of(header), self._horizon)
        except MalformedBatch:
            return buffer[at : at + header.length]
        if kept is None and self.is_last_of_producer(header):
            return filtering.emptied(header)
        return kept

    def is_last_of_producer(self, header: BatchHeader) -> bool:
        """P4: sequences go on from a producer's last batch, so the log must still tell of it."""
        producer = self._producers.get(header.producer_id)
        return producer is not None and producer.last_offset == header.last_offset

    def _keep_of(self, header: BatchHeader) -> filtering.Keep:
        horizon = filtering.delete_horizon(header)
        tombstones_go = horizon is not None and self._now >= horizon
        newest = self._keys.newest

        def keep(record: RawRecord) -> bool:
            if record.key is None or record.offset < newest(record.key):
                return False  # a record without a key would be superseded by none, for ever
            return not (record.tombstone and tombstones_go)

        return keep


class SegmentCopy:
    """A segment under construction: `segment` indexes what is written to `file`."""

    __slots__ = ("_buffer", "_left_out", "changed", "file", "path", "segment")

    def __init__(self, log: Log, base: int) -> None:
        self.segment = Segment(log.disk, log.directory, base, 0, log.config.index_interval_bytes)
        self.path = segment_swap.cleaned_path(log.directory, base)
        self.file = log.disk.open(self.path)
        self.file.truncate(0)
        self.changed = False
        self._buffer = bytearray()
        self._left_out: bytes | None = None  # the batch before, if nothing of it was kept

    def put(self, header: BatchHeader, buffer: bytes, at: int, kept: bytes | None) -> None:
        """Write what was kept of a batch."""
        before = buffer[at : at + header.length]
        self.changed = self.changed or self._left_out is not None or (kept is not None and kept != before)
        self._left_out = before if kept is None else None
        if kept is not None:
            self._write(header, kept)

    def end_at(self, last: BatchHeader) -> None:
        """Safeguard: a segment ends where the next one starts; a gap there would be taken for lost records."""
        if self._left_out is not None:
            mark = filtering.emptied(last)
            self.changed = self.changed or mark != self._left_out
            self._write(last, mark)
        self._flush()

    def _write(self, header: BatchHeader, data: bytes) -> None:
        timestamp = batches.read_header(data).max_timestamp
        segment = self.segment
        segment.note(segment.size, len(data), header.last_offset, timestamp)
        segment.size += len(data)
        self._buffer += data
        if len(self._buffer) >= _CHUNK:
            self._flush()

    def _flush(self) -> None:
        self.file.append(self._buffer)
        self._buffer = bytearray()
