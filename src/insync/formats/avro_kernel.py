"""The compiled loop over Avro values: a program for one pair of schemas, run on each value.

An instruction has a code, the node that it writes (-1: the field is skipped), and up to three arguments. An array is a
loop: its instruction reads the number of elements of a block, `NEXT` closes the loop's body.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from insync.columnar.walk import read_varint
from insync.formats.cells import is_below, is_utf8, place, read_decimal, roll_back
from insync.formats.errors import (
    BAD_BOOLEAN,
    BAD_BRANCH,
    BAD_COUNT,
    BAD_LENGTH,
    BAD_RANGE,
    BAD_SYMBOL,
    BAD_UTF8,
    BAD_VARINT,
    FULL,
    GOOD,
    TRAILING,
    TRUNCATED,
    UNREADABLE,
)

END, MARK, BOOL, LONG, LONG_AS_FLOAT, FLOAT, DOUBLE, SPAN, DECIMAL, ENUM, UNION, JUMP, ARRAY, NEXT, FAIL = range(15)
MAX_DEPTH = 64
MAX_EMPTY = 1 << 16
"""Elements of a list whose elements have no bytes: a value of three bytes could claim any number of them."""
_INT = 1 << 31


@njit(cache=True)  # type: ignore[untyped-decorator]
def decode_avro(
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
    code: Any,  # (n, 5) int64: instruction, node, arguments
    tables: Any,
    bits: Any,  # one uint32, and the same as a float32
    as_float: Any,
) -> int:
    """The number of rows, or the row that there was no room for."""
    saved = counts.copy()
    current = np.zeros(len(counts), np.int64)
    left = np.zeros(MAX_DEPTH, np.int64)
    for row in range(first, len(starts)):
        at, end = starts[row], ends[row]
        if at < 0:
            continue
        for i in range(len(counts)):
            saved[i] = counts[i]
        current[0] = row
        pc, depth, bad = 0, 0, GOOD
        while True:
            op, node, x, y, z = code[pc, 0], code[pc, 1], code[pc, 2], code[pc, 3], code[pc, 4]
            slot = np.int64(-1)
            if node >= 0:
                slot = base[node] + current[domain[node]]
            pc += 1
            if op == LONG:  # x: 32 bits?, y: factor
                value, at = read_varint(data, at, end)
                if at < 0:
                    bad = BAD_VARINT
                    break
                if x and (value < -_INT or value >= _INT):
                    bad = BAD_RANGE
                    break
                if slot >= 0:
                    if y != 1:
                        scaled = value * y
                        if scaled // y != value:
                            bad = BAD_RANGE
                            break
                        value = scaled
                    cells[slot] = value
                    valid[slot] = 1
            elif op == SPAN:  # x: text?, y: size, or -1 if it precedes the bytes
                size = y
                if y < 0:
                    size, at = read_varint(data, at, end)
                    if at < 0:
                        bad = BAD_VARINT
                        break
                if size < 0 or size > end - at:
                    bad = BAD_LENGTH
                    break
                if x and not is_utf8(data, at, at + size):
                    bad = BAD_UTF8
                    break
                if slot >= 0:
                    cells[slot] = place(at, size)
                    valid[slot] = 1
                at += size
            elif op == UNION:  # x: branches, y: where they begin, in the tables
                branch, at = read_varint(data, at, end)
                if at < 0:
                    bad = BAD_VARINT
                    break
                if branch < 0 or branch >= x:
                    bad = BAD_BRANCH
                    break
                pc = tables[y + branch]
            elif op == JUMP:
                pc = x
            elif op == MARK:
                if slot >= 0:
                    valid[slot] = 1
            elif op in (DOUBLE, FLOAT):
                size = 8 if op == DOUBLE else 4
                if end - at < size:
                    bad = TRUNCATED
                    break
                if slot >= 0:
                    word = np.uint64(0)
                    for i in range(size):
                        word |= np.uint64(data[at + i]) << np.uint64(8 * i)
                    if op == DOUBLE:
                        cells[slot] = np.int64(word)
                    else:
                        bits[0] = np.uint32(word)
                        floats[slot] = as_float[0]
                    valid[slot] = 1
                at += size
            elif op == BOOL:
                if at >= end:
                    bad = TRUNCATED
                    break
                if data[at] > 1:
                    bad = BAD_BOOLEAN
                    break
                if slot >= 0:
                    cells[slot] = data[at]
                    valid[slot] = 1
                at += 1
            elif op == ARRAY:  # x: after its loop, y: domain of the elements or -1, z: least size of one
                many, at = read_varint(data, at, end)
                if at >= 0 and many < 0:
                    many = -many
                    _, at = read_varint(data, at, end)
                if at < 0:
                    bad = BAD_VARINT
                    break
                if many < 0 or (z > 0 and many > (end - at) // z) or (z == 0 and many > MAX_EMPTY):
                    bad = BAD_COUNT
                    break
                if many == 0:
                    if slot >= 0:
                        cells[slot] = counts[y]
                        valid[slot] = 1
                    pc = x
                    continue
                if y >= 0:
                    if counts[y] >= capacity[y]:
                        bad = FULL
                        break
                    current[y] = counts[y]
                    counts[y] += 1
                left[depth] = many
                depth += 1
            elif op == NEXT:  # x: its ARRAY, y: as there
                left[depth - 1] -= 1
                if left[depth - 1] == 0:
                    depth -= 1
                    pc = x
                    continue
                if y >= 0:
                    if counts[y] >= capacity[y]:
                        bad = FULL
                        break
                    current[y] = counts[y]
                    counts[y] += 1
                pc = x + 1
            elif op == ENUM:  # x: symbols, y: those of the reader, in the tables
                symbol, at = read_varint(data, at, end)
                if at < 0:
                    bad = BAD_VARINT
                    break
                if symbol < 0 or symbol >= x or (slot >= 0 and tables[y + symbol] < 0):
                    bad = BAD_SYMBOL
                    break
                if slot >= 0:
                    cells[slot] = tables[y + symbol]
                    valid[slot] = 1
            elif op == LONG_AS_FLOAT:
                value, at = read_varint(data, at, end)
                if at < 0:
                    bad = BAD_VARINT
                    break
                if slot >= 0:
                    floats[slot] = np.float64(value)
                    valid[slot] = 1
            elif op == DECIMAL:  # x: its bound, in the tables; y as for SPAN
                size = y
                if y < 0:
                    size, at = read_varint(data, at, end)
                    if at < 0:
                        bad = BAD_VARINT
                        break
                if size < 0 or size > end - at:
                    bad = BAD_LENGTH
                    break
                low, high, fits = read_decimal(data, at, at + size)
                if not fits or not is_below(low, high, tables[x], tables[x + 1]):
                    bad = BAD_RANGE
                    break
                if slot >= 0:
                    cells[slot] = place(at, size)
                    valid[slot] = 1
                at += size
            elif op == FAIL:
                bad = UNREADABLE
                break
            else:
                if at != end:
                    bad = TRAILING
                break
        if bad:
            roll_back(row, saved, counts, base, domain, cells, valid)
            status[row] = bad
            if bad == FULL:
                return row
    return len(starts)
