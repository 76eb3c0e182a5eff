"""Reads the keys of a batch and removes records from it, for log compaction.

The offset of a removed record stays unused. The batch keeps its base offset, last offset, epoch and producer, so that
offsets, sequences and epochs do not change. The remaining records are copied unchanged, unless the batch gets a delete
horizon: then bit 6 of the attributes marks the base timestamp as the time from which tombstones may be removed, and
the timestamps of the records are relative to it. Readers need not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from struct import Struct

from crc32c import crc32c

from insync.wire import compression as codecs
from insync.wire.batch import HEADER_SIZE, MAGIC, BatchHeader, Bytes, append_varint, read_varint
from insync.wire.errors import MalformedBatchError

DELETE_HORIZON = 0x40
NO_TIMESTAMP = -1
MOST_RECORDS = 1 << 20
"""A batch with more is not examined: a compressed megabyte can hold twenty million empty records, and the node would
serve no other client meanwhile."""

_CODEC_MASK = 0x07
_START = Struct(">qiibI")
_BODY = Struct(">hiqqqhii")
_CRC_AT = 17
_CRC_FROM = 21
_LENGTH_FROM = 12


class RawRecord:
    """A record by its position in the payload: from `start`, including its length, to `end`."""

    __slots__ = ("end", "key", "offset", "stamped", "start", "timestamp_delta", "tombstone")

    def __init__(
        self, start: int, end: int, stamped: int, timestamp_delta: int, offset: int, key: bytes | None, tombstone: bool
    ) -> None:
        self.start = start
        self.end = end
        self.stamped = stamped  # where the timestamp ends
        self.timestamp_delta = timestamp_delta
        self.offset = offset
        self.key = key
        self.tombstone = tombstone


Keep = Callable[[RawRecord], bool]


def delete_horizon(header: BatchHeader) -> int | None:
    """The time from which the batch's tombstones may be removed; None if not set."""
    return header.base_timestamp if header.attributes & DELETE_HORIZON else None


def raw_records(buf: Bytes, pos: int, header: BatchHeader) -> Iterator[RawRecord]:
    """The records of the batch at `pos`, values and headers unread; MalformedBatchError if they cannot be walked."""
    yield from _walk(_payload(buf, pos, header), header)


def all_have_keys(buf: Bytes, pos: int, header: BatchHeader) -> bool:
    """True if compaction can process the batch: every record is readable and has a key."""
    try:
        return all(record.key is not None for record in raw_records(buf, pos, header))
    except MalformedBatchError:
        return False


def filter_batch(buf: Bytes, pos: int, header: BatchHeader, keep: Keep, horizon: int) -> bytes | None:
    """The batch with only the records that `keep` accepts: unchanged if it accepts all, None if it accepts none.

    A batch that keeps a tombstone and has no delete horizon yet gets `horizon`.
    """
    payload = _payload(buf, pos, header)
    records = list(_walk(payload, header))
    kept = [record for record in records if keep(record)]
    if not kept:
        return None
    new_horizon = delete_horizon(header) is None and any(record.tombstone for record in kept)
    if len(kept) == len(records) and not new_horizon:
        return bytes(memoryview(buf)[pos : pos + header.length])
    attributes, base_timestamp = header.attributes, header.base_timestamp
    if new_horizon:
        attributes, base_timestamp = attributes | DELETE_HORIZON, horizon
    moved = header.base_timestamp - base_timestamp
    body = b"".join([_record_bytes(payload, record, moved) for record in kept])
    newest = header.max_timestamp
    if not header.is_log_append_time:
        newest = header.base_timestamp + max(record.timestamp_delta for record in kept)
    return _batch(
        header, attributes, base_timestamp, newest, len(kept), codecs.compress(attributes & _CODEC_MASK, body)
    )


def make_empty_batch(header: BatchHeader) -> bytes:
    """A batch without records in place of `header`'s: it keeps the offsets, epoch and producer."""
    attributes = header.attributes & ~(_CODEC_MASK | DELETE_HORIZON)
    return _batch(header, attributes, NO_TIMESTAMP, header.max_timestamp, 0, b"")


def _payload(buf: Bytes, pos: int, header: BatchHeader) -> bytes:
    data = bytes(memoryview(buf)[pos + HEADER_SIZE : pos + header.length])
    return codecs.decompress(header.attributes & _CODEC_MASK, data)


def _walk(payload: bytes, header: BatchHeader) -> Iterator[RawRecord]:
    pos, base, last = 0, header.base_offset, header.last_offset
    if header.count > MOST_RECORDS:
        raise MalformedBatchError(f"batch of {header.count} records")
    try:
        for _ in range(header.count):
            record = _read(payload, pos, base)
            if record.end > len(payload) or not base <= record.offset <= last:
                raise MalformedBatchError(f"record at {pos} reaches past the end of its batch")
            yield record
            pos = record.end
    except IndexError as error:
        raise MalformedBatchError("record ends early") from error
    if pos != len(payload):
        raise MalformedBatchError(f"{len(payload) - pos} bytes follow the last of {header.count} records")


def _read(payload: bytes, start: int, base: int) -> RawRecord:
    length, pos = read_varint(payload, start)
    end = pos + length
    timestamp_delta, stamped = read_varint(payload, pos + 1)
    offset_delta, pos = read_varint(payload, stamped)
    size, pos = read_varint(payload, pos)
    key = None if size < 0 else payload[pos : pos + size]
    value_size, at = read_varint(payload, pos + max(size, 0))
    if length < 0 or at + max(value_size, 0) > end:
        raise MalformedBatchError(f"record at {start} has fields that reach past its length")
    return RawRecord(start, end, stamped, timestamp_delta, base + offset_delta, key, value_size < 0)


def _record_bytes(payload: bytes, record: RawRecord, moved: int) -> bytes:
    """The record, with its timestamp relative to a base that is `moved` ms earlier than the old one."""
    if not moved:
        return payload[record.start : record.end]
    body = bytearray(1)
    append_varint(body, record.timestamp_delta + moved)
    body += payload[record.stamped : record.end]
    out = bytearray()
    append_varint(out, len(body))
    return bytes(out + body)


def _batch(header: BatchHeader, attributes: int, first: int, newest: int, count: int, payload: bytes) -> bytes:
    size = HEADER_SIZE + len(payload)
    data = bytearray(
        _START.pack(header.base_offset, size - _LENGTH_FROM, header.leader_epoch, MAGIC, 0)
        + _BODY.pack(
            attributes,
            header.last_offset_delta,
            first,
            newest,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
            count,
        )
        + payload
    )
    data[_CRC_AT:_CRC_FROM] = crc32c(memoryview(data)[_CRC_FROM:]).to_bytes(4, "big")
    return bytes(data)
