"""The event loop of nodes and clients: uvloop's where it is installed (`insync[server]`), otherwise asyncio's own.

uvloop costs less per request. Nothing depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def new_event_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run."""
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(main)
