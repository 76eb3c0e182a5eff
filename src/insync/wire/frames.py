"""Frames on a connection: four bytes of length, then as many bytes.

A reader is fed whatever arrived and gives whole frames. A length is believed only up to a limit, and no room is made
for bytes that have not come: a peer that claims much and sends little costs little.
"""

from __future__ import annotations

from struct import Struct

from insync.wire.errors import MalformedFrame

MAX_FRAME = 100 * 1024 * 1024
"""Kafka's socket.request.max.bytes."""

_LENGTH = Struct(">i")


def framed(content: bytes) -> list[bytes | bytearray]:
    """The pieces of one frame: its length, and what it holds."""
    return [_LENGTH.pack(len(content)), content]


class FrameReader:
    __slots__ = ("_buffer", "_limit")

    def __init__(self, limit: int = MAX_FRAME) -> None:
        self._limit = limit
        self._buffer = bytearray()

    @property
    def pending(self) -> int:
        """How many bytes of an unfinished frame are held."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Every frame that `data` completes; MalformedFrame for a length below zero or above the limit."""
        if self._buffer:
            return self._feed_rest(data)
        frames, pos = self._split(data)
        if pos < len(data):
            self._buffer += memoryview(data)[pos:]
        return frames

    def _feed_rest(self, data: bytes) -> list[bytes]:
        buffer = self._buffer
        buffer += data
        frames, pos = self._split(buffer)
        if pos:
            del buffer[:pos]
        return frames

    def _split(self, data: bytes | bytearray) -> tuple[list[bytes], int]:
        """The whole frames of `data`, and the position after them."""
        frames: list[bytes] = []
        pos = 0
        view = memoryview(data)
        while len(view) - pos >= 4:
            end = pos + 4 + self._checked(_LENGTH.unpack_from(view, pos)[0])
            if end > len(view):
                break
            frames.append(bytes(view[pos + 4 : end]))
            pos = end
        view.release()
        return frames, pos

    def _checked(self, length: int) -> int:
        if not 0 <= length <= self._limit:
            raise MalformedFrame(f"a frame of {length} bytes")
        return length
