"""Binds sockets to listen on."""

from __future__ import annotations

import errno
import ipaddress
import os
import socket

from insync.server.port_holder import describe_holder
from insync.server.startup_error import StartupError

ALL_INTERFACES = "0.0.0.0"


class BindError(StartupError):
    """A node cannot listen on an address."""

    def __init__(self, host: str, port: int, error: OSError) -> None:
        is_unknown_name = isinstance(error, socket.gaierror)
        reason = (os.strerror(error.errno) if error.errno and not is_unknown_name else str(error.strerror)).lower()
        holder = describe_holder(port) if error.errno == errno.EADDRINUSE else ""
        self.port = port
        self.is_taken = error.errno == errno.EADDRINUSE
        self.problem = f"Cannot listen on {host or ALL_INTERFACES}:{port}: {reason}{f' by {holder}' if holder else ''}."
        """Without advice."""
        advice = "Stop that process, or use another address." if self.is_taken else "Use an address of this machine."
        super().__init__(f"{self.problem} {advice}")


def bind(host: str, port: int) -> socket.socket:
    """A socket bound to this address; port 0 chooses a free port. BindError if that fails.

    SO_REUSEADDR lets a node restart while old connections of this port linger. It does not let two processes listen
    on one port: the second one fails here, or in `listen` if both are bound before either listens.
    """
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host or ALL_INTERFACES, port))
    except OSError as error:
        sock.close()
        raise BindError(host, port, error) from error
    return sock


def is_loopback(sock: socket.socket) -> bool:
    """Whether only processes of this machine reach the address that the socket is bound to."""
    return ipaddress.ip_address(sock.getsockname()[0]).is_loopback
