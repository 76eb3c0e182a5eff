"""Single records inside a v2 batch, in zigzag varints.

A record is its length, then attributes (unused), timestamp and offset as deltas to the batch's, key, value and headers,
each with its length, -1 for null. Brokers move whole batches and do not use this; clients, tests and the metadata log
do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from insync.wire.errors import MalformedBatchError

Headers = Sequence[tuple[str, bytes | None]]


@dataclass(frozen=True, slots=True)
class NewRecord:
    """A record to be written; without a timestamp it takes the batch's."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    """A record as read back."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def append_record(out: bytearray, offset_delta: int, timestamp_delta: int, record: NewRecord) -> None:
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_bytes(body, record.key)
    _append_bytes(body, record.value)
    append_varint(body, len(record.headers))
    for name, value in record.headers:
        _append_bytes(body, name.encode())
        _append_bytes(body, value)
    append_varint(out, len(body))
    out += body


def read_records(payload: bytes, count: int) -> Iterator[tuple[int, int, NewRecord]]:
    """(offset delta, timestamp delta, record) of each of `count` records, which must fill the payload exactly."""
    pos = 0
    try:
        for _ in range(count):
            length, pos = read_varint(payload, pos)
            end = pos + length
            if length < 0 or end > len(payload):
                raise MalformedBatchError(f"record of {length} bytes at {pos} reaches past the end")
            yield _read_record(payload, pos, end)
            pos = end
    except (IndexError, UnicodeDecodeError) as error:
        raise MalformedBatchError("record ends early or has a header name that is not UTF-8") from error
    if pos != len(payload):
        raise MalformedBatchError(f"{len(payload) - pos} bytes follow the last of {count} records")


def _read_record(payload: bytes, pos: int, end: int) -> tuple[int, int, NewRecord]:
    timestamp_delta, pos = read_varint(payload, pos + 1)
    offset_delta, pos = read_varint(payload, pos)
    key, pos = _read_bytes(payload, pos, end)
    value, pos = _read_bytes(payload, pos, end)
    headers, pos = _read_headers(payload, pos, end)
    if pos != end:
        raise MalformedBatchError(f"fields of a record end at {pos}, its length says {end}")
    return offset_delta, timestamp_delta, NewRecord(key, value, headers)


def _read_headers(payload: bytes, pos: int, end: int) -> tuple[Headers, int]:
    count, pos = read_varint(payload, pos)
    if not 0 <= count <= end - pos:
        raise MalformedBatchError(f"record with {count} headers")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        name, pos = _read_bytes(payload, pos, end)
        value, pos = _read_bytes(payload, pos, end)
        if name is None:
            raise MalformedBatchError("header without a name")
        headers.append((name.decode(), value))
    return tuple(headers), pos


def _append_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        out.append(1)  # zigzag of -1
    else:
        append_varint(out, len(data))
        out += data


def _read_bytes(payload: bytes, pos: int, end: int) -> tuple[bytes | None, int]:
    length, pos = read_varint(payload, pos)
    if length < 0:
        return None, pos
    stop = pos + length
    if stop > end:
        raise MalformedBatchError(f"field of {length} bytes at {pos} reaches past its record")
    return payload[pos:stop], stop


def append_varint(out: bytearray, value: int) -> None:
    """Zigzag, seven bits per byte, lowest first; up to 64 bits."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_varint(payload: bytes, pos: int) -> tuple[int, int]:
    """(value, position after it); IndexError past the end."""
    byte = payload[pos]
    pos += 1
    value = byte & 0x7F
    shift = 7
    while byte & 0x80:
        if shift > 63:
            raise MalformedBatchError("varint of more than ten bytes")
        byte = payload[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
    return (value >> 1) ^ -(value & 1), pos
