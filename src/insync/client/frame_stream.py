"""A connection's stream of frames: answers are received into buffers of their own, without further copies.

asyncio's StreamReader would collect bytes in one buffer and copy each frame out of it. Here the length of a frame is
read first, and the rest goes straight from the socket to where it is used. Small frames that arrive whole are taken
from a buffer that is reused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from struct import Struct
from typing import cast

_LENGTH = Struct(">i")
_STAGING_BYTES = 64 << 10


class EndOfStreamError(ConnectionError):
    """The peer closed the connection."""


class FrameLengthError(Exception):
    """Four bytes that are not the length of a frame."""

    def __init__(self, head: bytes) -> None:
        super().__init__(head)
        self.head = head


class FrameStream(asyncio.BufferedProtocol):
    def __init__(self, shortest: int, largest: int) -> None:
        self._shortest, self._largest = shortest, largest
        self._staging = memoryview(bytearray(_STAGING_BYTES))
        self._staged = 0
        self._frame: memoryview | None = None
        """The frame that is arriving."""
        self._filled = 0
        self._frames: deque[memoryview] = deque()
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._closed = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    # --- frames ------------------------------------------------------------------------------------------------------

    async def read_frame(self) -> memoryview:
        """The next frame, without its length, read-only. Raises what ended the stream: `EndOfStreamError`,
        `FrameLengthError`, or an error of the system or of TLS."""
        while not self._frames:
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._frames.popleft()

    def write(self, pieces: Iterable[bytes]) -> None:
        if self._transport is not None:
            self._transport.writelines(pieces)

    async def drain(self) -> None:
        """Return once the transport takes more."""
        if self._error is not None:
            raise ConnectionResetError("the connection was lost")
        await self._writable.wait()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def wait_closed(self) -> None:
        await asyncio.shield(self._closed)

    # --- asyncio's interface -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are of other classes

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._staging[self._staged :] if self._frame is None else self._frame[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._frame is None:
            self._staged += nbytes
            self._take_staged()
            return
        self._filled += nbytes
        if self._filled == len(self._frame):
            self._frames.append(self._frame.toreadonly())
            self._frame = None
            self._wake()

    def eof_received(self) -> None:
        self._fail(EndOfStreamError())

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exc or EndOfStreamError())
        self._writable.set()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _take_staged(self) -> None:
        at = 0
        while self._frame is None and self._staged - at >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._staging, at)
            start, end = at + _LENGTH.size, at + _LENGTH.size + length
            if not self._shortest <= length <= self._largest:
                self._fail(FrameLengthError(bytes(self._staging[at:start])))
                self.close()
                return
            if end <= self._staged:
                self._frames.append(memoryview(bytes(self._staging[start:end])))
            else:
                self._frame, self._filled = memoryview(bytearray(length)), self._staged - start
                self._frame[: self._filled] = self._staging[start : self._staged]
            at = min(end, self._staged)
        rest = bytes(self._staging[at : self._staged])
        self._staging[: len(rest)] = rest
        self._staged = len(rest)
        if self._frames:
            self._wake()

    def _fail(self, error: Exception) -> None:
        """Keep the first error. Frames that arrived before it are still read."""
        if self._error is None:
            self._error = error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
