"""Nodes and clients run on uvloop where it is installed, and on asyncio's own loop elsewhere."""

from __future__ import annotations

import asyncio
import sys

import pytest
import uvloop

from insync import event_loop


async def kind_of_running_loop() -> type[asyncio.AbstractEventLoop]:
    return type(asyncio.get_running_loop())


def test_uvloop_is_used_where_it_is_installed() -> None:
    assert event_loop.run(kind_of_running_loop()) is uvloop.Loop


def test_without_uvloop_asyncios_own_loop_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert issubclass(event_loop.run(kind_of_running_loop()), asyncio.SelectorEventLoop)
