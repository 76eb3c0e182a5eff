"""Limits of time and memory for one input: exceeding them is a finding.

The time is that of the processor, so that the load of the machine does not matter.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

MAX_SECONDS = 5.0
MAX_BYTES = 1 << 30


class TooSlowError(Exception):
    """An input took longer than the limit."""


@contextmanager
def limit_resources(seconds: float = MAX_SECONDS, more_bytes: int = MAX_BYTES) -> Iterator[None]:
    """The block raises TooSlowError after this time, and MemoryError if the address space grows by more than this."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGVTALRM, _too_slow)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + more_bytes, hard))
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGVTALRM, before)


def _too_slow(_number: int, _frame: FrameType | None) -> None:
    raise TooSlowError


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
