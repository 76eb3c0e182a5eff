"""Keeps freed buffers in the process, for processes that move megabytes at a time.

By default glibc returns large blocks to the kernel when they are freed, and maps new ones for the next answer. The
kernel clears every page of these, which took a broker two thirds of its time with fetches of 4 MB.
"""

from __future__ import annotations

import ctypes
from functools import cache

MAX_KEPT_BLOCK_BYTES = 32 << 20
"""Blocks up to this size are kept; it is the highest threshold that glibc accepts."""
MAX_FREE_BYTES = 64 << 20
"""Free memory above this is returned to the kernel."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


@cache
def keep_buffers() -> None:
    """No-op unless the C library is glibc."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, MAX_KEPT_BLOCK_BYTES)
        mallopt(_M_TRIM_THRESHOLD, MAX_FREE_BYTES)
