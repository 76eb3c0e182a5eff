"""Work in forked processes: what a mutation breaks stays there, and nothing has to be imported again."""

from __future__ import annotations

import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

MEMORY_BYTES = 4 << 30
"""A mutation may make a loop that allocates for ever."""


@dataclass(slots=True)
class _Child(Generic[T]):
    work: T
    pid: int
    pipe: int
    deadline: float


def run_forked(
    work: Iterable[T], task: Callable[[T], str], *, jobs: int, limit_s: Callable[[T], float]
) -> Iterator[tuple[T, str]]:
    """(work, what the task returned), in the order in which they end. A task that does not end in time returns
    `timeout`, one whose process dies `died`."""
    pending = iter(work)
    running: list[_Child[T]] = []
    while True:
        while len(running) < jobs and (item := next(pending, None)) is not None:
            running.append(_start(item, task, limit_s(item)))
        if not running:
            return
        for child in [child for child in running if _has_ended(child)]:
            running.remove(child)
            yield child.work, _collect(child)
        time.sleep(0.005)


def _start(work: T, task: Callable[[T], str], limit_s: float) -> _Child[T]:
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        _run_child(work, task, writer)
    os.close(writer)
    os.set_blocking(reader, False)
    return _Child(work, pid, reader, time.monotonic() + limit_s)


def _run_child(work: T, task: Callable[[T], str], writer: int) -> None:
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.write(writer, task(work).encode()[:4_000])
        os._exit(0)
    except BaseException as error:
        os.write(writer, type(error).__name__.encode())
        os._exit(1)


def _has_ended(child: _Child[T]) -> bool:
    if time.monotonic() > child.deadline:
        os.kill(child.pid, signal.SIGKILL)
        os.waitpid(child.pid, 0)
        return True
    return os.waitpid(child.pid, os.WNOHANG)[0] != 0


def _collect(child: _Child[T]) -> str:
    try:
        said = os.read(child.pipe, 4_000).decode()
    except BlockingIOError:
        said = ""
    finally:
        os.close(child.pipe)
    if said:
        return said
    return "timeout" if time.monotonic() > child.deadline else "died"
