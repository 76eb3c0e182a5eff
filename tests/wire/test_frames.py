"""Frames on a connection: however the bytes arrive, the same frames come out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.wire.errors import MalformedFrame
from insync.wire.frames import FrameReader, framed

CONTENTS = st.lists(st.binary(max_size=30), max_size=6)


@given(contents=CONTENTS, data=st.data())
def test_frames_come_out_as_they_went_in_however_they_are_cut(contents: list[bytes], data: st.DataObject) -> None:
    stream = b"".join(piece for content in contents for piece in framed(content))
    reader = FrameReader()
    frames, pos = [], 0
    while pos < len(stream):
        step = data.draw(st.integers(1, len(stream) - pos))
        frames += reader.feed(stream[pos : pos + step])
        pos += step
    assert frames == contents
    assert reader.pending == 0


def test_what_is_not_complete_is_kept() -> None:
    reader = FrameReader()
    assert reader.feed(b"\x00\x00") == []
    assert reader.feed(b"\x00\x03ab") == []
    assert reader.pending == 6
    assert reader.feed(b"c\x00\x00\x00\x01") == [b"abc"]
    assert reader.pending == 4
    assert reader.feed(b"d") == [b"d"]


def test_an_empty_frame_is_a_frame() -> None:
    assert FrameReader().feed(bytes(4)) == [b""]


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
def test_a_length_below_zero_or_above_the_limit_is_malformed_before_its_bytes_come(length: int) -> None:
    """ "GET " read as a length is half a gigabyte."""
    with pytest.raises(MalformedFrame):
        FrameReader(limit=100).feed(length.to_bytes(4, "big", signed=True))


def test_a_frame_of_exactly_the_limit_is_let_through() -> None:
    assert FrameReader(limit=100).feed(b"\x00\x00\x00\x64" + bytes(100)) == [bytes(100)]


@given(st.binary(max_size=60))
def test_random_bytes_are_frames_or_malformed(data: bytes) -> None:
    reader = FrameReader(limit=1000)
    try:
        frames = reader.feed(data)
    except MalformedFrame:
        return
    assert sum(len(frame) + 4 for frame in frames) + reader.pending == len(data)
