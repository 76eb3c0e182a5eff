"""Compression codecs: all framings that clients send are read, and Kafka's readers accept those that we write."""

from __future__ import annotations

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.wire import compression
from insync.wire.errors import MalformedBatchError

CODECS = range(5)
BIG = bytes(range(256)) * 1000 + bytes(100_000)


@given(st.binary(max_size=2000), st.sampled_from(CODECS))
def test_what_was_compressed_comes_back(data: bytes, codec: int) -> None:
    assert compression.decompress(codec, compression.compress(codec, data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_data_of_many_blocks_comes_back(codec: int) -> None:
    packed = compression.compress(codec, BIG)
    assert compression.decompress(codec, packed) == BIG
    assert codec == compression.NONE or len(packed) < len(BIG) // 5


def test_snappy_is_framed_as_xerial_does() -> None:
    """Magic, version 1, compatible with 1, then big-endian lengths; blocks of at most 32 KiB of plain data."""
    packed = compression.compress(compression.SNAPPY, b"a" * 40_000)
    assert packed[:16] == b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
    first = int.from_bytes(packed[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(packed[20 : 20 + first])) == b"a" * 32_768


def test_a_bare_snappy_block_is_read_too() -> None:
    assert compression.decompress(compression.SNAPPY, bytes(cramjam.snappy.compress_raw(b"hello"))) == b"hello"


def test_lz4_frames_have_independent_blocks_and_can_hold_incompressible_ones() -> None:
    """Kafka's Java reader refuses dependent blocks; bit 5 of the flags says independent."""
    noise = bytes(cramjam.zstd.compress(BIG))
    packed = compression.compress(compression.LZ4, noise)
    assert packed[:4] == b"\x04\x22\x4d\x18"
    assert packed[4] & 0x20
    assert packed[-4:] == bytes(4)
    assert compression.decompress(compression.LZ4, packed) == noise


def test_lz4_frames_of_other_writers_are_read() -> None:
    assert compression.decompress(compression.LZ4, bytes(cramjam.lz4.compress(BIG))) == BIG


@pytest.mark.parametrize("codec", CODECS[1:])
@pytest.mark.parametrize("cut", [1, 7, 30])
def test_cut_off_data_is_malformed(codec: int, cut: int) -> None:
    packed = compression.compress(codec, bytes(range(256)) * 4)
    with pytest.raises(MalformedBatchError):
        compression.decompress(codec, packed[:-cut])


@pytest.mark.parametrize("codec", [compression.GZIP, compression.LZ4, compression.ZSTD])
def test_a_larger_buffer_is_tried_only_for_data_that_needs_it(codec: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest buffer is 128 MiB: too much to fill for every damaged batch."""
    large = bytes(600_000)
    packed = compression.compress(codec, large)
    sizes: list[int] = []

    def record_size(size: int) -> bytearray:
        sizes.append(size)
        return bytearray(size)

    monkeypatch.setattr(compression, "bytearray", record_size, raising=False)
    assert compression.decompress(codec, packed) == large
    first = max(16 << 10, 8 * len(packed))
    assert sizes == [first, 8 * first, 64 * first]
    sizes.clear()
    with pytest.raises(MalformedBatchError):
        compression.decompress(codec, b"\xff\xfe garbage that no codec wrote")
    assert sizes == [16 << 10]


@pytest.mark.parametrize("codec", [*CODECS[1:], 5, 7, -1])
def test_garbage_and_unknown_codecs_are_malformed(codec: int) -> None:
    with pytest.raises(MalformedBatchError):
        compression.decompress(codec, b"\xff\xfe garbage that no codec wrote")
