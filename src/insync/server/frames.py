"""Bytes of a stream into frames: a four-byte length, then that many bytes.

A frame is taken out whole. Memory grows with what has arrived, never with what a length promises.
"""

from __future__ import annotations

from struct import Struct

from insync.wire.errors import MalformedFrame

_length = Struct(">i").unpack_from


class FrameBuffer:
    __slots__ = ("_data", "_max", "_position")

    def __init__(self, max_bytes: int) -> None:
        self._max = max_bytes
        self._data: bytes | bytearray = b""
        self._position = 0

    def __len__(self) -> int:
        """Bytes that came and were not taken."""
        return len(self._data) - self._position

    def add(self, data: bytes) -> None:
        """What a socket gave. Most of the time that is whole frames, and is kept as it is."""
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
        """The next whole frame, if it is here; MalformedFrame if its length is negative or above the limit."""
        data, start = self._data, self._position + 4
        if start > len(data):
            return None
        length = _length(data, start - 4)[0]
        if not 0 <= length <= self._max:
            raise MalformedFrame(f"a frame of {length} bytes")
        end = start + length
        if end > len(data):
            return None
        self._position = end
        return data[start:end] if type(data) is bytes else bytes(memoryview(data)[start:end])
