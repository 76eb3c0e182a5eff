"""What every Python worker of Spark does once, whatever its tasks are."""

from __future__ import annotations

import gc
from functools import cache

from insync import memory


@cache
def settle() -> None:
    """Spark collects garbage between tasks; modules live as long as the worker, and need not be looked at each time."""
    memory.keep_buffers()
    gc.collect()
    gc.freeze()
