"""The local clusters that run on this machine: each has a name, and a socket by which other commands reach it.

The socket is `NAME.sock` in a directory of this user. A cluster runs if its socket accepts a connection. A request is
one line of JSON, and so is the answer:

    {"command": "status"}                            the cluster, its nodes and their processes
    {"command": "stop"}
    {"command": "restart", "node": 2, "kill": false}
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from insync.server.startup_error import StartupError

DIRECTORY_VARIABLE = "INSYNC_RUNTIME_DIR"
DEFAULT_NAME = "local"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
SUFFIX = ".sock"
TIMEOUT_S = 10.0
MAX_REQUEST_BYTES = 65_536

Answer = dict[str, Any]
Handler = Callable[[dict[str, Any]], Answer]


class RegistryError(StartupError):
    """The directory of sockets cannot be used, or a name is taken or invalid."""


class NotRunningError(Exception):
    """No cluster of this name runs, or it does not answer."""


def runtime_directory() -> Path:
    """Where sockets and the logs of detached clusters are; it may not exist."""
    chosen = os.environ.get(DIRECTORY_VARIABLE)
    return Path(chosen) if chosen else Path(tempfile.gettempdir()) / f"insync-{os.getuid()}"


def create_runtime_directory() -> Path:
    """Others must not be able to put sockets of their own there."""
    directory = runtime_directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = directory.stat()
    except OSError as error:
        raise RegistryError(f"Cannot use {directory}: {error.strerror}. Set {DIRECTORY_VARIABLE} to another.") from None
    if state.st_uid != os.getuid() or stat.S_IMODE(state.st_mode) & 0o022:
        raise RegistryError(
            f"{directory} can be changed by other users. Remove it, or set {DIRECTORY_VARIABLE} to another directory."
        )
    return directory


def log_path(name: str) -> Path:
    """The output of a cluster that was started in the background."""
    return runtime_directory() / f"{name}.log"


# --- clients ----------------------------------------------------------------------------------------------------------


def list_clusters(timeout_s: float = TIMEOUT_S) -> list[Answer]:
    """The status of each cluster that runs, by name."""
    try:
        names = sorted(entry.name.removesuffix(SUFFIX) for entry in runtime_directory().glob(f"*{SUFFIX}"))
    except OSError:
        return []
    clusters = []
    for name in names:
        with suppress(NotRunningError):
            clusters.append(send_request(name, {"command": "status"}, timeout_s))
    return clusters


def send_request(name: str, request: dict[str, Any], timeout_s: float = TIMEOUT_S) -> Answer:
    try:
        with _socket_path(name) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            sock.connect(path)
            sock.sendall(json.dumps(request).encode() + b"\n")
            with sock.makefile("rb") as file:
                answer: Answer = json.loads(file.readline())
                return answer
    except (OSError, ValueError) as error:
        raise NotRunningError(f"cluster '{name}' does not answer: {error}") from None


@contextmanager
def _socket_path(name: str) -> Iterator[str]:
    """A path of the socket that is short enough for any directory: the system allows about 100 characters."""
    directory = os.open(runtime_directory(), os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{directory}/{name}{SUFFIX}"
    finally:
        os.close(directory)


# --- the cluster ------------------------------------------------------------------------------------------------------


class Registration:
    """Makes a cluster known under `name`, or under a free name if that is None, until `close`."""

    def __init__(self, name: str | None, handle: Handler) -> None:
        self._handle = handle
        self._directory = create_runtime_directory()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.name = self._bind(name)
        except BaseException:
            self._socket.close()
            raise
        threading.Thread(target=self._serve, name="control", daemon=True).start()

    def close(self) -> None:
        with suppress(OSError):
            (self._directory / f"{self.name}{SUFFIX}").unlink()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _bind(self, name: str | None) -> str:
        if name is not None and not NAME.fullmatch(name):
            raise RegistryError(f"{name!r} is not a cluster name: use letters, digits, dots, dashes and underscores.")
        with open(self._directory / ".lock", "a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # between the look at a socket and its replacement
            for candidate in _names(name):
                path = self._directory / f"{candidate}{SUFFIX}"
                if not _accepts_connections(candidate):
                    path.unlink(missing_ok=True)
                    with _socket_path(candidate) as short_path:
                        self._socket.bind(short_path)
                    self._socket.listen()
                    return candidate
        raise RegistryError(
            f"A cluster named '{name}' is already running: `insync status` shows it. Stop it with "
            f"`insync down {name}`, or choose another --name."
        )

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            threading.Thread(target=self._answer, args=(connection,), name="control", daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.settimeout(TIMEOUT_S)
            with connection.makefile("rwb") as file:
                line = file.readline(MAX_REQUEST_BYTES)
                try:
                    answer = self._handle(json.loads(line))
                except (ValueError, KeyError, TypeError) as error:
                    answer = {"error": f"not a request: {error!r}"}
                file.write(json.dumps(answer).encode() + b"\n")


def _names(name: str | None) -> Iterator[str]:
    if name is not None:
        yield name
        return
    yield DEFAULT_NAME
    for number in range(2, 1_000):
        yield f"{DEFAULT_NAME}-{number}"


def _accepts_connections(name: str) -> bool:
    with _socket_path(name) as path, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        sock.settimeout(TIMEOUT_S)
        try:
            sock.connect(path)
        except TimeoutError:
            return True  # its queue is full, so a process is there
        except OSError:
            return False
        return True
