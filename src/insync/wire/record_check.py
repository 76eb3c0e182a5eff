"""P5: checks that every client can read the records of a produced batch, and that their topic accepts them.

A correct CRC only shows that the bytes are those that the producer sent. A batch is decompressed, within bounds, and
compiled code (`record_walk`) checks each of its records, as Apache Kafka does. Where Kafka would repair a batch (offset
deltas out of order) or store it unchanged (a header key that is not UTF-8), this refuses it.
"""

from __future__ import annotations

from typing import NamedTuple

from insync.wire import compression, record_walk
from insync.wire.batch import HEADER_SIZE, BatchHeader, Bytes
from insync.wire.errors import BatchTooLargeError, ErrorCode, MalformedBatchError, Refusal

__all__ = ["CheckedRecords", "DecompressionBudget", "RecordRules", "check_records", "max_uncompressed"]

SMALLEST_RECORD = 7
"""Bytes of an empty record."""
MAX_RECORDS = 1 << 20
"""Per batch. A megabyte can decompress to more empty records; a broker serves no other client while it checks them."""
LEAST_UNCOMPRESSED = 1 << 24
LEAST_OF_REQUEST = 1 << 26
MOST_EXPANSION = 16
SHOWN = 3
"""Records that an error message lists; its `records` has all of them."""

_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1
_FAR = 1 << 52
NO_TIMESTAMP = -1


def max_uncompressed(max_message_bytes: int) -> int:
    """Bytes to which a batch may expand: 16 times the topic's limit, at least 16 MiB, at most 128 MiB.

    Producers limit their batches before they compress them, so real batches stay far below.
    """
    return min(max(LEAST_UNCOMPRESSED, MOST_EXPANSION * max_message_bytes), compression.MAX_UNPACKED)


class DecompressionBudget:
    """Bytes to which all batches of one request may expand together, so that one request with many batches does not
    block a node."""

    __slots__ = ("left",)

    def __init__(self, request_bytes: int) -> None:
        self.left = max(LEAST_OF_REQUEST, MOST_EXPANSION * request_bytes)


class RecordRules(NamedTuple):
    """What a topic's configuration requires of each record."""

    max_message_bytes: int = LEAST_UNCOMPRESSED // MOST_EXPANSION
    max_records: int = MAX_RECORDS
    earliest: int = _INT64_MIN
    latest: int = _INT64_MAX
    """The accepted timestamps; -1, "no timestamp", is always accepted."""
    keys: bool = False
    """Compacted: every record needs a key (W15)."""


class CheckedRecords(NamedTuple):
    payload: bytes | None
    """The records uncompressed; None if the batch is not compressed."""
    max_timestamp: int
    """Of the records; the header's may be wrong. -1 if no record has one."""


def check_records(
    batch: Bytes, header: BatchHeader, rules: RecordRules, budget: DecompressionBudget
) -> CheckedRecords | Refusal:
    """Check every record of `batch`, whose header and CRC are correct."""
    if header.count > rules.max_records:
        return _too_many(header, rules)
    data, start, payload = bytes(batch), HEADER_SIZE, None
    if header.codec:
        limit = min(max_uncompressed(rules.max_message_bytes), budget.left)
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
    """A count that cannot fit is invalid; with MESSAGE_TOO_LARGE, producers split the batch."""
    if not header.codec and header.count * SMALLEST_RECORD > header.length:
        return Refusal(ErrorCode.invalid_record, f"{header.count} records do not fit into {header.length} bytes.")
    text = f"The record batch has {header.count} records, more than the limit of {rules.max_records}."
    return Refusal(ErrorCode.message_too_large, text)


def _near(delta: int) -> float:
    """Clamped to a double; no delta that the walk accepts is beyond the limits."""
    return float(max(-_FAR, min(delta, _FAR)))


def _unwanted(unwanted: record_walk.Unwanted, rules: RecordRules) -> Refusal:
    """As in Apache Kafka, one bad timestamp makes the error INVALID_TIMESTAMP."""
    bad_timestamp = f"Timestamp is out of range: it should be within [{rules.earliest}, {rules.latest}]."
    no_key = "A compacted topic does not accept a record without a key."
    records = tuple([(index, bad_timestamp if is_timestamp else no_key) for index, is_timestamp in unwanted])
    if any(is_timestamp for _, is_timestamp in unwanted):
        return Refusal(
            ErrorCode.invalid_timestamp, "One or more records have been rejected due to invalid timestamp", records
        )
    shown = "; ".join([f"record {index}: {message}" for index, message in records[:SHOWN]])
    return Refusal(ErrorCode.invalid_record, f"{len(records)} records have been rejected: {shown}", records)
