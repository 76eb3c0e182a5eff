"""An idle Python worker that Spark stops prints no traceback; tasks reach pyspark unchanged."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from pyspark import daemon

from insync.spark import worker

A_TASK = 7


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Spark's end of the connection, and the worker's."""
    spark, own = socket.socketpair()
    with spark, own:
        yield spark, own


def test_a_connection_that_closes_before_a_task_ends_the_worker_quietly(
    pair: tuple[socket.socket, socket.socket], capfd: pytest.CaptureFixture[str]
) -> None:
    spark, own = pair
    spark.close()
    assert worker.QuietWorker(daemon.worker)(own, True) == worker.STOPPED_IDLE
    assert capfd.readouterr().err == ""


def test_a_task_reaches_pyspark_with_every_byte(pair: tuple[socket.socket, socket.socket]) -> None:
    spark, own = pair
    spark.sendall(b"task")
    given: list[tuple[bytes, bool]] = []

    def work(sock: socket.socket, authenticated: bool) -> int:
        given.append((sock.recv(100), authenticated))
        return A_TASK

    assert worker.QuietWorker(work)(own, True) == A_TASK
    assert given == [(b"task", True)]


def test_only_the_daemon_is_patched_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, is_patched in {worker.DAEMON: True, "pytest.__main__": False}.items():
        main = ModuleType("__main__")
        main.__spec__ = ModuleSpec(name, None)
        vars(main)["worker"] = daemon.worker
        monkeypatch.setitem(sys.modules, "__main__", main)
        worker.suppress_idle_worker_traceback()
        first = vars(main)["worker"]
        worker.suppress_idle_worker_traceback()
        assert vars(main)["worker"] is first
        assert isinstance(first, worker.QuietWorker) is is_patched


def test_the_daemons_loop_looks_worker_up_by_name() -> None:
    assert "worker" in daemon.manager.__code__.co_names
