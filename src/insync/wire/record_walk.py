"""Compiled check of the records of one batch: every record is checked, without a Python object for it.

A broker does without numba (100 MB and seconds at the start), and in Python a record costs 0.5 us, more than the rest
of its handling. LuaJIT costs 2 MB and 10 ms, and takes 20 to 50 ns per record (ADR 17). The Lua source below reads
strings by index, never memory, so that no input can make it read past the end. Where LuaJIT is not available,
`walk_in_python` does the same, more slowly.

The rules are those of the format: `count` records fill the payload exactly, their offset deltas are 0, 1, 2, ..., the
fields of a record end at its end, only keys, values and header values may be null, header keys are UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.wire.batch import NewRecord, append_record

__all__ = ["COMPILED", "MAX_LISTED", "REASONS", "Walk", "walk", "walk_in_python"]

MAX_LISTED = 1_000
"""Well-formed records that the topic rejects are listed up to this number."""
MAX_TIMESTAMP_BYTES = 7
"""Of a timestamp delta: 2**48 ms are 8,900 years. Longer ones are refused, so that a double holds every delta."""

(
    SOUND,
    TRUNCATED,
    BAD_NUMBER,
    BAD_LENGTH,
    BAD_DELTA,
    BAD_FIELD,
    BAD_HEADERS,
    TRAILING,
    BAD_SIZE,
    BAD_NAME,
    BAD_ATTRIBUTES,
) = range(11)
_WARM_UP = 300

REASONS = (
    "",
    "the batch ends before the record does",
    "a number has more bytes than its type allows",
    "its length does not fit into the batch",
    "its offset delta is not its place in the batch",
    "a key or value reaches past its end",
    "its number of headers is impossible, or a header has no key",
    "bytes follow the last record",
    "its fields do not add up to its length",
    "a header key is not UTF-8",
    "its attributes have more than seven bits, which some clients read as a longer number",
)
"""Why a record is refused, by status."""

Unwanted = tuple[tuple[int, bool], ...]
"""(index in the batch, True if its timestamp is out of range, False if it has no key)."""
Walk = Callable[[bytes, int, int, float, float, float, bool], tuple[int, int, int, Unwanted]]
"""(data, start, count, earliest delta, latest delta, exempt delta, keys required) to (status, index of the bad record,
latest timestamp delta, rejected records). `data` may have other bytes before `start`."""

_LUA = rb"""
local byte, sub = string.byte, string.sub
local MAX_LISTED = ...

-- A number of at most five bytes, still with its zigzag, and the position after it; nil, status. No loop: one would be
-- compiled by itself, and the walk would leave and enter compiled code all the time.
local function varint(s, pos)
  local a = byte(s, pos)
  if not a then return nil, 1 end
  if a < 128 then return a, pos + 1 end
  local b = byte(s, pos + 1)
  if not b then return nil, 1 end
  if b < 128 then return a - 128 + b * 128, pos + 2 end
  local c = byte(s, pos + 2)
  if not c then return nil, 1 end
  if c < 128 then return a - 128 + (b - 128) * 128 + c * 16384, pos + 3 end
  local d = byte(s, pos + 3)
  if not d then return nil, 1 end
  local low = a - 128 + (b - 128) * 128 + (c - 128) * 16384
  if d < 128 then return low + d * 2097152, pos + 4 end
  local e = byte(s, pos + 4)
  if not e then return nil, 1 end
  if e < 128 then return low + (d - 128) * 2097152 + e * 268435456, pos + 5 end
  return nil, byte(s, pos + 5) and 2 or 1
end

-- The same of at most seven bytes.
local function timestamp(s, pos)
  local n, at = varint(s, pos)
  if n or at == 1 then return n, at end
  local low = 0
  for i = 4, 0, -1 do low = low * 128 + byte(s, pos + i) - 128 end
  local f = byte(s, pos + 5)
  if f < 128 then return low + f * 2^35, pos + 6 end
  local g = byte(s, pos + 6)
  if not g then return nil, 1 end
  if g < 128 then return low + (f - 128) * 2^35 + g * 2^42, pos + 7 end
  return nil, byte(s, pos + 7) and 2 or 1
end

local function is_utf8(s)
  local pos, stop = 1, #s + 1
  while pos < stop do
    local c = byte(s, pos)
    local more, least, most = 0, 128, 191
    if c >= 128 then
      if c < 194 or c > 244 then return false end
      more = (c >= 240) and 3 or (c >= 224) and 2 or 1
      if c == 224 then least = 160 elseif c == 237 then most = 159
      elseif c == 240 then least = 144 elseif c == 244 then most = 143 end
      if pos + more >= stop then return false end
      for i = 1, more do
        local d = byte(s, pos + i)
        if d < least or d > most then return false end
        least, most = 128, 191
      end
    end
    pos = pos + 1 + more
  end
  return true
end

-- Header keys are few and come again and again.
local known, known_count = {}, 0
local function is_name(name)
  if known[name] then return true end
  if not is_utf8(name) then return false end
  if #name <= 100 then
    if known_count >= 1000 then known, known_count = {}, 0 end
    known[name], known_count = true, known_count + 1
  end
  return true
end

-- One loop for records and their headers.
return function(s, start, count, earliest, latest, exempt, keys)
  local pos, size, last, i, headers, stop = start + 1, #s, -2^52, 0, 0, 0
  local unwanted, listed, n, at = nil, 0
  while true do
    if headers > 0 then
      n, at = varint(s, pos)
      if not n then return at, i, 0 end
      pos = at + n / 2
      if n % 2 == 1 or pos > stop then return 6, i, 0 end
      if not is_name(sub(s, at, pos - 1)) then return 9, i, 0 end
      n, at = varint(s, pos)
      if not n then return at, i, 0 end
      pos = at
      if n ~= 1 then
        pos = at + n / 2
        if n % 2 == 1 or pos > stop then return 5, i, 0 end
      end
      headers = headers - 1
    else
      if i == count then break end
      n, at = varint(s, pos)
      if not n then return at, i, 0 end
      stop = at + n / 2
      if n % 2 == 1 or stop > size + 1 then return 3, i, 0 end
      local t = byte(s, at)
      if not t then return 1, i, 0 end
      if t > 127 then return 10, i, 0 end
      t, at = timestamp(s, at + 1)
      if not t then return at, i, 0 end
      if t % 2 == 1 then t = -(t + 1) / 2 else t = t / 2 end
      n, at = varint(s, at)
      if not n then return at, i, 0 end
      if n ~= 2 * i then return 4, i, 0 end
      n, at = varint(s, at)
      if not n then return at, i, 0 end
      local keyless = n == 1
      if not keyless then
        if n % 2 == 1 or at + n / 2 > stop then return 5, i, 0 end
        at = at + n / 2
      end
      n, at = varint(s, at)
      if not n then return at, i, 0 end
      if n ~= 1 then
        if n % 2 == 1 or at + n / 2 > stop then return 5, i, 0 end
        at = at + n / 2
      end
      n, pos = varint(s, at)
      if not n then return pos, i, 0 end
      headers = n / 2
      if n % 2 == 1 or headers > stop - pos then return 6, i, 0 end
      if t > last then last = t end
      local late = (t < earliest or t > latest) and t ~= exempt
      if late or (keys and keyless) then
        if listed < MAX_LISTED then
          unwanted = unwanted or {}
          listed = listed + 1
          unwanted[listed] = (keys and keyless) and 2 * i or 2 * i + 1
        end
      end
    end
    if headers == 0 then
      if pos ~= stop then return 8, i, 0 end
      i = i + 1
    end
  end
  if pos ~= size + 1 then return 7, count - 1, 0 end
  return 0, 0, last, unwanted
end
"""


def _compiled() -> Walk | None:
    try:
        from lupa.luajit21 import LuaRuntime
    except ImportError:
        return None
    lua = LuaRuntime(unpack_returned_tuples=True, encoding=None, register_eval=False, register_builtins=False)
    lua.execute(b"collectgarbage('setpause', 110)")  # frees checked batches soon
    check: Any = lua.execute(_LUA, MAX_LISTED)

    def walk(
        data: bytes, start: int, count: int, earliest: float, latest: float, exempt: float, keys: bool
    ) -> tuple[int, int, int, Unwanted]:
        status, index, last, *unwanted = check(data, start, count, earliest, latest, exempt, keys)
        if not unwanted or unwanted[0] is None:
            return status, int(index), int(last), ()
        return status, int(index), int(last), tuple([(int(n) >> 1, n % 2 == 1) for n in unwanted[0].values()])

    _warm_up(walk)
    return walk


def _warm_up(walk: Walk) -> None:
    """Run the loops on many typical records, so that LuaJIT compiles them now.

    LuaJIT stops trying to compile a loop after a few attempts in which it ran only once: a producer of single records
    would leave the walk uncompiled forever.
    """
    for value, headers in ((20, ()), (100, ()), (9_000, ()), (100, (("trace", b"id"), ("n", None)))):
        payload = bytearray()
        for index in range(_WARM_UP):
            key = (None, b"k" * 8, b"k" * 80)[index % 3]
            append_record(payload, index, index % 1_000, NewRecord(key, bytes(value), headers))
        walk(bytes(payload), 0, _WARM_UP, -1.0, 1e12, -5.0, False)


class _BadRecordError(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


def walk_in_python(
    data: bytes, start: int, count: int, earliest: float, latest: float, exempt: float, keys: bool
) -> tuple[int, int, int, Unwanted]:
    """The same as the Lua source."""
    pos, last, index = start, -(1 << 52), 0
    unwanted: list[tuple[int, bool]] = []
    try:
        for index in range(count):
            n, at = _varint(data, pos, 5)
            stop = at + (n >> 1)
            if n & 1 or stop > len(data):
                raise _BadRecordError(BAD_LENGTH)
            if at >= len(data):
                raise _BadRecordError(TRUNCATED)
            if data[at] > 0x7F:
                raise _BadRecordError(BAD_ATTRIBUTES)
            t, at = _varint(data, at + 1, MAX_TIMESTAMP_BYTES)
            t = (t >> 1) ^ -(t & 1)
            n, at = _varint(data, at, 5)
            if n != 2 * index:
                raise _BadRecordError(BAD_DELTA)
            key, at = _varint(data, at, 5)
            at = _skip(key, at, stop)
            n, at = _varint(data, at, 5)
            at = _skip(n, at, stop)
            n, at = _varint(data, at, 5)
            if n & 1 or n >> 1 > stop - at:
                raise _BadRecordError(BAD_HEADERS)
            at = _skip_headers(data, at, stop, n >> 1)
            if at != stop:
                raise _BadRecordError(BAD_SIZE)
            pos = stop
            last = max(last, t)
            out_of_range = (t < earliest or t > latest) and t != exempt
            keyless = keys and key == 1
            if (out_of_range or keyless) and len(unwanted) < MAX_LISTED:
                unwanted.append((index, not keyless))
    except _BadRecordError as bad:
        return bad.status, index, 0, ()
    if pos != len(data):
        return TRAILING, count - 1, 0, ()
    return SOUND, 0, last, tuple(unwanted)


def _varint(data: bytes, pos: int, most: int) -> tuple[int, int]:
    try:
        byte = data[pos]
        if byte < 0x80:
            return byte, pos + 1
        value, shift, end = byte & 0x7F, 7, pos + most
        while True:
            pos += 1
            byte = data[pos]
            if pos >= end:
                raise _BadRecordError(BAD_NUMBER)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, pos + 1
            shift += 7
    except IndexError:
        raise _BadRecordError(TRUNCATED) from None


def _skip(length: int, at: int, stop: int) -> int:
    """The position after a key or value; `length` is still zigzag-encoded, 1 is null."""
    if length == 1:
        return at
    if length & 1 or at + (length >> 1) > stop:
        raise _BadRecordError(BAD_FIELD)
    return at + (length >> 1)


def _skip_headers(data: bytes, pos: int, stop: int, count: int) -> int:
    for _ in range(count):
        n, at = _varint(data, pos, 5)
        pos = at + (n >> 1)
        if n & 1 or pos > stop:
            raise _BadRecordError(BAD_HEADERS)
        try:
            data[at:pos].decode()
        except UnicodeDecodeError:
            raise _BadRecordError(BAD_NAME) from None
        n, at = _varint(data, pos, 5)
        pos = _skip(n, at, stop)
    return pos


_lua_walk = _compiled()
COMPILED = _lua_walk is not None
walk: Walk = _lua_walk or walk_in_python
