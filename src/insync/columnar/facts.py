"""Columns that a batch's header tells: repeated for each of its records, never walked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from insync.columnar.headers import CODEC, CONTROL, LOG_APPEND_TIME, TRANSACTIONAL, Headers
from insync.wire import compression

_SEQUENCES = 1 << 31
_CODECS = pa.array([*compression.NAMES, None, None, None])  # as many as three bits can name


class Facts:
    def __init__(self, headers: Headers, rows_of: Any, offsets: Any, crc_ok: Any, base_position: int) -> None:
        self.headers = headers
        self.crc_ok = crc_ok
        self.base_position = base_position
        self._rows_of = rows_of
        self._offsets = offsets

    def make(self, name: str) -> Any:
        return _MAKE[name](self)

    def repeated(self, of_batches: Any) -> Any:
        return np.repeat(of_batches, self._rows_of)

    def flag(self, mask: int) -> Any:
        return self.repeated((self.headers.attributes & mask) != 0)

    def sequence(self) -> Any:
        """Of a record, as Kafka counts it: the batch's plus the offset's distance, and after the largest comes 0."""
        base = self.repeated(self.headers.base_sequence)
        distance = self._offsets - self.repeated(self.headers.base_offset)
        return np.where(base < 0, -1, (base + distance) % _SEQUENCES)

    def codec(self) -> pa.Array:
        of_batches = self.headers.attributes & CODEC
        if len(of_batches) and (of_batches == of_batches[0]).all():  # nearly always, and much cheaper
            return pa.repeat(_CODECS[int(of_batches[0])], len(self._offsets))
        return _CODECS.take(pa.array(self.repeated(of_batches)))

    def times(self, created: Any) -> Any:
        """Milliseconds: `created` as the producers gave them, or when the broker appended the batch."""
        if not (self.headers.attributes & LOG_APPEND_TIME).any():
            return created
        return np.where(self.flag(LOG_APPEND_TIME), self.repeated(self.headers.max_timestamp), created)


_MAKE: dict[str, Callable[[Facts], Any]] = {
    "timestampType": lambda facts: facts.flag(LOG_APPEND_TIME),
    "leader_epoch": lambda facts: facts.repeated(facts.headers.leader_epoch),
    "base_offset": lambda facts: facts.repeated(facts.headers.base_offset),
    "batch_position": lambda facts: facts.repeated(facts.headers.position + facts.base_position),
    "batch_size": lambda facts: facts.repeated(facts.headers.size),
    "producer_id": lambda facts: facts.repeated(facts.headers.producer_id),
    "producer_epoch": lambda facts: facts.repeated(facts.headers.producer_epoch),
    "sequence": Facts.sequence,
    "codec": Facts.codec,
    "control": lambda facts: facts.flag(CONTROL),
    "transactional": lambda facts: facts.flag(TRANSACTIONAL),
    "crc_ok": lambda facts: facts.repeated(facts.crc_ok),
}
