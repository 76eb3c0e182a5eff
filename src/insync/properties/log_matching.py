"""S2: below their high watermarks all replicas hold the same records.

Comparing every log with the committed one, up to the log's own high watermark, implies that each pair agrees up to
the lower of the two.
"""

from __future__ import annotations

from insync.properties.violation import Property
from insync.wire import batch

PROPERTY = Property(
    "S2", "Log Matching", "Two replicas of a partition hold the same batches below the lower of their high watermarks."
)


def check(replica: int, verified_to: int, hwm: int, committed_end: int) -> str | None:
    stable = min(hwm, committed_end)
    if verified_to >= stable:
        return None
    return f"replica {replica} differs from the committed log at {verified_to}, below its high watermark {hwm}"


def check_bytes(replica: int, records: bytes, committed_end: int) -> str | None:
    """Logs are compared by their headers; this compares the bytes of a log that was just opened with its headers."""
    for position, header in batch.iter_headers(records):
        if header.base_offset < committed_end and batch.crc_of(records, position, header) != header.crc:
            return f"replica {replica} does not hold the committed bytes at {header.base_offset}"
    return None
