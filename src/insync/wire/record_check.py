"""P5: are the records of a produced batch ones that every client can read, and that their topic accepts?

A good CRC says only that the bytes are those that the producer sent. A batch is decompressed, within bounds, and each
of its records is looked at by a compiled walk (`record_walk`), as Apache Kafka does. Where it would repair a batch
(offset deltas out of order) or store it as it is (bytes that are no UTF-8 in a header key), this refuses it.
"""

from __future__ import annotations

from typing import NamedTuple

from insync.wire import compression, record_walk
from insync.wire.batch import HEADER_SIZE, BatchHeader, Bytes
from insync.wire.errors import BatchTooLargeError, ErrorCode, MalformedBatchError, Refusal

__all__ = ["CheckedRecords", "DecompressionBudget", "RecordRules", "check_records", "max_uncompressed"]

SMALLEST_RECORD = 7
"""Bytes of a record with nothing in it."""
MAX_RECORDS = 1 << 20
"""Of one batch. What a megabyte can decompress to is more, if its records are empty; nothing else is served while a
broker looks at them."""
LEAST_UNCOMPRESSED = 1 << 24
LEAST_OF_REQUEST = 1 << 26
MOST_EXPANSION = 16
SHOWN = 3
"""Records that an error message names; all of them are in its `records`."""

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_FAR = 1 << 52
NO_TIMESTAMP = -1


def max_uncompressed(max_message_bytes: int) -> int:
    """Bytes to which a batch may expand: 16 times what the topic takes, at least 16 MiB, at most 128 MiB.

    Producers bound their batches before they compress them, so that real ones stay far below.
    """
    return min(max(LEAST_UNCOMPRESSED, MOST_EXPANSION * max_message_bytes), compression.MAX_UNPACKED)


class DecompressionBudget:
    """What the batches of one request may expand to together: one request with many of them must not block a node for
    longer than a request of its size may."""

    __slots__ = ("left",)

    def __init__(self, request_bytes: int) -> None:
        self.left = max(LEAST_OF_REQUEST, MOST_EXPANSION * request_bytes)


class RecordRules(NamedTuple):
    """What a topic's configuration demands of each record."""

    max_uncompressed: int = LEAST_UNCOMPRESSED
    max_records: int = MAX_RECORDS
    earliest: int = _INT64_MIN
    latest: int = _INT64_MAX
    """The timestamps that are accepted; -1, "no timestamp", always is."""
    keys: bool = False
    """Compacted: every record has a key."""


class CheckedRecords(NamedTuple):
    payload: bytes | None
    """The records uncompressed; None if the batch is not compressed."""
    max_timestamp: int
    """Of the records, whatever the header says; -1 if none of them has one."""


def check_records(
    batch: Bytes, header: BatchHeader, rules: RecordRules, budget: DecompressionBudget
) -> CheckedRecords | Refusal:
    """Look at every record of `batch`, whose header and CRC are known to be good."""
    if header.count > rules.max_records:
        return _too_many(header, rules)
    data, start, payload = bytes(batch), HEADER_SIZE, None
    if header.codec:
        limit = min(rules.max_uncompressed, budget.left)
        try:
            data = payload = compression.decompress(header.codec, data[HEADER_SIZE:], limit)
            budget.left -= len(payload)
        except BatchTooLargeError as error:
            budget.left -= limit
            return Refusal(ErrorCode.message_too_large, f"The record batch has {error}.")
        except MalformedBatchError as error:
            return Refusal(ErrorCode.invalid_record, f"The record batch cannot be decompressed: {error}.")
        start = 0
    if header.count * SMALLEST_RECORD > len(data) - start:
        room = len(data) - start
        return Refusal(ErrorCode.invalid_record, f"{header.count} records do not fit into {room} bytes.")
    base = header.base_timestamp
    status, index, last, unwanted = record_walk.walk(
        data,
        start,
        header.count,
        _near(rules.earliest - base),
        _near(rules.latest - base),
        _near(NO_TIMESTAMP - base),
        rules.keys,
    )
    if status:
        reason = record_walk.REASONS[status]
        return Refusal(ErrorCode.invalid_record, f"Record {index} is invalid: {reason}.", ((index, reason),))
    if unwanted:
        return _unwanted(unwanted, rules)
    if not _INT64_MIN <= base + last <= _INT64_MAX:
        return Refusal(ErrorCode.invalid_timestamp, "A timestamp is not a 64-bit number.")
    return CheckedRecords(payload, max(base + last, NO_TIMESTAMP))


def _too_many(header: BatchHeader, rules: RecordRules) -> Refusal:
    """A count that not even an uncompressed batch could have is a lie; producers split a batch that is too large."""
    if not header.codec and header.count * SMALLEST_RECORD > header.length:
        return Refusal(ErrorCode.invalid_record, f"{header.count} records do not fit into {header.length} bytes.")
    text = f"The record batch has {header.count} records, more than the {rules.max_records} that are looked at at once."
    return Refusal(ErrorCode.message_too_large, text)


def _near(delta: int) -> float:
    """Beyond every delta that the walk accepts is far enough, and a double holds it."""
    return float(max(-_FAR, min(delta, _FAR)))


def _unwanted(unwanted: record_walk.Unwanted, rules: RecordRules) -> Refusal:
    """In Apache Kafka's order: one bad timestamp makes it an INVALID_TIMESTAMP."""
    bad_timestamp = f"Timestamp is out of range: it should be within [{rules.earliest}, {rules.latest}]."
    no_key = "A compacted topic takes no record without a key."
    records = tuple([(index, bad_timestamp if is_timestamp else no_key) for index, is_timestamp in unwanted])
    if any(is_timestamp for _, is_timestamp in unwanted):
        return Refusal(
            ErrorCode.invalid_timestamp, "One or more records have been rejected due to invalid timestamp", records
        )
    shown = "; ".join([f"record {index}: {message}" for index, message in records[:SHOWN]])
    return Refusal(ErrorCode.invalid_record, f"{len(records)} records have been rejected: {shown}", records)
