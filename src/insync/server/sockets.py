"""Addresses to listen on."""

from __future__ import annotations

import errno
import os
import socket

from insync.server.port_holder import describe_holder
from insync.server.startup_error import StartupError

EVERYWHERE = "0.0.0.0"


class BindError(StartupError):
    """An address that cannot be listened on."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        why = (os.strerror(error.errno) if error.errno else str(error)).lower()
        holder = describe_holder(port) if error.errno == errno.EADDRINUSE else ""
        super().__init__(f"cannot listen on {host or EVERYWHERE}:{port}: {why}{f' by {holder}' if holder else ''}")


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to this address; port 0 takes a free one. BindError if it cannot be had.

    SO_REUSEADDR lets a node start again while old connections of this port linger. It does not let two processes listen
    on one port: the second one fails here, or in `listen` if both get this far before either listens.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host or EVERYWHERE, port))
    except OSError as error:
        sock.close()
        raise BindError(host, port, error) from error
    return sock
