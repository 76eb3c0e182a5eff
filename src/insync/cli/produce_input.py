"""What `insync produce` reads: values on the command line, files, or standard input, as bytes."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from insync.cli.exits import file_problem, usage_error
from insync.client.errors import ClientError

LINGER_S = 0.1
READ_AHEAD = 10_000
CHUNK_BYTES = 1 << 20


async def read_values(values: Sequence[str]) -> AsyncIterator[bytes | None]:
    for value in values:
        yield os.fsencode(value)  # bytes that are not UTF-8 stay as the shell gave them


async def read_files(files: Sequence[Path], delimiter: bytes) -> AsyncIterator[bytes | None]:
    for path in files:
        try:
            with open(path, "rb") as file:
                for part in split(file, delimiter):
                    yield part
        except OSError as error:
            raise ClientError(file_problem(error, path)) from None


async def read_stdin(delimiter: bytes) -> AsyncIterator[bytes | None]:
    """Parts as they arrive; None after a pause, so that records from a slow pipe are sent.

    They are read in a daemon thread, which does not keep the process alive.
    """
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[bytes | None] = asyncio.Queue()
    room = threading.Semaphore(READ_AHEAD)
    stream = sys.stdin.buffer

    def read() -> None:
        for part in split(stream, delimiter):
            room.acquire()
            loop.call_soon_threadsafe(queue.put_nowait, part)
        loop.call_soon_threadsafe(queue.put_nowait, None)

    threading.Thread(target=read, daemon=True, name="stdin").start()
    while True:
        try:
            async with asyncio.timeout(LINGER_S):
                part = await queue.get()
        except TimeoutError:
            yield None
            continue
        room.release()
        if part is None:
            return
        yield part


def split(file: IO[bytes], delimiter: bytes) -> Iterator[bytes]:
    """The parts between delimiters; with an empty one, everything is one part. A delimiter at the end adds none."""
    if not delimiter:
        if data := file.read():
            yield data
    elif delimiter == b"\n":
        for line in file:
            yield line.removesuffix(b"\n")
    else:
        rest = b""
        while chunk := _read_some(file):
            *parts, rest = (rest + chunk).split(delimiter)
            yield from parts
        if rest:
            yield rest


def _read_some(file: Any) -> bytes:
    """What is there, without waiting for more."""
    data: bytes = file.read1(CHUNK_BYTES) if hasattr(file, "read1") else file.read(CHUNK_BYTES)
    return data


def check_files(files: Sequence[Path]) -> None:
    """Exit code 2 before anything is sent, if one cannot be read."""
    for path in files:
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise usage_error(f"--file {file_problem(error, path)}") from None
