"""Time and memory for one input: what takes more is a finding, not a hanging fuzzer.

Time is the processor's, so that a busy machine changes nothing.
"""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

MOST_SECONDS = 5.0
MOST_BYTES = 1 << 30


class TooSlow(Exception):  # noqa: N818  says what it was
    """An input took longer than any may."""


@contextmanager
def limited(seconds: float = MOST_SECONDS, more_bytes: int = MOST_BYTES) -> Iterator[None]:
    """Within, one input may take so long, and the process may grow by so much address space (MemoryError)."""
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
    raise TooSlow


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
