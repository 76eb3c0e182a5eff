"""The compiled loop over JSON values, for one type that says which fields are wanted and what they are.

A field of another type than the schema's is null and the value is reported, with its other fields kept; a text that is
not JSON gives no fields at all. Fields that the type does not have are checked and skipped.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from insync.formats.cells import ESCAPED, is_utf8, place, roll_back, unescape
from insync.formats.errors import (
    BAD_NUMBER,
    BAD_RANGE,
    BAD_STRING,
    BAD_SYNTAX,
    BAD_TYPE,
    BAD_UTF8,
    DUPLICATE,
    EMPTY,
    FULL,
    GOOD,
    TOO_DEEP,
    TRAILING,
    TRUNCATED,
)
from insync.formats.json_text import (
    MAX_DIGITS,
    is_base64,
    is_word,
    parse_date,
    parse_long,
    parse_time,
    scan_number,
    scan_string,
    skip_space,
)

MAX_DEPTH = 512
_STRUCT, _LIST, _MAP, _BOOL, _INT, _FLOAT, _TEXT = 0, 1, 2, 3, 4, 5, 6
_TIME, _DATE, _BASE64, _UNSCALED = 11, 12, 13, 14
_SKIPPED_OBJECT, _SKIPPED_LIST = 20, 21
_VALUE, _FIRST_KEY, _KEY, _FIRST_ELEMENT, _AFTER = 0, 1, 2, 3, 4
_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))
_NAN, _INFINITY, _NEGATIVE = (np.frombuffer(word, np.uint8) for word in (b"NaN", b"Infinity", b"-Infinity"))
_EXACT = 1 << 53


@njit(cache=True)  # type: ignore[untyped-decorator]
def _find_field(data: Any, at: int, size: int, fields: Any, names: Any, first: int, count: int, hint: int) -> int:
    """The index of the field of this name; -1 if there is none. The hint is the one that would be next."""
    for i in range(count):
        index = hint + i
        if index >= count:
            index -= count
        entry = first + index
        if fields[entry, 2] != size:
            continue
        start = fields[entry, 1]
        same = True
        for j in range(size):
            if names[start + j] != data[at + j]:
                same = False
                break
        if same:
            return index
    return -1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _put_string(
    kind: int,
    with_zone: int,
    data: Any,
    at: int,
    stop: int,
    escaped: bool,
    cells: Any,
    floats: Any,
    valid: Any,
    slot: int,
) -> int:
    """Store the string data[at:stop] as a node's kind wants it. BAD_TYPE if it cannot."""
    if kind == _TEXT:
        cells[slot] = place(at, stop - at) | ESCAPED if escaped else place(at, stop - at)
    elif kind == _TIME:
        micros, good = parse_time(data, at, stop, with_zone > 0)
        if not good:
            return BAD_TYPE
        cells[slot] = micros
    elif kind == _DATE:
        days, after = parse_date(data, at, stop)
        if after != stop:
            return BAD_TYPE
        cells[slot] = days
    elif kind == _BASE64:
        if escaped or not is_base64(data, at, stop):
            return BAD_TYPE
        cells[slot] = place(at, stop - at)
    elif kind == _FLOAT:
        if stop - at == 3 and is_word(data, at, stop, _NAN):
            floats[slot] = np.nan
        elif stop - at == 8 and is_word(data, at, stop, _INFINITY):
            floats[slot] = np.inf
        elif stop - at == 9 and is_word(data, at, stop, _NEGATIVE):
            floats[slot] = -np.inf
        else:
            return BAD_TYPE
    else:
        return BAD_TYPE
    valid[slot] = 1
    return GOOD


@njit(cache=True)  # type: ignore[untyped-decorator]
def _put_number(
    kind: int,
    limits: Any,
    data: Any,
    at: int,
    stop: int,
    number: Any,
    cells: Any,
    floats: Any,
    valid: Any,
    slot: int,
    powers: Any,
) -> int:
    """Store the number data[at:stop] as a node's kind wants it."""
    _, whole, mantissa, digits, power = number
    if kind == _FLOAT:
        exact = digits <= MAX_DIGITS and -_EXACT <= mantissa <= _EXACT and -22 <= power <= 22
        if not exact:
            cells[slot] = place(at, stop - at)
            valid[slot] = 2
            return GOOD
        value = np.float64(mantissa) * powers[power] if power >= 0 else np.float64(mantissa) / powers[-power]
        floats[slot] = -0.0 if mantissa == 0 and data[at] == 45 else value
    elif kind in (_INT, _TIME):
        if not whole:
            return BAD_TYPE
        value, fits = mantissa, True
        if digits > MAX_DIGITS:
            value, fits = parse_long(data, at, stop)
        if kind == _TIME:  # seconds
            if not fits or value > 9_223_372_036_854 or value < -9_223_372_036_854:
                return BAD_RANGE
            value *= 1_000_000
        elif not fits or value < limits[0] or value > limits[1]:
            return BAD_RANGE
        cells[slot] = value
    elif kind == _UNSCALED:  # limits: scale, and 10 to the power of the precision as far as 64 bits hold it
        scale, bound = limits[0], limits[1]
        shift = scale + power
        if digits + max(shift, 0) > MAX_DIGITS or shift < 0:
            cells[slot] = place(at, stop - at)
            valid[slot] = 2
            return GOOD
        for _ in range(shift):
            mantissa *= 10
        if mantissa >= bound or mantissa <= -bound:
            return BAD_RANGE
        cells[slot] = mantissa
    elif kind == _TEXT:
        cells[slot] = place(at, stop - at)
    else:
        return BAD_TYPE
    valid[slot] = 1
    return GOOD


@njit(cache=True)  # type: ignore[untyped-decorator]
def decode_json(
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
    nodes: Any,  # (n, 5) int64: kind, first field or child, number of fields, domain of elements, with a zone?
    limits: Any,  # (n, 2) int64
    fields: Any,  # (n, 3) int64: node, start and size of the name
    names: Any,
    powers: Any,
    key: Any,  # room for a field's name
) -> int:
    """The number of rows, or the row that there was no room for."""
    saved = counts.copy()
    current = np.zeros(len(counts), np.int64)
    open_kind, open_node = np.zeros(MAX_DEPTH, np.int64), np.zeros(MAX_DEPTH, np.int64)
    hints, begun = np.zeros(MAX_DEPTH, np.int64), np.zeros(MAX_DEPTH, np.int64)
    for row in range(first, len(starts)):
        at, end = starts[row], ends[row]
        if at < 0:
            continue
        for i in range(len(counts)):
            saved[i] = counts[i]
        current[0] = row
        depth, state, bad, soft, node = 0, _VALUE, GOOD, GOOD, np.int64(0)
        while True:
            at = skip_space(data, at, end)
            if state == _AFTER and depth == 0:
                if at != end:
                    bad = TRAILING
                break
            if at >= end:
                bad = EMPTY if starts[row] == end else TRUNCATED
                break
            byte = data[at]
            if state in (_FIRST_KEY, _KEY):
                if byte == 125 and state == _FIRST_KEY:
                    state = _AFTER
                    continue
                if byte != 34:
                    bad = BAD_SYNTAX
                    break
                stop, escaped, high = scan_string(data, at + 1, end)
                if stop < 0:
                    bad = BAD_STRING
                    break
                if high and not is_utf8(data, at + 1, stop):
                    bad = BAD_UTF8
                    break
                name, size = at + 1, stop - at - 1
                at = skip_space(data, stop + 1, end)
                if at >= end or data[at] != 58:
                    bad = BAD_SYNTAX if at < end else TRUNCATED
                    break
                at += 1
                state = _VALUE
                parent = open_node[depth - 1]
                node = np.int64(-1)
                if open_kind[depth - 1] == _STRUCT:
                    first_field, count, hint = nodes[parent, 1], nodes[parent, 2], hints[depth - 1]
                    index = -1
                    if not escaped:
                        index = _find_field(data, name, size, fields, names, first_field, count, hint)
                    elif size <= len(key):
                        length = unescape(data, name, name + size, key, 0)
                        index = _find_field(key, 0, length, fields, names, first_field, count, hint)
                    if index >= 0:
                        node = fields[first_field + index, 0]
                        hints[depth - 1] = index + 1 if index + 1 < count else 0
                        if nodes[node, 0] > _MAP:  # the last of several with the same name counts
                            valid[base[node] + current[domain[node]]] = 0
                elif open_kind[depth - 1] == _MAP:
                    own = nodes[parent, 3]
                    if counts[own] >= capacity[own]:
                        bad = FULL
                        break
                    current[own] = counts[own]
                    counts[own] += 1
                    node = nodes[parent, 1]
                    where = place(name, size)
                    slot = base[node] + current[own]
                    cells[slot] = where | ESCAPED if escaped else where
                    valid[slot] = 1
                    node = nodes[parent, 2]
                continue
            if state == _AFTER:
                kind = open_kind[depth - 1]
                is_object = kind in (_STRUCT, _MAP, _SKIPPED_OBJECT)
                if byte == 44:
                    at += 1
                    state = _KEY if is_object else _VALUE
                    if is_object:
                        continue
                    node = np.int64(-1)
                    if kind == _LIST:
                        own = nodes[open_node[depth - 1], 3]
                        if counts[own] >= capacity[own]:
                            bad = FULL
                            break
                        current[own] = counts[own]
                        counts[own] += 1
                        node = nodes[open_node[depth - 1], 1]
                    continue
                if byte != (125 if is_object else 93):
                    bad = BAD_SYNTAX
                    break
                at += 1
                depth -= 1
                closed = open_node[depth]
                if closed >= 0:
                    slot = base[closed] + current[domain[closed]]
                    if kind in (_LIST, _MAP):
                        cells[slot] = counts[nodes[closed, 3]]
                    elif kind != _STRUCT:  # the text of something nested
                        cells[slot] = place(begun[depth], at - begun[depth])
                        valid[slot] = 1
                continue
            if state == _FIRST_ELEMENT:
                state = _AFTER
                if byte == 93:
                    continue
                state = _VALUE
                node = np.int64(-1)
                if open_kind[depth - 1] == _LIST:
                    own = nodes[open_node[depth - 1], 3]
                    if counts[own] >= capacity[own]:
                        bad = FULL
                        break
                    current[own] = counts[own]
                    counts[own] += 1
                    node = nodes[open_node[depth - 1], 1]
                continue
            # --- a value ---
            state = _AFTER
            slot, kind = np.int64(0), np.int64(-1)
            if node >= 0:
                slot, kind = base[node] + current[domain[node]], nodes[node, 0]
            if byte == 34:
                stop, escaped, high = scan_string(data, at + 1, end)
                if stop < 0:
                    bad = BAD_STRING
                    break
                if high and not is_utf8(data, at + 1, stop):
                    bad = BAD_UTF8
                    break
                if node >= 0:
                    problem = _put_string(kind, nodes[node, 4], data, at + 1, stop, escaped, cells, floats, valid, slot)
                    soft = soft or problem
                at = stop + 1
            elif byte == 123 or byte == 91:
                if depth >= MAX_DEPTH:
                    bad = TOO_DEEP
                    break
                is_object = byte == 123
                opened = _SKIPPED_OBJECT if is_object else _SKIPPED_LIST
                if node >= 0:
                    fits = (kind in (_STRUCT, _MAP)) if is_object else kind == _LIST
                    if fits:
                        opened = kind
                        if kind != _STRUCT and valid[slot]:
                            bad = DUPLICATE
                            break
                        valid[slot] = 1
                    elif kind != _TEXT:
                        soft = soft or BAD_TYPE
                        node = np.int64(-1)
                open_kind[depth], open_node[depth], hints[depth], begun[depth] = opened, node, 0, at
                depth += 1
                at += 1
                state = _FIRST_KEY if is_object else _FIRST_ELEMENT
            elif (byte == 45 and not is_word(data, at, end, _NEGATIVE)) or 48 <= byte <= 57:
                number = scan_number(data, at, end)
                if number[0] < 0:
                    bad = BAD_NUMBER
                    break
                if node >= 0:
                    problem = _put_number(
                        kind, limits[node], data, at, number[0], number, cells, floats, valid, slot, powers
                    )
                    soft = soft or problem
                at = number[0]
            elif byte == 110 and is_word(data, at, end, _NULL):
                if node >= 0:
                    valid[slot] = 0
                at += 4
            elif (byte == 116 and is_word(data, at, end, _TRUE)) or (byte == 102 and is_word(data, at, end, _FALSE)):
                size = 4 if byte == 116 else 5
                if kind == _BOOL:
                    cells[slot] = byte == 116
                    valid[slot] = 1
                elif kind == _TEXT:
                    cells[slot] = place(at, size)
                    valid[slot] = 1
                elif node >= 0:
                    soft = soft or BAD_TYPE
                at += size
            elif is_word(data, at, end, _NAN) or is_word(data, at, end, _INFINITY) or byte == 45:
                size = 3 if byte == 78 else 8 if byte == 73 else 9
                if kind == _TEXT:
                    cells[slot] = place(at, size)
                    valid[slot] = 1
                elif node >= 0:
                    problem = _put_string(kind, 0, data, at, at + size, False, cells, floats, valid, slot)
                    soft = soft or problem
                at += size
            else:
                bad = BAD_SYNTAX
                break
        if bad:
            roll_back(row, saved, counts, base, domain, cells, valid)
            status[row] = bad
            if bad == FULL:
                return row
        elif soft:
            status[row] = soft
    return len(starts)
