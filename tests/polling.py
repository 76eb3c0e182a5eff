"""Waiting for a condition of another process, in tests: one helper, so that no test sleeps for a fixed time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

TIMEOUT_S = 60.0
"""Far more than any condition takes: only a defect waits this long."""
INTERVAL_S = 0.02


def wait_until(
    condition: Callable[[], T | None],
    description: str,
    *,
    timeout_s: float = TIMEOUT_S,
    interval_s: float = INTERVAL_S,
    state: Callable[[], object] | None = None,
) -> T:
    """Return the first true value of `condition`. After the timeout, fail with `description` and with what `state`
    returns."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        if time.monotonic() > deadline:
            details = "" if state is None else f"; {state()}"
            raise AssertionError(f"after {timeout_s:.0f} s still not true: {description}{details}")
        time.sleep(interval_s)
    return value
