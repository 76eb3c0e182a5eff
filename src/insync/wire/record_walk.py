"""The walk over the records of one batch, compiled: every record is looked at, and no Python object is made for it.

A broker has no numba (100 MB and seconds at the start), and in Python a record costs 0.5 us, more than all that the
broker does with it otherwise. LuaJIT costs 2 MB and 10 ms, and walks a record in 20 to 50 ns (ADR 17). The Lua source
below reads strings by index, never memory, so that no input can make it read past the end. Where the platform has no
LuaJIT, `walk_in_python` does the same, more slowly.

The rules are the format's: `count` records fill the payload exactly, their offset deltas are 0, 1, 2, ..., fields end
where their record ends, only keys, values and header values may be null, header keys are UTF-8.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["COMPILED", "MAX_LISTED", "REASONS", "Walk", "walk", "walk_in_python"]

MAX_LISTED = 1_000
"""Records that are sound but not wanted are named up to this number."""
MAX_TIMESTAMP_BYTES = 7
"""Of a timestamp delta: 2**48 ms are 8,900 years. More than that is refused, so that a double holds every delta."""

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
    "its attributes are more than seven bits, which some clients take for a longer number",
)
"""What is wrong with a record, by status."""

Unwanted = tuple[tuple[int, bool], ...]
"""(place in the batch, True if its timestamp is out of range, False if it has no key)."""
Walk = Callable[[bytes, int, int, float, float, float, bool], tuple[int, int, int, Unwanted]]
"""(data, start, count, earliest delta, latest delta, exempt delta, keys required) to (status, index of the bad record,
latest timestamp delta, unwanted records). `data` may begin with other bytes, up to `start`."""

_LUA = rb"""
local byte = string.byte
local MAX_LISTED, MAX_TIMESTAMP_BYTES = ...

-- value without the zigzag, position after it; nil, status
local function varint(s, pos, most)
  local c = byte(s, pos)
  if not c then return nil, 1 end
  if c < 128 then return c, pos + 1 end
  local value, scale, bytes = c - 128, 128, 1
  repeat
    pos = pos + 1
    bytes = bytes + 1
    c = byte(s, pos)
    if not c then return nil, 1 end
    if bytes > most then return nil, 2 end
    if c < 128 then return value + c * scale, pos + 1 end
    value = value + (c - 128) * scale
    scale = scale * 128
  until false
end

local function is_utf8(s, pos, stop)
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

-- position after the headers; nil, status
local function skip_headers(s, pos, stop, count)
  local n, at
  for _ = 1, count do
    n, at = varint(s, pos, 5)
    if not n then return nil, at end
    if n % 2 == 1 or at + n / 2 > stop then return nil, 6 end
    pos = at + n / 2
    if not is_utf8(s, at, pos) then return nil, 9 end
    n, at = varint(s, pos, 5)
    if not n then return nil, at end
    if n == 1 then
      pos = at
    else
      if n % 2 == 1 or at + n / 2 > stop then return nil, 5 end
      pos = at + n / 2
    end
  end
  return pos
end

return function(s, start, count, earliest, latest, exempt, keys)
  local pos, size, last = start + 1, #s, -2^52
  local unwanted, listed = nil, 0
  for i = 0, count - 1 do
    local n, at = varint(s, pos, 5)
    if not n then return at, i, 0 end
    local stop = at + n / 2
    if n % 2 == 1 or stop > size + 1 then return 3, i, 0 end
    local t = byte(s, at)
    if not t then return 1, i, 0 end
    if t > 127 then return 10, i, 0 end
    t, at = varint(s, at + 1, MAX_TIMESTAMP_BYTES)
    if not t then return at, i, 0 end
    if t % 2 == 1 then t = -(t + 1) / 2 else t = t / 2 end
    n, at = varint(s, at, 5)
    if not n then return at, i, 0 end
    if n ~= 2 * i then return 4, i, 0 end
    n, at = varint(s, at, 5)
    if not n then return at, i, 0 end
    local keyless = n == 1
    if not keyless then
      if n % 2 == 1 or at + n / 2 > stop then return 5, i, 0 end
      at = at + n / 2
    end
    n, at = varint(s, at, 5)
    if not n then return at, i, 0 end
    if n ~= 1 then
      if n % 2 == 1 or at + n / 2 > stop then return 5, i, 0 end
      at = at + n / 2
    end
    n, at = varint(s, at, 5)
    if not n then return at, i, 0 end
    if n ~= 0 then
      if n % 2 == 1 or n / 2 > stop - at then return 6, i, 0 end
      local status
      at, status = skip_headers(s, at, stop, n / 2)
      if not at then return status, i, 0 end
    end
    if at ~= stop then return 8, i, 0 end
    pos = stop
    if t > last then last = t end
    local late = (t < earliest or t > latest) and t ~= exempt
    if (late or (keys and keyless)) and listed < MAX_LISTED then
      unwanted = unwanted or {}
      listed = listed + 1
      unwanted[listed] = (keys and keyless) and 2 * i or 2 * i + 1
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
    lua.execute(b"collectgarbage('setpause', 110)")  # what was walked is let go of soon
    check: Any = lua.execute(_LUA, MAX_LISTED, MAX_TIMESTAMP_BYTES)

    def walk(
        data: bytes, start: int, count: int, earliest: float, latest: float, exempt: float, keys: bool
    ) -> tuple[int, int, int, Unwanted]:
        status, index, last, *unwanted = check(data, start, count, earliest, latest, exempt, keys)
        if not unwanted or unwanted[0] is None:
            return status, int(index), int(last), ()
        return status, int(index), int(last), tuple([(int(n) >> 1, n % 2 == 1) for n in unwanted[0].values()])

    return walk


class _Bad(Exception):  # noqa: N818  a status on its way out
    def __init__(self, status: int) -> None:
        self.status = status


def walk_in_python(
    data: bytes, start: int, count: int, earliest: float, latest: float, exempt: float, keys: bool
) -> tuple[int, int, int, Unwanted]:
    """What the Lua source does, line for line."""
    pos, last, index = start, -(1 << 52), 0
    unwanted: list[tuple[int, bool]] = []
    try:
        for index in range(count):
            n, at = _varint(data, pos, 5)
            stop = at + (n >> 1)
            if n & 1 or stop > len(data):
                raise _Bad(BAD_LENGTH)
            if at >= len(data):
                raise _Bad(TRUNCATED)
            if data[at] > 0x7F:
                raise _Bad(BAD_ATTRIBUTES)
            t, at = _varint(data, at + 1, MAX_TIMESTAMP_BYTES)
            t = (t >> 1) ^ -(t & 1)
            n, at = _varint(data, at, 5)
            if n != 2 * index:
                raise _Bad(BAD_DELTA)
            key, at = _varint(data, at, 5)
            at = _skip(key, at, stop)
            n, at = _varint(data, at, 5)
            at = _skip(n, at, stop)
            n, at = _varint(data, at, 5)
            if n:
                if n & 1 or n >> 1 > stop - at:
                    raise _Bad(BAD_HEADERS)
                at = _skip_headers(data, at, stop, n >> 1)
            if at != stop:
                raise _Bad(BAD_SIZE)
            pos = stop
            last = max(last, t)
            out_of_range = (t < earliest or t > latest) and t != exempt
            keyless = keys and key == 1
            if (out_of_range or keyless) and len(unwanted) < MAX_LISTED:
                unwanted.append((index, not keyless))
    except _Bad as bad:
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
                raise _Bad(BAD_NUMBER)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value, pos + 1
            shift += 7
    except IndexError:
        raise _Bad(TRUNCATED) from None


def _skip(length: int, at: int, stop: int) -> int:
    """Past a key or value; its length still has the zigzag, 1 is a null."""
    if length == 1:
        return at
    if length & 1 or at + (length >> 1) > stop:
        raise _Bad(BAD_FIELD)
    return at + (length >> 1)


def _skip_headers(data: bytes, pos: int, stop: int, count: int) -> int:
    for _ in range(count):
        n, at = _varint(data, pos, 5)
        pos = at + (n >> 1)
        if n & 1 or pos > stop:
            raise _Bad(BAD_HEADERS)
        try:
            data[at:pos].decode()
        except UnicodeDecodeError:
            raise _Bad(BAD_NAME) from None
        n, at = _varint(data, pos, 5)
        pos = _skip(n, at, stop)
    return pos


_lua_walk = _compiled()
COMPILED = _lua_walk is not None
walk: Walk = _lua_walk or walk_in_python
