"""Columns that come from the header of a batch: one value, repeated for each of its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from insync.columnar.headers import CODEC, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Headers
from insync.wire import compression

_SEQUENCES = 1 << 31
_CODECS = pa.array([*compression.NAMES, None, None, None])  # as many as three bits can name


class HeaderColumns:
    def __init__(self, headers: Headers, rows_per_batch: Any, offsets: Any, crc_ok: Any, base_position: int) -> None:
        self.headers = headers
        self.crc_ok = crc_ok
        self.base_position = base_position
        self._rows_per_batch = rows_per_batch
        self._offsets = offsets

    def make(self, name: str) -> Any:
        return _MAKE[name](self)

    def repeat(self, values: Any) -> Any:
        return np.repeat(values, self._rows_per_batch)

    def repeat_flag(self, mask: int) -> Any:
        return self.repeat((self.headers.attributes & mask) != 0)

    def sequence(self) -> Any:
        """The sequence of each record, as in Kafka: the batch's plus the offset delta; after the largest comes 0."""
        base = self.repeat(self.headers.base_sequence)
        distance = self._offsets - self.repeat(self.headers.base_offset)
        return np.where(base < 0, -1, (base + distance) % _SEQUENCES)

    def codec(self) -> pa.Array:
        codecs = self.headers.attributes & CODEC
        if len(codecs) and (codecs == codecs[0]).all():  # nearly always, and much cheaper
            return pa.repeat(_CODECS[int(codecs[0])], len(self._offsets))
        return _CODECS.take(pa.array(self.repeat(codecs)))

    def times(self, created: Any) -> Any:
        """Timestamps in ms: `created` from the producer, or the time at which the broker appended the batch."""
        if not (self.headers.attributes & LOG_APPEND_TIME).any():
            return created
        return np.where(self.repeat_flag(LOG_APPEND_TIME), self.repeat(self.headers.max_timestamp), created)


_MAKE: dict[str, Callable[[HeaderColumns], Any]] = {
    "timestampType": lambda columns: columns.repeat_flag(LOG_APPEND_TIME),
    "leader_epoch": lambda columns: columns.repeat(columns.headers.leader_epoch),
    "base_offset": lambda columns: columns.repeat(columns.headers.base_offset),
    "batch_position": lambda columns: columns.repeat(columns.headers.position + columns.base_position),
    "batch_size": lambda columns: columns.repeat(columns.headers.size),
    "producer_id": lambda columns: columns.repeat(columns.headers.producer_id),
    "producer_epoch": lambda columns: columns.repeat(columns.headers.producer_epoch),
    "sequence": HeaderColumns.sequence,
    "codec": HeaderColumns.codec,
    "control": lambda columns: columns.repeat_flag(CONTROL),
    "transactional": lambda columns: columns.repeat_flag(TRANSACTIONAL),
    "crc_ok": lambda columns: columns.repeat(columns.crc_ok),
}
