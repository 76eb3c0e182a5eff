"""A Python worker that Spark dismisses ends without a word; one that has a task is pyspark's."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
from pyspark import daemon

from insync.spark import dismissal

A_TASK = 7


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Spark's end of the connection, and the worker's."""
    spark, own = socket.socketpair()
    with spark, own:
        yield spark, own


def test_a_connection_that_ends_before_a_task_is_the_end_of_the_worker(
    pair: tuple[socket.socket, socket.socket], capfd: pytest.CaptureFixture[str]
) -> None:
    spark, own = pair
    spark.close()
    assert dismissal.Dismissible(daemon.worker)(own, True) == dismissal.DISMISSED
    assert capfd.readouterr().err == ""


def test_a_task_is_pysparks_with_every_byte(pair: tuple[socket.socket, socket.socket]) -> None:
    spark, own = pair
    spark.sendall(b"task")
    given: list[tuple[bytes, bool]] = []

    def work(sock: socket.socket, authenticated: bool) -> int:
        given.append((sock.recv(100), authenticated))
        return A_TASK

    assert dismissal.Dismissible(work)(own, True) == A_TASK
    assert given == [(b"task", True)]


def test_only_the_daemons_program_is_changed_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, changed in {dismissal.DAEMON: True, "pytest.__main__": False}.items():
        main = ModuleType("__main__")
        main.__spec__ = type("Spec", (), {"name": name})()
        main.worker = daemon.worker
        monkeypatch.setitem(sys.modules, "__main__", main)
        dismissal.arrange()
        first = main.worker
        dismissal.arrange()
        assert main.worker is first
        assert isinstance(first, dismissal.Dismissible) is changed


def test_pysparks_loop_looks_its_worker_up_by_name() -> None:
    assert "worker" in daemon.manager.__code__.co_names
