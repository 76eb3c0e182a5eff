"""Frames come out of a stream as they went in, however the bytes are divided; what ends the stream is raised."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.client.frame_stream import EndOfStreamError, FrameLengthError, FrameStream

LARGEST = 1 << 20


class FakeTransport:
    def __init__(self) -> None:
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True


def feed(stream: FrameStream, data: bytes, largest_part: int) -> None:
    """As an event loop does: into the buffer that the stream offers."""
    while data:
        buffer = stream.get_buffer(-1)
        size = min(len(buffer), len(data), largest_part)
        buffer[:size] = data[:size]
        data = data[size:]
        stream.buffer_updated(size)


def framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4) + frame


@given(
    st.lists(
        st.binary(min_size=4, max_size=50) | st.integers(60_000, 200_000).map(lambda size: b"abcde" * (size // 5))
    ),
    st.integers(1, 100_000),
)
def test_frames_are_taken_from_parts_of_any_size(frames: list[bytes], largest_part: int) -> None:
    async def read() -> list[bytes]:
        stream = FrameStream(4, LARGEST)
        stream.connection_made(cast(asyncio.Transport, FakeTransport()))
        feed(stream, b"".join(map(framed, frames)), max(largest_part, sum(map(len, frames)) // 500))
        stream.eof_received()
        received = [await stream.read_frame() for _ in frames]
        assert all(frame.readonly for frame in received)
        with pytest.raises(EndOfStreamError):
            await stream.read_frame()
        return [bytes(frame) for frame in received]

    assert asyncio.run(read()) == frames


@pytest.mark.parametrize("head", [b"\x00\x00\x00\x03", b"\xff\xff\xff\xff", b"\x7f\x00\x00\x00", b"HTTP"])
def test_an_impossible_length_ends_the_stream_after_the_frames_before_it(head: bytes) -> None:
    async def read() -> None:
        stream = FrameStream(4, LARGEST)
        transport = FakeTransport()
        stream.connection_made(cast(asyncio.Transport, transport))
        feed(stream, framed(b"good") + head + b"more", 1_000)
        assert bytes(await stream.read_frame()) == b"good"
        with pytest.raises(FrameLengthError) as caught:
            await stream.read_frame()
        assert caught.value.head == head
        assert transport.is_closed

    asyncio.run(read())


def test_a_reader_waits_for_the_rest_of_a_frame_and_a_writer_for_the_transport() -> None:
    async def read() -> None:
        stream = FrameStream(4, LARGEST)
        stream.connection_made(cast(asyncio.Transport, FakeTransport()))
        reading = asyncio.create_task(stream.read_frame())
        feed(stream, framed(b"whole frame")[:9], 100)
        await asyncio.sleep(0)
        assert not reading.done()
        feed(stream, framed(b"whole frame")[9:], 100)
        assert bytes(await reading) == b"whole frame"
        stream.pause_writing()
        draining = asyncio.create_task(stream.drain())
        await asyncio.sleep(0)
        assert not draining.done()
        stream.resume_writing()
        await draining
        stream.connection_lost(ConnectionResetError("reset"))
        with pytest.raises(ConnectionResetError):
            await stream.read_frame()
        with pytest.raises(ConnectionResetError):
            await stream.drain()
        await stream.wait_closed()

    asyncio.run(read())
