"""Splitting a stream into frames, however its bytes arrive, without keeping bytes that were taken."""

from __future__ import annotations

import sys
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.wire.errors import MalformedFrameError
from insync.wire.frames import FrameBuffer, framed


def _take_all(buffer: FrameBuffer) -> list[bytes]:
    frames = []
    while (frame := buffer.take()) is not None:
        frames.append(frame)
    return frames


@given(st.lists(st.binary(max_size=40), max_size=8), st.lists(st.integers(1, 30), min_size=1))
def test_frames_do_not_depend_on_the_sizes_of_reads(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(piece for frame in frames for piece in framed(frame))
    buffer, at, turn = FrameBuffer(1_000), 0, 0
    taken: list[bytes] = []
    while at < len(stream):
        size = cuts[turn % len(cuts)]
        buffer.add(stream[at : at + size])
        taken += _take_all(buffer)
        at, turn = at + size, turn + 1
    assert taken == frames
    assert len(buffer) == 0


@given(st.lists(st.binary(min_size=1, max_size=40), min_size=2, max_size=6))
def test_frames_that_were_not_taken_stay_in_the_buffer(frames: list[bytes]) -> None:
    buffer = FrameBuffer(1_000)
    for frame in frames:
        buffer.add(pack(">i", len(frame)) + frame)
    assert buffer.take() == frames[0]
    assert len(buffer) == sum(4 + len(frame) for frame in frames[1:])
    buffer.add(pack(">i", 1) + b"!")
    assert _take_all(buffer) == [*frames[1:], b"!"]


@given(st.lists(st.binary(max_size=40), max_size=4), st.integers(0, 60))
def test_has_whole_is_true_exactly_if_a_frame_can_be_taken(frames: list[bytes], size: int) -> None:
    buffer = FrameBuffer(1_000)
    buffer.add(b"".join(piece for frame in frames for piece in framed(frame))[:size])
    whole = True
    while whole:
        whole = buffer.has_whole
        assert (buffer.take() is not None) == whole


def test_has_whole_is_true_for_a_bad_length() -> None:
    buffer = FrameBuffer(100)
    buffer.add(pack(">i", -5))
    assert buffer.has_whole


def test_an_empty_frame_is_a_frame() -> None:
    buffer = FrameBuffer(100)
    buffer.add(bytes(4))
    assert _take_all(buffer) == [b""]


@pytest.mark.parametrize("length", [-1, -(2**31), 101, 2**31 - 1])
def test_a_length_outside_the_limits_is_refused_before_its_bytes_arrive(length: int) -> None:
    """ "GET " read as a length is half a gigabyte."""
    buffer = FrameBuffer(100)
    buffer.add(pack(">i", length))
    with pytest.raises(MalformedFrameError):
        buffer.take()


def test_a_frame_of_exactly_the_limit_is_accepted() -> None:
    buffer = FrameBuffer(100)
    buffer.add(pack(">i", 100) + bytes(100))
    assert buffer.take() == bytes(100)


def test_no_memory_is_allocated_for_bytes_that_have_not_arrived() -> None:
    buffer = FrameBuffer(100 << 20)
    buffer.add(pack(">i", 100 << 20) + b"x")
    assert buffer.take() is None
    assert len(buffer) == 5


@pytest.mark.parametrize("rest", [b"", b"\x00"])
def test_bytes_that_were_taken_are_not_kept(rest: bytes) -> None:
    """Thousands of idle connections that once sent a large request hold no memory for it."""
    buffer, body = FrameBuffer(10 << 20), bytes(1 << 20)
    buffer.add(pack(">i", len(body)) + body[:-10])
    buffer.add(body[-10:] + rest)
    assert buffer.take() == body
    assert len(buffer) == len(rest)
    assert sys.getsizeof(buffer._data) < 1_000


@given(st.binary(max_size=60))
def test_random_bytes_are_frames_or_malformed(data: bytes) -> None:
    buffer = FrameBuffer(1_000)
    buffer.add(data)
    try:
        frames = _take_all(buffer)
    except MalformedFrameError:
        return
    assert sum(len(frame) + 4 for frame in frames) + len(buffer) == len(data)
