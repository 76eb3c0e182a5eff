"""Decoding alone, on one core and without Spark: answers of 4 MB to Arrow columns. Aim: 20 Mrec/s, uncompressed."""

from __future__ import annotations

import random
import time

from common import table

from insync import memory
from insync.columnar.decode import DecodeOptions, decode
from insync.wire import batch, compression

ANSWER = 4 << 20
RECORDS = 1_000
"""Of one batch."""
COLUMNS = ("key", "value", "offset", "timestamp", "timestampType")


def measured(seconds: float) -> dict[str, float]:
    """For each size and codec, the fastest answer in so many seconds."""
    memory.keep_buffers()  # as every worker does
    found, lines = {}, []
    for size in (100, 1_000):
        for codec in compression.NAMES:
            data, records = _answer(size, codec)
            took = _fastest(data, records, seconds)
            title = f"{size} B, {codec}"
            found[title] = records / took
            lines.append((title, records / took / 1e6, len(data) / took / 1e6))
    table("decoding, one core", ("", "Mrec/s", "MB/s of log"), lines)
    return found


def _answer(size: int, codec: str) -> tuple[bytes, int]:
    numbers = random.Random(size)
    values = [numbers.randbytes(size // 2).hex().encode() for _ in range(RECORDS)]
    parts: list[bytes] = []
    while sum(map(len, parts)) < ANSWER:
        records = [batch.NewRecord(None, value) for value in values]
        built = batch.build(records, base_offset=len(parts) * RECORDS, timestamp_ms=1_000, compression=codec)
        parts.append(bytes(built))
    return b"".join(parts), len(parts) * RECORDS


def _fastest(data: bytes, records: int, seconds: float) -> float:
    wanted = DecodeOptions(COLUMNS)
    until, best = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < until or best == float("inf"):
        began = time.perf_counter()
        if decode(data, wanted).rows != records:
            raise RuntimeError("records are missing")
        best = min(best, time.perf_counter() - began)
    return best
