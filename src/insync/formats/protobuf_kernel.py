"""The compiled loop over Protobuf messages.

A field of the schema is a row of a table: its number, its type, and the nodes it is written to. Fields that the table
does not have, or whose wire type is another one, are skipped, as every Protobuf parser does. Of a field that occurs
several times the last counts; messages are merged and repeated fields continued.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from insync.formats.cells import is_utf8, place, roll_back
from insync.formats.errors import BAD_KEY, BAD_LENGTH, BAD_UTF8, BAD_VARINT, FULL, GOOD, TOO_DEEP, TRUNCATED

INT32, INT64, UINT32, SINT32, SINT64, BOOL, FIXED64, FIXED32, SFIXED32, FLOAT, STRING, BYTES, MESSAGE = range(13)
MAX_DEPTH = 100
"""As in the Protobuf libraries."""
_VARINT, _EIGHT, _LENGTH, _START, _STOP, _FOUR = range(6)
WIRE_TYPES = np.array([_VARINT] * 6 + [_EIGHT, _FOUR, _FOUR, _FOUR] + [_LENGTH] * 3, np.int64)


@njit(cache=True)  # type: ignore[untyped-decorator]
def read_unsigned(data: Any, at: int, end: int) -> Any:
    """(value, position after it); the position is -1 if the varint does not end before `end`."""
    if at < end and data[at] < 128:
        return np.int64(data[at]), at + 1
    raw, shift = np.uint64(0), np.uint64(0)
    while at < end and shift < 70:
        group = np.uint64(data[at])
        at += 1
        raw |= (group & np.uint64(0x7F)) << shift
        if group < 128:
            return np.int64(raw), at
        shift += np.uint64(7)
    return np.int64(0), -1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _skip(data: Any, at: int, end: int, wire_type: int, number: int) -> int:
    """The position after a field; -1 if it is malformed."""
    groups = np.zeros(MAX_DEPTH, np.int64)
    depth = 0
    while True:
        if wire_type == _VARINT:
            _, at = read_unsigned(data, at, end)
        elif wire_type == _LENGTH:
            size, at = read_unsigned(data, at, end)
            at = -1 if at < 0 or size < 0 or size > end - at else at + size
        elif wire_type in (_EIGHT, _FOUR):
            at += 8 if wire_type == _EIGHT else 4
            at = -1 if at > end else at
        elif wire_type == _START:
            if depth >= MAX_DEPTH:
                return -1
            groups[depth] = number
            depth += 1
        elif wire_type == _STOP:
            if depth == 0 or groups[depth - 1] != number:
                return -1
            depth -= 1
        else:
            return -1
        if at < 0 or depth == 0:
            return at
        tag, at = read_unsigned(data, at, end)
        if at < 0 or tag < 8 or tag >> 3 >= 1 << 29:
            return -1
        wire_type, number = tag & 7, tag >> 3


@njit(cache=True)  # type: ignore[untyped-decorator]
def _read_scalar(kind: int, data: Any, at: int, end: int) -> Any:
    """(value or bits, position after it or -1)."""
    if kind >= FIXED64:
        size = 8 if kind == FIXED64 else 4
        if end - at < size:
            return np.int64(0), -1
        word = np.uint64(0)
        for i in range(size):
            word |= np.uint64(data[at + i]) << np.uint64(8 * i)
        value = np.int64(word)
        return np.int64(np.int32(value)) if kind == SFIXED32 else value, at + size
    value, at = read_unsigned(data, at, end)
    if kind == INT32:
        value = np.int64(np.int32(value))
    elif kind == UINT32:
        value &= np.int64(0xFFFFFFFF)
    elif kind == BOOL:
        value = np.int64(value != 0)
    elif kind in (SINT32, SINT64):
        if kind == SINT32:
            value &= np.int64(0xFFFFFFFF)
        value = np.int64(np.uint64(value) >> np.uint64(1)) ^ -(value & np.int64(1))
    return value, at


@njit(cache=True)  # type: ignore[untyped-decorator]
def decode_protobuf(
    first: int,
    cells: Any,
    floats: Any,
    valid: Any,
    base: Any,
    domain: Any,
    counts: Any,
    capacity: Any,
    status: Any,
    data: Any,
    starts: Any,  # -1: the value is null
    ends: Any,
    messages: Any,  # (n, 2) int64: first field, number of fields
    fields: Any,  # (n, 7) int64: number, type, list or -1, node, message, domain of elements, oneof or 0
    wire_types: Any,
    bits: Any,  # one uint32, and the same as a float32
    as_float: Any,
) -> int:
    """The number of rows, or the row that there was no room for. Node 0 is the message itself."""
    saved = counts.copy()
    current = np.zeros(len(counts), np.int64)
    outer, outer_end = np.zeros(MAX_DEPTH, np.int64), np.zeros(MAX_DEPTH, np.int64)
    for row in range(first, len(starts)):
        at, end = starts[row], ends[row]
        if at < 0:
            continue
        for i in range(len(counts)):
            saved[i] = counts[i]
        current[0] = row
        valid[base[0] + row] = 1
        depth, bad, message, hint = 0, GOOD, np.int64(0), 0
        while True:
            if at == end:
                if depth == 0:
                    break
                depth -= 1
                message, end, hint = outer[depth], outer_end[depth], 0
                continue
            tag, at = read_unsigned(data, at, end)
            if at < 0:
                bad = BAD_VARINT
                break
            number, wire_type = tag >> 3, tag & 7
            if tag < 8 or number >= 1 << 29:
                bad = BAD_KEY
                break
            first_field, many = messages[message, 0], messages[message, 1]
            entry = np.int64(-1)
            for i in range(many):
                index = hint + i
                if index >= many:
                    index -= many
                if fields[first_field + index, 0] == number:
                    entry = first_field + index
                    hint = index
                    break
            kind = fields[entry, 1] if entry >= 0 else np.int64(-1)
            is_packed = entry >= 0 and wire_type == _LENGTH and kind < STRING and fields[entry, 2] >= 0
            if entry < 0 or (wire_types[kind] != wire_type and not is_packed):
                at = _skip(data, at, end, wire_type, number)
                if at < 0:
                    bad = BAD_LENGTH
                    break
                continue
            list_node, node, own = fields[entry, 2], fields[entry, 3], fields[entry, 5]
            stop = at
            if wire_type == _LENGTH:
                size, at = read_unsigned(data, at, end)
                if at < 0 or size < 0 or size > end - at:
                    bad = BAD_LENGTH
                    break
                stop = at + size
            if is_packed and at == stop:
                continue
            while True:  # once, or for each element of a packed field
                if list_node >= 0:
                    if counts[own] >= capacity[own]:
                        bad = FULL
                        break
                    current[own] = counts[own]
                    counts[own] += 1
                    slot = base[list_node] + current[domain[list_node]]
                    cells[slot] = counts[own]
                    valid[slot] = 1
                slot = base[node] + current[domain[node]]
                if kind == MESSAGE:
                    valid[slot] = 1
                elif kind in (STRING, BYTES):
                    if kind == STRING and not is_utf8(data, at, stop):
                        bad = BAD_UTF8
                        break
                    cells[slot] = place(at, stop - at)
                    valid[slot] = 1
                    at = stop
                else:
                    value, at = _read_scalar(kind, data, at, stop if is_packed else end)
                    if at < 0:
                        bad = TRUNCATED if kind >= FIXED64 else BAD_VARINT
                        break
                    if kind == FLOAT:
                        bits[0] = np.uint32(value)
                        floats[slot] = as_float[0]
                    else:
                        cells[slot] = value
                    valid[slot] = 1
                if not is_packed or at == stop:
                    break
            if bad:
                break
            if fields[entry, 6]:
                for i in range(first_field, first_field + many):
                    if fields[i, 6] == fields[entry, 6] and i != entry:
                        valid[base[fields[i, 3]] + current[domain[fields[i, 3]]]] = 0
            if kind == MESSAGE:
                if depth >= MAX_DEPTH:
                    bad = TOO_DEEP
                    break
                outer[depth], outer_end[depth] = message, end
                depth += 1
                message, end, hint = fields[entry, 4], stop, 0
        if bad:
            roll_back(row, saved, counts, base, domain, cells, valid)
            status[row] = bad
            if bad == FULL:
                return row
    return len(starts)
