"""Spark's Python workers: what each process does once, and how an idle one ends.

A worker waits for its next task on the connection of the last one. After an idle minute Spark closes that connection.
pyspark takes this for a failed task, tries to report it over the closed connection, and prints a traceback that ends in
BrokenPipeError, once per worker. No Spark setting prevents it: the daemon of the workers that plan and commit cannot be
configured (`spark.python.daemon.module` covers the others only).

So importing `insync.spark` in a worker wraps the daemon's `worker` function: a connection that closes before a task has
begun ends the worker quietly. One that closes within a task is reported as before.
"""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from insync import memory

DAEMON = "pyspark.daemon"
"""The program that workers are forked from and whose loop they run."""
STOPPED_IDLE = 1
"""The daemon's loop ends on anything but 0."""

Worker = Callable[[socket.socket, bool], int]


@cache
def prepare_worker() -> None:
    """Freeze the modules' objects: Spark collects garbage between tasks and would visit them each time."""
    memory.keep_buffers()
    gc.collect()
    gc.freeze()


def suppress_idle_worker_traceback() -> None:
    """Wrap the daemon's `worker` function. Does nothing in other processes, or the second time."""
    main: Any = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", None) != DAEMON:
        return
    worker = getattr(main, "worker", None)
    if callable(worker) and not isinstance(worker, QuietWorker):
        main.worker = QuietWorker(worker)  # the daemon's loop looks the name up for each task


class QuietWorker:
    """pyspark's `worker` function, called only if a task arrives."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __call__(self, sock: socket.socket, authenticated: bool) -> int:
        return self._worker(sock, authenticated) if _wait_for_task(sock) else STOPPED_IDLE


def _wait_for_task(sock: socket.socket) -> bool:
    """True once a task arrives, false if the connection closes first."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except ConnectionError:
        return False
