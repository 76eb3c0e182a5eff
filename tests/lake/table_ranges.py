"""Ranges of numbered rows for tables."""

from __future__ import annotations

from typing import Any

from insync.lake.ledger import Range
from insync.lake.tables.ledger import TableLedger
from insync.lake.writer import RangeWriter
from tests.lake.lake_rows import make_rows

TOPIC_ID = "ffffffff-ffff-4fff-8fff-00000000000b"
DAY_MS = 86_400_000


def write(ledger: TableLedger, start: int, end: int, *, attempt: str = "ab", **fields: Any) -> Range:
    """Files of a range that is not committed yet, of several dates."""
    known: dict[str, Any] = {
        "topic": "orders",
        "topic_id": TOPIC_ID,
        "partition": 0,
        "generation": 0,
        "epoch": 3,
        "seen": end,
    }
    known |= fields
    times = known.pop("times", [20_000 * DAY_MS + i * DAY_MS // 40 for i in range(start, end)])
    writer = RangeWriter(
        ledger.table(known["topic"]).data,
        topic=known["topic"],
        partition=known["partition"],
        start=start,
        end=end,
        attempt=f"{attempt}-1",
        codec="zstd",
    )
    writer.add(make_rows(start, times))
    files = tuple(writer.close())
    return Range(start=start, end=end, files=files, rows=end - start, **known)
