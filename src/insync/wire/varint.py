"""Unsigned varints: seven bits per byte, lowest first. Lengths, counts and tags of Kafka's flexible versions."""

from __future__ import annotations

from insync.wire.errors import MalformedFrameError


def append_uvarint(out: bytearray, value: int) -> None:
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_uvarint(data: bytes, pos: int) -> tuple[int, int]:
    """(value, position after it); at most the five bytes of a 32-bit number. IndexError past the end."""
    value = data[pos]
    pos += 1
    if value < 0x80:
        return value, pos
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, pos
    raise MalformedFrameError("varint of more than five bytes")
