"""Which partition a record goes to: the one it names, else by its key as in Kafka's clients, else block by block.

Of the records without a key, `BLOCK` in a row go to the same partition, so that batches become large. The partition
depends only on how many such records came before, so writing the same rows again chooses the same partitions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from insync.columnar.columns import BinaryColumn

BLOCK = 1_000

_MIX = np.uint32(0x5BD1E995)
_SEED = np.uint32(0x9747B28C)


def choose_partitions(keys: BinaryColumn, given: Any, partitions: int, start: int, before: int) -> tuple[Any, int]:
    """(partition of each row, number of records without a key so far). `given` has -1 where a row names none."""
    chosen = np.empty(len(given), np.int32)
    before = _choose(*keys, given, partitions, start, before, chosen)
    return chosen, int(before)


def group_by_partition(chosen: Any, partitions: int) -> list[tuple[int, Any]]:
    """(partition, its rows in order), for each partition with rows."""
    order = np.argsort(chosen, kind="stable")
    counts = np.bincount(chosen, minlength=partitions)
    ends = np.cumsum(counts)
    return [(int(p), order[ends[p] - counts[p] : ends[p]]) for p in np.flatnonzero(counts)]


@njit(cache=True)  # type: ignore[untyped-decorator]
def _choose(at: Any, data: Any, known: Any, given: Any, partitions: int, start: int, before: int, chosen: Any) -> int:
    for i in range(len(given)):
        if given[i] >= 0:
            chosen[i] = given[i]
        elif known[i]:
            chosen[i] = (
                np.int64(_murmur2(data, np.int64(at[i]), np.int64(at[i + 1])) & np.uint32(0x7FFFFFFF)) % partitions
            )
        else:
            chosen[i] = (start + before // BLOCK) % partitions
            before += 1
    return before


@njit(cache=True)  # type: ignore[untyped-decorator]
def _murmur2(data: Any, at: int, end: int) -> Any:
    """32-bit murmur2 with the seed of Kafka's clients."""
    value = np.uint32(_SEED ^ np.uint32(end - at))
    while end - at >= 4:
        k = (
            np.uint32(data[at])
            | (np.uint32(data[at + 1]) << np.uint32(8))
            | (np.uint32(data[at + 2]) << np.uint32(16))
            | (np.uint32(data[at + 3]) << np.uint32(24))
        )
        k = np.uint32(k * _MIX)
        k = np.uint32((k ^ (k >> np.uint32(24))) * _MIX)
        value = np.uint32(np.uint32(value * _MIX) ^ k)
        at += 4
    if at < end:
        for i in range(end - at):
            value = np.uint32(value ^ (np.uint32(data[at + i]) << np.uint32(8 * i)))
        value = np.uint32(value * _MIX)
    value = np.uint32((value ^ (value >> np.uint32(13))) * _MIX)
    return np.uint32(value ^ (value >> np.uint32(15)))
