"""Frames come out of a stream whole, however the network cuts it."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.server.frames import FrameBuffer
from insync.wire.errors import MalformedFrame


def _taken(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (frame := buffer.take()) is not None:
        frames.append(frame)
    return frames


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_frames_do_not_depend_on_how_the_stream_was_cut(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(pack(">i", len(frame)) + frame for frame in frames)
    buffer, found, at, turn = FrameBuffer(1_000), [], 0, 0
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        buffer.add(stream[at : at + size])
        found += _taken(buffer)
        at, turn = at + size, turn + 1
    assert found == frames
    assert len(buffer) == 0


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=2, max_size=6))
def test_a_frame_that_is_left_waits_for_the_next_turn(frames: list[bytes]) -> None:
    buffer = FrameBuffer(1_000)
    for frame in frames:
        buffer.add(pack(">i", len(frame)) + frame)
    assert buffer.take() == frames[0]
    assert len(buffer) == sum(4 + len(frame) for frame in frames[1:])
    buffer.add(pack(">i", 1) + b"!")
    assert _taken(buffer) == [*frames[1:], b"!"]


@pytest.mark.parametrize("length", [-1, 1_001, 2**31 - 1])
def test_a_length_outside_the_limits_is_refused_before_its_bytes_come(length: int) -> None:
    buffer = FrameBuffer(1_000)
    buffer.add(pack(">i", length))
    with pytest.raises(MalformedFrame):
        buffer.take()


def test_no_room_is_made_for_bytes_that_have_not_come() -> None:
    buffer = FrameBuffer(100 << 20)
    buffer.add(pack(">i", 100 << 20) + b"x")
    assert buffer.take() is None
    assert len(buffer) == 5
