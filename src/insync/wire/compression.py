"""The five codecs of record batches, in Kafka's own framings.

gzip and zstd are the plain streams. Snappy is in xerial's framing: a magic, two version numbers, then raw snappy blocks
with big-endian lengths; some clients send one raw block instead, which is accepted too. LZ4 is the standard frame with
independent blocks, the only kind that Kafka's Java readers accept.

A few kilobytes can expand to gigabytes. Data above the caller's limit, at most `MAX_UNPACKED`, is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct

import cramjam

from insync.wire.errors import BatchTooLargeError, MalformedBatchError

MAX_UNPACKED = 1 << 27

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
_XERIAL_BLOCK = 32 * 1024

# Frame magic; version 1 with independent blocks and no checksums; blocks of at most 64 KiB; that descriptor's checksum.
_LZ4_HEADER = b"\x04\x22\x4d\x18" + b"\x60\x40\x82"
_LZ4_BLOCK = 64 * 1024
_LZ4_UNCOMPRESSED = 0x80000000

_FIRST_BUFFER = 16 * 1024
_LIKELY_RATIO = 8
_NO_ROOM = "failed to write whole buffer"

_BE32 = Struct(">i")
_LE32 = Struct("<I")


def compress(codec: int, data: bytes) -> bytes:
    return data if codec == NONE else _COMPRESS[codec](data)


def decompress(codec: int, data: bytes, limit: int | None = None) -> bytes:
    """MalformedBatchError for an unknown codec and for data that the codec does not accept, BatchTooLargeError for more
    than `limit` bytes."""
    if codec == NONE:
        return data
    if codec not in _DECOMPRESS:
        raise MalformedBatchError(f"unknown compression codec {codec}")
    try:
        return _DECOMPRESS[codec](data, MAX_UNPACKED if limit is None else limit)
    except cramjam.DecompressionError as error:
        raise MalformedBatchError(f"bad {NAMES[codec]} data: {error}") from error


def _gzip(data: bytes) -> bytes:
    return bytes(cramjam.gzip.compress(data))


def _gunzip(data: bytes, limit: int) -> bytes:
    return _bounded(cramjam.gzip.decompress_into, data, limit)


def _zstd(data: bytes) -> bytes:
    return bytes(cramjam.zstd.compress(data))


def _unzstd(data: bytes, limit: int) -> bytes:
    return _bounded(cramjam.zstd.decompress_into, data, limit)


def _snappy(data: bytes) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        out += _BE32.pack(len(block))
        out += block
    return bytes(out)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _unsnappy_block(data, limit, limit)
    out = bytearray()
    pos = len(_XERIAL_HEADER)
    while pos < len(data):
        if pos + 4 > len(data):
            raise MalformedBatchError("a snappy block without its length")
        (length,) = _BE32.unpack_from(data, pos)
        pos += 4
        if not 0 <= length <= len(data) - pos:
            raise MalformedBatchError(f"a snappy block of {length} bytes at {pos} reaches past the end")
        out += _unsnappy_block(data[pos : pos + length], limit - len(out), limit)
        pos += length
    return bytes(out)


def _lz4(data: bytes) -> bytes:
    out = bytearray(_LZ4_HEADER)
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = data[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += _LE32.pack(len(block))
            out += block
        else:
            out += _LE32.pack(len(plain) | _LZ4_UNCOMPRESSED)
            out += plain
    out += _LE32.pack(0)
    return bytes(out)


def _unlz4(data: bytes, limit: int) -> bytes:
    return _bounded(cramjam.lz4.decompress_into, data, limit)


def _bounded(decompress_into: Callable[[bytes, bytearray], int], data: bytes, limit: int) -> bytes:
    """Into a buffer of a likely size, then into larger ones while the buffer is too small."""
    size = min(max(_FIRST_BUFFER, _LIKELY_RATIO * len(data)), limit)
    while True:
        buffer = bytearray(size)
        try:
            return bytes(memoryview(buffer)[: decompress_into(data, buffer)])
        except cramjam.DecompressionError as error:
            if _NO_ROOM not in str(error):
                raise
        if size >= limit:
            raise BatchTooLargeError(limit)
        size = min(size * _LIKELY_RATIO, limit)


def _unsnappy_block(data: bytes, room: int, limit: int) -> bytes:
    if cramjam.snappy.decompress_raw_len(data) > room:
        raise BatchTooLargeError(limit)
    return bytes(cramjam.snappy.decompress_raw(data))


_COMPRESS: dict[int, Callable[[bytes], bytes]] = {GZIP: _gzip, SNAPPY: _snappy, LZ4: _lz4, ZSTD: _zstd}
_DECOMPRESS: dict[int, Callable[[bytes, int], bytes]] = {GZIP: _gunzip, SNAPPY: _unsnappy, LZ4: _unlz4, ZSTD: _unzstd}
