"""Frames on a connection: four bytes of length, then as many bytes.

A length is believed only up to a limit, and no room is made for bytes that have not come: a peer that claims much and
sends little costs little. What has been taken out is let go of at once, so that an idle connection holds nothing.
"""

from __future__ import annotations

from struct import Struct

from insync.wire.errors import MalformedFrameError

_LENGTH = Struct(">i")
_length = _LENGTH.unpack_from

_LET_GO = 1 << 16
"""So many bytes that were taken out are kept at most in front of those that were not."""


def framed(content: bytes) -> list[bytes | bytearray]:
    """The pieces of one frame: its length, and what it holds."""
    return [_LENGTH.pack(len(content)), content]


class FrameBuffer:
    """Takes in what a socket gave, gives out whole frames."""

    __slots__ = ("_data", "_max", "_position")

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._data: bytes | bytearray = b""
        self._position = 0

    def __len__(self) -> int:
        """Bytes that came and were not taken."""
        return len(self._data) - self._position

    @property
    def has_whole(self) -> bool:
        """Whether the next frame is here; a length that `take` refuses is as good as one."""
        data, start = self._data, self._position + 4
        if start > len(data):
            return False
        length: int = _length(data, start - 4)[0]
        return start + length <= len(data) or length > self._max

    def add(self, data: bytes) -> None:
        """Most of the time that is whole frames, and is kept as it is."""
        if self._position == len(self._data):
            self._data, self._position = data, 0
            return
        if not isinstance(self._data, bytearray):
            self._data = bytearray(memoryview(self._data)[self._position :])
        elif self._position:
            del self._data[: self._position]
        self._position = 0
        self._data += data

    def take(self) -> bytes | None:
        """The next whole frame, if it is here; MalformedFrameError if its length is negative or above the limit."""
        data, start = self._data, self._position + 4
        if start > len(data):
            return None
        length = _length(data, start - 4)[0]
        if not 0 <= length <= self._max:
            raise MalformedFrameError(f"a frame of {length} bytes")
        end = start + length
        if end > len(data):
            return None
        frame = data[start:end] if type(data) is bytes else bytes(memoryview(data)[start:end])
        if end == len(data):
            self._data, self._position = b"", 0
        elif end > _LET_GO and type(data) is bytearray:
            del data[:end]
            self._position = 0
        else:
            self._position = end
        return frame
