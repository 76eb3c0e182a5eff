"""What the compiled decoders share: places of strings, UTF-8, and the removal of what a malformed value left behind.

The place of a string is its start and length in one number; a negative one has JSON escapes, which are replaced when
the string is copied.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from insync.columnar.walk import copy_bytes

LENGTH = 0x7FFFFFFF
ESCAPED = np.int64(-(1 << 63))


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def place(start: int, size: int) -> Any:
    return (np.int64(start) << np.int64(32)) | np.int64(size)


@njit(cache=True)  # type: ignore[untyped-decorator]
def roll_back(row: int, saved: Any, counts: Any, base: Any, domain: Any, cells: Any, valid: Any) -> None:
    """Forget the values of a row and the elements of its lists."""
    for node in range(len(base)):
        of = domain[node]
        first, end = (row, row + 1) if of == 0 else (saved[of], counts[of])
        for at in range(base[node] + first, base[node] + end):
            cells[at] = 0
            valid[at] = 0
    for i in range(len(counts)):
        counts[i] = saved[i]


@njit(cache=True)  # type: ignore[untyped-decorator]
def is_utf8(data: Any, at: int, end: int) -> bool:
    high = np.uint8(0)
    for i in range(at, end):
        high |= data[i]
    if high < 128:
        return True
    while at < end:
        lead = data[at]
        if lead < 0x80:
            at += 1
            continue
        low, top = np.uint8(0x80), np.uint8(0xBF)
        if 0xC2 <= lead <= 0xDF:
            more = 1
        elif 0xE0 <= lead <= 0xEF:
            more = 2
            if lead == 0xE0:
                low = np.uint8(0xA0)
            elif lead == 0xED:
                top = np.uint8(0x9F)
        elif 0xF0 <= lead <= 0xF4:
            more = 3
            if lead == 0xF0:
                low = np.uint8(0x90)
            elif lead == 0xF4:
                top = np.uint8(0x8F)
        else:
            return False
        if at + more >= end:
            return False
        if data[at + 1] < low or data[at + 1] > top:
            return False
        for i in range(at + 2, at + more + 1):
            if data[i] < 0x80 or data[i] > 0xBF:
                return False
        at += more + 1
    return True


@njit(cache=True)  # type: ignore[untyped-decorator]
def hex_digits(data: Any, at: int, end: int) -> Any:
    """The number that four hexadecimal digits are; -1 if they are none."""
    if at + 4 > end:
        return -1
    number = np.int64(0)
    for i in range(at, at + 4):
        digit = np.int64(data[i])
        if 48 <= digit <= 57:
            digit -= 48
        elif 97 <= digit <= 102:
            digit -= 87
        elif 65 <= digit <= 70:
            digit -= 55
        else:
            return -1
        number = number * 16 + digit
    return number


@njit(cache=True)  # type: ignore[untyped-decorator]
def _put_code_point(code: int, target: Any, to: int) -> int:
    """Its UTF-8; the position after it."""
    if code < 0x80:
        target[to] = code
        return to + 1
    if code < 0x800:
        target[to] = 0xC0 | code >> 6
        target[to + 1] = 0x80 | code & 0x3F
        return to + 2
    if code < 0x10000:
        target[to] = 0xE0 | code >> 12
        target[to + 1] = 0x80 | code >> 6 & 0x3F
        target[to + 2] = 0x80 | code & 0x3F
        return to + 3
    target[to] = 0xF0 | code >> 18
    target[to + 1] = 0x80 | code >> 12 & 0x3F
    target[to + 2] = 0x80 | code >> 6 & 0x3F
    target[to + 3] = 0x80 | code & 0x3F
    return to + 4


@njit(cache=True)  # type: ignore[untyped-decorator]
def unescape(data: Any, at: int, end: int, target: Any, to: int) -> int:
    """Copy a JSON string whose escapes were checked. It never gets longer. Half of a surrogate pair is U+FFFD."""
    while at < end:
        if data[at] != 92:
            target[to] = data[at]
            at += 1
            to += 1
            continue
        letter = data[at + 1]
        at += 2
        if letter != 117:
            code = np.int64(letter)
            if letter == 98:
                code = np.int64(8)
            elif letter == 102:
                code = np.int64(12)
            elif letter == 110:
                code = np.int64(10)
            elif letter == 114:
                code = np.int64(13)
            elif letter == 116:
                code = np.int64(9)
            target[to] = code
            to += 1
            continue
        code = np.int64(hex_digits(data, at, end))
        at += 4
        if 0xD800 <= code <= 0xDBFF and at + 6 <= end and data[at] == 92 and data[at + 1] == 117:
            second = np.int64(hex_digits(data, at + 2, end))
            if 0xDC00 <= second <= 0xDFFF:
                code = 0x10000 + ((code - 0xD800) << 10) + (second - 0xDC00)
                at += 6
        if 0xD800 <= code <= 0xDFFF:
            code = np.int64(0xFFFD)
        to = _put_code_point(code, target, to)
    return to


@njit(cache=True)  # type: ignore[untyped-decorator]
def gather_spans(data: Any, places: Any, offsets: Any, target: Any) -> None:
    to = 0
    for i in range(len(places)):
        where = places[i]
        size = where & np.int64(LENGTH)
        start = (where & ~ESCAPED) >> np.int64(32)
        if where < 0:
            to = unescape(data, start, start + size, target, to)
        elif size:
            copy_bytes(target, to, data, start, size)
            to += size
        offsets[i + 1] = to


@njit(cache=True)  # type: ignore[untyped-decorator]
def read_decimal(data: Any, at: int, end: int) -> Any:
    """(low word, high word, fits?) of a big-endian two's complement number."""
    negative = at < end and data[at] >= 128
    fill = 255 if negative else 0
    while end - at > 16:
        if data[at] != fill:
            return np.int64(0), np.int64(0), False
        at += 1
        if (data[at] >= 128) != negative:
            return np.int64(0), np.int64(0), False
    low = np.uint64(0xFFFFFFFFFFFFFFFF) if negative else np.uint64(0)
    high = low
    for i in range(at, end):
        high = (high << np.uint64(8)) | (low >> np.uint64(56))
        low = (low << np.uint64(8)) | np.uint64(data[i])
    return np.int64(low), np.int64(high), True


@njit(cache=True)  # type: ignore[untyped-decorator]
def is_below(low: int, high: int, bound_low: int, bound_high: int) -> Any:
    """Whether the magnitude of a number of two words is below a bound."""
    lower, upper = np.uint64(low), np.uint64(high)
    if high < 0:
        lower, upper = ~lower + np.uint64(1), ~upper
        if lower == 0:
            upper += np.uint64(1)
    if upper != np.uint64(bound_high):
        return upper < np.uint64(bound_high)
    return lower < np.uint64(bound_low)


@njit(cache=True)  # type: ignore[untyped-decorator]
def gather_decimals(data: Any, places: Any, words: Any) -> None:
    for i in range(len(places)):
        start = places[i] >> np.int64(32)
        low, high, _ = read_decimal(data, start, start + (places[i] & np.int64(LENGTH)))
        words[i, 0] = low
        words[i, 1] = high
