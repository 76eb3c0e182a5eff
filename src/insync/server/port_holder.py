"""Finds the process that listens on a port of this machine, from /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator

from insync.server.directory_lock import command_of

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTENING = "0A"
_LOCAL, _STATE, _INODE = 1, 3, 9
"""Columns of these tables."""


def describe_holder(port: int) -> str:
    """`pid 123 (command line)`; empty if no process is found, or if it belongs to another user."""
    sockets = {f"socket:[{inode}]" for inode in _listening_inodes(port)}
    pid = _owner_of(sockets) if sockets else None
    if pid is None:
        return ""
    command = command_of(pid)
    return f"pid {pid}{f' ({command})' if command else ''}"


def _listening_inodes(port: int) -> Iterator[str]:
    for table in _TABLES:
        try:
            with open(table) as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except OSError:
            continue
        for row in rows:
            if row[_STATE] == _LISTENING and int(row[_LOCAL].rpartition(":")[2], 16) == port:
                yield row[_INODE]


def _owner_of(sockets: set[str]) -> int | None:
    for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
        try:
            with os.scandir(f"/proc/{pid}/fd") as descriptors:
                if any(os.readlink(descriptor.path) in sockets for descriptor in descriptors):
                    return pid
        except OSError:  # the process has ended, or belongs to another user
            continue
    return None
