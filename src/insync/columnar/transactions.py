"""Which batches a read_committed reader sees: those of aborted transactions are skipped.

A fetch response lists the aborted transactions of its range, each with its producer and its first offset. From that
offset on, the producer's transactional batches are invisible, up to its abort marker.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from insync.columnar.headers import CONTROL, TRANSACTIONAL, Headers
from insync.wire import batch

_ABORT = 0
_TYPE_AT = 2


def find_committed(headers: Headers, data: memoryview, aborted: tuple[tuple[int, int], ...]) -> Any:
    """A mask over the batches."""
    upcoming = sorted(aborted, key=lambda transaction: transaction[1], reverse=True)
    aborting: dict[int, None] = {}
    mask = np.ones(len(headers), np.bool_)
    for i in range(len(headers)):
        while upcoming and upcoming[-1][1] <= headers.last_offset[i]:
            aborting[upcoming.pop()[0]] = None
        producer, attributes = int(headers.producer_id[i]), int(headers.attributes[i])
        if not attributes & TRANSACTIONAL or producer not in aborting:
            continue
        if not attributes & CONTROL:
            mask[i] = False
        elif _is_abort(data, int(headers.position[i])):
            del aborting[producer]
    return mask


def _is_abort(data: memoryview, position: int) -> bool:
    key = next(iter(batch.records(data, position))).key or b""
    return int.from_bytes(key[_TYPE_AT : _TYPE_AT + 2], "big") == _ABORT
