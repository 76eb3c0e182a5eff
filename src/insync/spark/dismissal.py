"""Python workers end without a word when Spark does not need them any more.

A worker waits for its next task on the connection over which the last one came. After an idle minute Spark closes that
connection. pyspark takes this for a task that failed, wants to report it over the connection that is closed, and prints
a traceback that ends in BrokenPipeError, for each worker. No setting of Spark keeps it from that: the daemon of workers
that plan and commit has no setting (`spark.python.daemon.module` is for the others only).

So a worker that imports `insync.spark` looks from then on before it begins: a connection that ends before a task has
begun is the end of the worker. One that ends within a task is told as ever.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable
from typing import Any

DAEMON = "pyspark.daemon"
"""The program that workers are forked from, and whose loop they run."""
DISMISSED = 1
"""The loop ends with anything but 0."""

Worker = Callable[[socket.socket, bool], int]


def arrange() -> None:
    """In a worker, once; elsewhere it does nothing."""
    main: Any = sys.modules.get("__main__")
    if getattr(getattr(main, "__spec__", None), "name", None) != DAEMON:
        return
    worker = getattr(main, "worker", None)
    if callable(worker) and not isinstance(worker, Dismissible):
        main.worker = Dismissible(worker)  # its loop looks the name up each time


class Dismissible:
    """pyspark's function that reads a task and does it, if there is one."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    def __call__(self, sock: socket.socket, authenticated: bool) -> int:
        return self._worker(sock, authenticated) if _is_wanted(sock) else DISMISSED


def _is_wanted(sock: socket.socket) -> bool:
    """True as soon as there is a task, false as soon as there will be none."""
    try:
        return bool(sock.recv(1, socket.MSG_PEEK))
    except ConnectionError:
        return False
