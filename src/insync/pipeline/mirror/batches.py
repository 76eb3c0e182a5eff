"""A source's batches as batches of the mirror, with its producer id and sequence numbers.

A large batch without gaps is forwarded: only fields of its header change, its records stay compressed as they are.
Others are decoded, and their records packed into larger batches of the same codec: small ones, because a request has
one batch for each partition; those with gaps, because a sequence counts offsets; and those with the broker's time.
Control batches and aborted transactions are left out. What a transaction committed is written without one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from insync.client.errors import ClientError
from insync.columnar.columns import Columns, to_columns
from insync.columnar.decode import DecodeOptions, decode
from insync.columnar.encode import BatchBuilder
from insync.columnar.headers import CODEC, CONTROL, LOG_APPEND_TIME, MAGIC, TRANSACTIONAL, Headers, scan_headers
from insync.columnar.transactions import find_committed
from insync.pipeline.fenced_sender import SEQUENCES, Producer

MIN_FORWARDED_BYTES = 64 << 10
"""Smaller batches are merged."""
RECORD = ("offset", "key", "value", "headers", "timestamp")

_DELETE_HORIZON = 0x40
_BASE = Struct(">q")
_EPOCH = Struct(">i")
_ATTRIBUTES = Struct(">h")
_PRODUCER = Struct(">qhi")
_CRC = Struct(">I")
_EPOCH_AT, _CRC_AT, _ATTRIBUTES_AT, _PRODUCER_AT = 12, 17, 21, 43


@dataclass(frozen=True, slots=True)
class MirrorBatch:
    data: bytes
    position: int
    """The number of its first record in the mirror of the partition."""
    count: int
    source: int
    """The offset of its first record in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    merged_bytes: int
    """Size of batches that are made of small ones, before compression."""
    max_bytes: int
    """The target's max.message.bytes."""


class MirrorBatches:
    """The records at offsets from `start` up to `end` of one partition, without the first `skip`, which the target has.

    `position` is the number of the first record, skipped or not.
    """

    def __init__(
        self, name: str, start: int, end: int, *, position: int, skip: int, producer: Producer, limits: BatchLimits
    ) -> None:
        self._name = name
        self._end = end
        self._skip = skip
        self._producer = producer
        self._limits = limits
        self._builder = BatchBuilder(0, limits.merged_bytes)
        self._codec = 0
        self._first_source = start
        self._now_ms = time.time_ns() // 1_000_000
        self.source = start
        """The next offset of the source."""
        self.position = position
        """The number of the next record, without those in the unfinished batch."""
        self.forwarded = 0
        """Batches that were forwarded."""

    def add(self, data: bytes | memoryview, aborted: tuple[tuple[int, int], ...]) -> Iterator[MirrorBatch]:
        """The batches that are complete after a response of the source's leader."""
        plain = np.frombuffer(data, np.uint8)
        headers, _, broken = scan_headers(plain)
        if broken:
            raise ClientError(f"{self._name}: what follows offset {self.source} is not a record batch")
        view = memoryview(data)
        mask = (headers.last_offset >= self.source) & (headers.base_offset < self._end)
        mask &= (headers.attributes & CONTROL) == 0
        if aborted:
            mask &= find_committed(headers, view, aborted)
        visible = headers.select(mask)
        forwarded = self._find_forwarded(visible)
        codecs = visible.attributes & CODEC
        kinds = zip(forwarded.tolist(), codecs.tolist(), range(len(visible)), strict=True)
        for (is_forwarded, codec), entries in groupby(kinds, key=lambda kind: kind[:2]):
            indexes = [index for _, _, index in entries]
            if is_forwarded:
                for index in indexes:
                    yield from self._forward(view, visible, index)
            else:
                yield from self._merge(_join(view, visible, indexes), codec)
        if len(headers):
            self.source = max(self.source, min(int(headers.last_offset[-1]) + 1, self._end))

    def finish(self) -> Iterator[MirrorBatch]:
        """The last batch. The range is read to its end."""
        if self._builder.count:
            yield self._finish_batch()
        self.source = self._end

    def _find_forwarded(self, headers: Headers) -> Any:
        """A mask over the batches."""
        changed = LOG_APPEND_TIME | CONTROL | _DELETE_HORIZON
        mask = (headers.magic == MAGIC) & ((headers.attributes & changed) == 0)
        mask &= (headers.count > 0) & (headers.count == headers.last_offset_delta + 1)
        mask &= (headers.base_offset >= self.source) & (headers.last_offset < self._end)
        return mask & (headers.size >= MIN_FORWARDED_BYTES) & (headers.size <= self._limits.max_bytes)

    def _forward(self, data: memoryview, headers: Headers, i: int) -> Iterator[MirrorBatch]:
        count, at, size = int(headers.count[i]), int(headers.position[i]), int(headers.size[i])
        if 0 < self._skip < count:  # a part of it is written
            yield from self._merge(data[at : at + size], int(headers.attributes[i]) & CODEC)
            return
        if self._builder.count:
            yield self._finish_batch()
        position = self.position
        self.position += count
        if self._skip:
            self._skip -= count
            return
        batch = bytearray(data[at : at + size])
        if crc32c(memoryview(batch)[_ATTRIBUTES_AT:]) != int(headers.crc[i]):
            raise self._damaged(int(headers.base_offset[i]), "the checksum is wrong")
        _BASE.pack_into(batch, 0, 0)
        _EPOCH.pack_into(batch, _EPOCH_AT, -1)
        _ATTRIBUTES.pack_into(batch, _ATTRIBUTES_AT, int(headers.attributes[i]) & ~TRANSACTIONAL)
        _PRODUCER.pack_into(batch, _PRODUCER_AT, self._producer.id, self._producer.epoch, position % SEQUENCES)
        _CRC.pack_into(batch, _CRC_AT, crc32c(memoryview(batch)[_ATTRIBUTES_AT:]))
        self.forwarded += 1
        yield MirrorBatch(bytes(batch), position, count, int(headers.base_offset[i]))

    def _merge(self, data: bytes | memoryview, codec: int) -> Iterator[MirrorBatch]:
        decoded = decode(data, DecodeOptions(RECORD, self.source, self._end))
        if decoded.corrupt:
            raise self._damaged(decoded.corrupt[0].base_offset, decoded.corrupt[0].reason)
        if codec != self._codec:
            if self._builder.count:
                yield self._finish_batch()
            self._builder, self._codec = BatchBuilder(codec, self._limits.merged_bytes), codec
        done = min(self._skip, decoded.rows)
        self._skip -= done
        self.position += done
        columns, offsets = to_record_columns(decoded.batch), decoded.batch.column("offset").to_numpy()
        rows = np.arange(decoded.rows)
        while done < decoded.rows:
            if not self._builder.count:
                self._first_source = int(offsets[done])
            done += self._builder.add(columns, rows, done, self._now_ms)
            if done < decoded.rows:  # the batch is full
                yield self._finish_batch()

    def _finish_batch(self) -> MirrorBatch:
        position, count = self.position, self._builder.count
        self.position += count
        data = self._builder.finish(self._producer.id, self._producer.epoch, position % SEQUENCES)
        return MirrorBatch(data, position, count, self._first_source)

    def _damaged(self, offset: int, reason: str) -> ClientError:
        return ClientError(f"{self._name} at offset {offset} of the source is damaged: {reason}")


def to_record_columns(batch: pa.RecordBatch) -> Columns:
    names = ("value", "key", "headers", "timestamp")
    return to_columns(*(batch.column(name) for name in names))


def _join(data: memoryview, headers: Headers, indexes: list[int]) -> bytes | memoryview:
    """The bytes of some batches, without a copy if they are neighbours."""
    starts, ends = headers.position[indexes], headers.position[indexes] + headers.size[indexes]
    if (starts[1:] == ends[:-1]).all():
        return data[int(starts[0]) : int(ends[-1])]
    return b"".join([data[int(start) : int(end)] for start, end in zip(starts, ends, strict=True)])
