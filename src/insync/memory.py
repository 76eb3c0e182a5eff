"""Processes that move megabytes at a time keep the memory that they need again at once.

The allocator of glibc gives blocks of many pages back when they are freed, and asks for them anew for the next answer;
the kernel then clears every page, which took a broker two thirds of its time under fetches of 4 MB.
"""

from __future__ import annotations

import ctypes
from functools import cache

LARGEST = 32 << 20
"""Blocks up to this are kept: more than glibc will not take for an answer."""
KEPT = 64 << 20
"""Free bytes at most before memory goes back to the system."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@cache
def keep_buffers() -> None:
    """Where the C library is another one, its own ways stay."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, LARGEST)
        mallopt(_M_TRIM_THRESHOLD, KEPT)
