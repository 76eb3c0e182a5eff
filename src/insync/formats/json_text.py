"""Compiled parsers for the scalars of a JSON text: strings, numbers, dates and times."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from insync.formats.cells import hex_digits

MAX_DIGITS = 18
"""That fit a number of 64 bits whatever they are."""
POWERS = 10.0 ** np.arange(23)
"""The powers of ten that a double holds exactly."""
_US_PER_DAY = 86_400_000_000


@njit(cache=True)  # type: ignore[untyped-decorator]
def skip_space(data: Any, at: int, end: int) -> int:
    while at < end and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@njit(cache=True)  # type: ignore[untyped-decorator]
def scan_string(data: Any, at: int, end: int) -> Any:
    """(position of the closing quote or -1, has escapes?, has bytes above 127?) of the string that begins at `at`."""
    escaped, high = False, np.uint8(0)
    while at < end:
        byte = data[at]
        if byte == 34:
            return at, escaped, high >= 128
        if byte < 32:
            return -1, escaped, False
        if byte == 92:
            escaped = True
            at += 1
            if at >= end:
                return -1, escaped, False
            letter = data[at]
            if letter == 117:
                if hex_digits(data, at + 1, end) < 0:
                    return -1, escaped, False
                at += 4
            elif not (
                letter == 34
                or letter == 92
                or letter == 47
                or letter == 98
                or letter == 102
                or letter == 110
                or letter == 114
                or letter == 116
            ):
                return -1, escaped, False
        high |= byte
        at += 1
    return -1, escaped, False


@njit(cache=True)  # type: ignore[untyped-decorator]
def scan_number(data: Any, at: int, end: int) -> Any:
    """(position after it or -1, whole?, digits without their point, how many, power of ten)."""
    negative = data[at] == 45
    if negative:
        at += 1
    number, digits, power, whole = np.int64(0), 0, np.int64(0), True
    first = at
    while at < end and 48 <= data[at] <= 57:
        if digits or data[at] != 48:
            digits += 1
            if digits <= MAX_DIGITS:
                number = number * 10 + (np.int64(data[at]) - 48)
        at += 1
    if at == first or (data[first] == 48 and at - first > 1):
        return -1, False, number, 0, 0
    if at < end and data[at] == 46:
        whole = False
        at += 1
        first = at
        while at < end and 48 <= data[at] <= 57:
            if digits or data[at] != 48:
                digits += 1
                if digits <= MAX_DIGITS:
                    number = number * 10 + (np.int64(data[at]) - 48)
            power -= 1
            at += 1
        if at == first:
            return -1, False, number, 0, 0
    if at < end and (data[at] == 101 or data[at] == 69):
        whole = False
        at += 1
        down = False
        if at < end and (data[at] == 43 or data[at] == 45):
            down = data[at] == 45
            at += 1
        first, exponent = at, np.int64(0)
        while at < end and 48 <= data[at] <= 57:
            if exponent < 100_000:
                exponent = exponent * 10 + (np.int64(data[at]) - 48)
            at += 1
        if at == first:
            return -1, False, number, 0, 0
        power += -exponent if down else exponent
    return at, whole, -number if negative else number, digits, power


@njit(cache=True)  # type: ignore[untyped-decorator]
def parse_long(data: Any, at: int, end: int) -> Any:
    """(value, fits?) of a whole number with 19 digits or more."""
    negative = data[at] == 45
    if negative:
        at += 1
    value = np.uint64(0)
    limit = np.uint64(9223372036854775808) if negative else np.uint64(9223372036854775807)
    for i in range(at, end):
        digit = np.uint64(data[i] - 48)
        if value > (limit - digit) // np.uint64(10):
            return np.int64(0), False
        value = value * np.uint64(10) + digit
    return -np.int64(value) if negative else np.int64(value), True


@njit(cache=True)  # type: ignore[untyped-decorator]
def _digits(data: Any, at: int, end: int, count: int) -> Any:
    """The number that so many digits are; -1 if there is something else."""
    if at + count > end:
        return -1
    number = np.int64(0)
    for i in range(at, at + count):
        if data[i] < 48 or data[i] > 57:
            return -1
        number = number * 10 + (np.int64(data[i]) - 48)
    return number


@njit(cache=True)  # type: ignore[untyped-decorator]
def parse_date(data: Any, at: int, end: int) -> Any:
    """(days since 1970, position after them or -1) of YYYY-MM-DD in the Gregorian calendar."""
    if at + 10 > end or data[at + 4] != 45 or data[at + 7] != 45:
        return np.int64(0), -1
    year, month, day = _digits(data, at, end, 4), _digits(data, at + 5, end, 2), _digits(data, at + 8, end, 2)
    if year < 1 or month < 1 or month > 12 or day < 1:
        return np.int64(0), -1
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    longest = 31
    if month == 2:
        longest = 29 if leap else 28
    elif month == 4 or month == 6 or month == 9 or month == 11:
        longest = 30
    if day > longest:
        return np.int64(0), -1
    shifted = year - 1 if month <= 2 else year  # years begin in March: the leap day is their last
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return np.int64(era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468), at + 10


@njit(cache=True)  # type: ignore[untyped-decorator]
def parse_time(data: Any, at: int, end: int, with_zone: bool) -> Any:
    """(microseconds since 1970, valid?) of a date, or of a date and time with or without a zone, which is else UTC."""
    days, at = parse_date(data, at, end)
    if at < 0:
        return np.int64(0), False
    micros = np.int64(days) * _US_PER_DAY
    if at == end:
        return micros, True
    if data[at] != 84 and data[at] != 32:
        return np.int64(0), False
    hour, minute = _digits(data, at + 1, end, 2), _digits(data, at + 4, end, 2)
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or data[at + 3] != 58:
        return np.int64(0), False
    at += 6
    micros += (hour * 60 + minute) * np.int64(60_000_000)
    if at < end and data[at] == 58:
        second = _digits(data, at + 1, end, 2)
        if second < 0 or second > 59:
            return np.int64(0), False
        micros += second * np.int64(1_000_000)
        at += 3
        if at < end and data[at] == 46:
            at += 1
            unit, first = np.int64(100_000), at
            while at < end and 48 <= data[at] <= 57:
                micros += (np.int64(data[at]) - 48) * unit
                unit //= 10
                at += 1
            if at == first:
                return np.int64(0), False
    if at == end:
        return micros, True
    if not with_zone:
        return np.int64(0), False
    if data[at] == 90:
        return micros, at + 1 == end
    if data[at] != 43 and data[at] != 45:
        return np.int64(0), False
    hours, minutes = _digits(data, at + 1, end, 2), 0
    if end - at == 6 and data[at + 3] == 58:
        minutes = _digits(data, at + 4, end, 2)
    elif end - at == 5:
        minutes = _digits(data, at + 3, end, 2)
    elif end - at != 3:
        return np.int64(0), False
    if hours < 0 or hours > 18 or minutes < 0 or minutes > 59:
        return np.int64(0), False
    shift = (hours * 60 + minutes) * np.int64(60_000_000)
    return micros + shift if data[at] == 45 else micros - shift, True


@njit(cache=True)  # type: ignore[untyped-decorator]
def is_base64(data: Any, at: int, end: int) -> bool:
    if (end - at) % 4:
        return False
    padding = 0
    for i in range(at, end):
        byte = data[i]
        if byte == 61:
            padding += 1
            continue
        letter = 65 <= byte <= 90 or 97 <= byte <= 122 or 48 <= byte <= 57 or byte == 43 or byte == 47
        if padding or not letter:
            return False
    return padding <= 2


@njit(cache=True)  # type: ignore[untyped-decorator]
def is_word(data: Any, at: int, end: int, word: Any) -> bool:
    if at + len(word) > end:
        return False
    for i in range(len(word)):  # noqa: SIM110  compiled
        if data[at + i] != word[i]:
            return False
    return True
