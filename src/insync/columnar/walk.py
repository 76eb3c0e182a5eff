"""The compiled loop over records: varints in, Arrow buffers out.

A record consists of length, attributes (1 byte), timestamp delta, offset delta, key length and key, value length and
value, number of headers, and for each header key length, key, value length, value. All numbers but the attributes are
zigzag varints; a length of -1 is a null.

Buffers have the size that may be needed at most; the operating system only provides memory that is touched. The buffers
for headers are the exception, since most records have none: if they are too small, the caller tries again with larger
ones. A batch with malformed records produces no rows: its status says why.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

GOOD, BAD_VARINT, BAD_LENGTH, BAD_COUNT = 0, 1, 2, 3
REASONS = ("", "an unterminated varint", "an impossible length", "another number of records than in the header")


@intrinsic  # type: ignore[untyped-decorator]
def copy_bytes(typing_context: Any, target: Any, to: Any, source: Any, at: Any, size: Any) -> Any:
    """memcpy(target[to:], source[at:], size): for a hundred bytes, much cheaper than a loop."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into, to_value, from_, at_value, count = arguments
        left = context.make_array(signature.args[0])(context, builder, into).data
        right = context.make_array(signature.args[2])(context, builder, from_).data
        cgutils.raw_memcpy(builder, builder.gep(left, [to_value]), builder.gep(right, [at_value]), count, 1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), generate


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def read_varint(data: Any, at: int, end: int) -> Any:
    """(value, position after it); the position is -1 if the varint does not end before `end`."""
    if at < end and data[at] < 128:  # nearly always
        byte = np.int64(data[at])
        return (byte >> 1) ^ -(byte & 1), at + 1
    if at + 1 < end and data[at + 1] < 128:  # lengths of about a hundred
        pair = np.int64(data[at] & 0x7F) | np.int64(data[at + 1]) << 7
        return (pair >> 1) ^ -(pair & 1), at + 2
    raw, shift = np.uint64(0), np.uint64(0)
    while at < end:
        group = np.uint64(data[at])
        at += 1
        raw |= (group & np.uint64(0x7F)) << shift
        if group < 128:
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
        shift += np.uint64(7)
        if shift > 63:
            break
    return np.int64(0), -1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _set_bit(bits: Any, index: int) -> None:
    bits[index >> 3] |= np.uint8(1 << (index & 7))


@njit(cache=True)  # type: ignore[untyped-decorator]
def walk_records(
    plain: Any,  # the batches as received
    decompressed: Any,  # the records of compressed batches, joined
    batches: Any,  # (n, 6) int64: compressed?, start, end, count, base offset, base timestamp
    low: int,
    high: int,
    want: Any,  # (4) bool: key, value, timestamp, headers
    offsets: Any,
    timestamps: Any,
    key_at: Any,
    key_bytes: Any,
    key_bits: Any,
    value_at: Any,
    value_bytes: Any,
    value_bits: Any,
    list_at: Any,
    list_bits: Any,
    name_at: Any,
    name_bytes: Any,
    content_at: Any,
    content_bytes: Any,
    content_bits: Any,
    rows_per_batch: Any,
    status: Any,
) -> Any:
    """(rows, headers), or (-1, -1) if the buffers for headers are too small."""
    row, headers = 0, 0
    want_key, want_value, want_time, want_headers = want[0], want[1], want[2], want[3]
    for b in range(len(batches)):
        data = decompressed if batches[b, 0] else plain
        at, end, count = batches[b, 1], batches[b, 2], batches[b, 3]
        base_offset, base_time = batches[b, 4], batches[b, 5]
        first_row, first_header = row, headers
        bad = GOOD
        for _ in range(count):
            length, at = read_varint(data, at, end)
            if at < 0:
                bad = BAD_VARINT
                break
            stop = at + length
            if length < 1 or stop > end:
                bad = BAD_LENGTH
                break
            delta, at = read_varint(data, at + 1, stop)
            if at < 0:
                bad = BAD_VARINT
                break
            index, at = read_varint(data, at, stop)
            if at < 0:
                bad = BAD_VARINT
                break
            offset = base_offset + index
            if offset < low or offset >= high:
                at = stop
                continue
            # Key and value are written out: as one function they take twice as long.
            size, at = read_varint(data, at, stop)
            if at < 0:
                bad = BAD_VARINT
                break
            if size > stop - at:
                bad = BAD_LENGTH
                break
            if want_key:
                used = key_at[row]
                if size >= 0:
                    copy_bytes(key_bytes, used, data, at, size)
                    _set_bit(key_bits, row)
                    used += size
                key_at[row + 1] = used
            if size > 0:
                at += size
            size, at = read_varint(data, at, stop)
            if at < 0:
                bad = BAD_VARINT
                break
            if size > stop - at:
                bad = BAD_LENGTH
                break
            if want_value:
                used = value_at[row]
                if size >= 0:
                    copy_bytes(value_bytes, used, data, at, size)
                    _set_bit(value_bits, row)
                    used += size
                value_at[row + 1] = used
            if size > 0:
                at += size
            if want_time:
                timestamps[row] = base_time + delta
            if want_headers:
                many, at = read_varint(data, at, stop)
                if at < 0 or many < 0 or many > stop - at:
                    bad = BAD_LENGTH
                    break
                for _ in range(many):
                    size, at = read_varint(data, at, stop)
                    if at < 0 or size < 0 or size > stop - at:
                        bad = BAD_LENGTH
                        break
                    used = name_at[headers]
                    if headers + 1 >= len(name_at) or used + size > len(name_bytes):
                        return -1, -1
                    copy_bytes(name_bytes, used, data, at, size)
                    name_at[headers + 1] = used + size
                    at += size
                    size, at = read_varint(data, at, stop)
                    if at < 0 or size > stop - at:
                        bad = BAD_LENGTH
                        break
                    used = content_at[headers]
                    if size >= 0:
                        if used + size > len(content_bytes):
                            return -1, -1
                        copy_bytes(content_bytes, used, data, at, size)
                        _set_bit(content_bits, headers)
                        used += size
                        at += size
                    content_at[headers + 1] = used
                    headers += 1
                if bad:
                    break
                list_at[row + 1] = headers
                if many > 0:
                    _set_bit(list_bits, row)
            offsets[row] = offset
            row += 1
            at = stop
        if not bad and at != end:
            bad = BAD_COUNT
        if bad:
            _clear_bits(key_bits, first_row, row + 1)
            _clear_bits(value_bits, first_row, row + 1)
            _clear_bits(list_bits, first_row, row + 1)
            _clear_bits(content_bits, first_header, headers + 1)
            row, headers = first_row, first_header
        rows_per_batch[b] = row - first_row
        status[b] = bad
    return row, headers


@njit(cache=True)  # type: ignore[untyped-decorator]
def _clear_bits(bits: Any, first: int, end: int) -> None:
    for index in range(first, min(end, 8 * len(bits))):
        bits[index >> 3] &= np.uint8(~(1 << (index & 7)) & 0xFF)


__all__ = ["BAD_COUNT", "BAD_LENGTH", "BAD_VARINT", "GOOD", "REASONS", "copy_bytes", "read_varint", "walk_records"]
