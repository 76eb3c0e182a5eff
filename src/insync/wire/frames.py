"""Frames on a connection: four bytes of length, then as many bytes.

Lengths above a limit are refused, and no memory is allocated for bytes that have not arrived: a peer that claims much
and sends little costs little. Frames that were taken are released at once, so that an idle connection holds no memory.
"""

from __future__ import annotations

from struct import Struct

from insync.wire.errors import MalformedFrameError

_LENGTH = Struct(">i")
_length = _LENGTH.unpack_from

_RELEASE_BYTES = 1 << 16
"""More taken bytes than this are not kept in front of the others."""


def framed(content: bytes) -> list[bytes | bytearray]:
    """The pieces of one frame: its length and its content."""
    return [_LENGTH.pack(len(content)), content]


class FrameBuffer:
    """Collects bytes from a socket and returns whole frames."""

    __slots__ = ("_data", "_max", "_position")

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._data: bytes | bytearray = b""
        self._position = 0

    def set_limit(self, max_bytes: int) -> None:
        """From now on frames may have this many bytes."""
        self._max = max_bytes

    def __len__(self) -> int:
        """Bytes that arrived and were not taken."""
        return len(self._data) - self._position

    @property
    def has_whole(self) -> bool:
        """True if `take` has something to return, or to refuse."""
        data, start = self._data, self._position + 4
        if start > len(data):
            return False
        length: int = _length(data, start - 4)[0]
        return start + length <= len(data) or length > self._max

    def add(self, data: bytes) -> None:
        """Usually `data` is whole frames and is kept without a copy."""
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
        """The next whole frame if it has arrived; MalformedFrameError if its length is negative or above the limit."""
        data, start = self._data, self._position + 4
        if start > len(data):
            return None
        length = _length(data, start - 4)[0]
        if not 0 <= length <= self._max:
            raise MalformedFrameError(f"frame length {length} is not between 0 and {self._max}")
        end = start + length
        if end > len(data):
            return None
        frame = data[start:end] if type(data) is bytes else bytes(memoryview(data)[start:end])
        if end == len(data):
            self._data, self._position = b"", 0
        elif end > _RELEASE_BYTES and type(data) is bytearray:
            del data[:end]
            self._position = 0
        else:
            self._position = end
        return frame
