"""B9: one process per directory. The lock is on the file `.lock`, as in Kafka, and ends with the process.

The kernel holds the lock, not the file: after a crash the file can be locked again at once. On Linux these are
open file description locks. Unlike the classic locks of fcntl they survive another `close` of the same file in this
process and exclude a second owner within it; unlike those of flock they also exclude Apache Kafka. The file holds the
owner's pid and command line, for the error message of the next process.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import struct
import sys
import weakref

from insync.server.startup_error import StartupError

LOCK_FILE = ".lock"

_BUSY = (errno.EACCES, errno.EAGAIN)
_FLOCK = "hhqqi4x"
"""struct flock where off_t has 64 bits: type, whence, start, length (0: all of the file), pid (0: ours)."""


class DirectoryLockedError(StartupError):
    """Another process uses the directory."""

    def __init__(self, directory: str, pid: int, command: str) -> None:
        holder = f"pid {pid}" if pid > 0 else "its pid is unknown"
        super().__init__(
            f"{directory} is in use by another process: {holder}{f' ({command})' if command else ''}. "
            "Stop that process first, or use another directory."
        )
        self.directory = directory
        self.pid = pid


class DirectoryLock:
    """Held from construction until `release`, or until the process ends. The directory must exist."""

    __slots__ = ("__weakref__", "_fd", "directory")

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self._fd = _open(directory)
        try:
            if not _try_lock(self._fd):
                raise DirectoryLockedError(directory, *_read_holder(self._fd))
            with contextlib.suppress(OSError):  # the lock holds even if a full disk prevents this
                os.ftruncate(self._fd, 0)
                os.pwrite(self._fd, f"{os.getpid()}\n{_command()}\n".encode(errors="replace"), 0)
        except BaseException:
            self._forget()
            raise
        _held.add(self)

    def release(self) -> None:
        """The file stays: removing it would let a second process lock a new file while a third waits for this one."""
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(OSError):
                os.ftruncate(fd, 0)
            _set_lock(fd, fcntl.F_UNLCK)  # `close` is not enough: a process being forked may have the descriptor
            os.close(fd)

    def __enter__(self) -> DirectoryLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.release()

    def _forget(self) -> None:
        """Close without unlocking, in a forked child: its descriptor would hold the lock after the parent's death."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


_held: weakref.WeakSet[DirectoryLock] = weakref.WeakSet()


def _forget_all() -> None:
    for lock in list(_held):
        lock._forget()


os.register_at_fork(after_in_child=_forget_all)


def _open(directory: str) -> int:
    path = os.path.join(directory, LOCK_FILE)
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EISDIR, errno.ENOENT):
            raise
        raise StartupError(
            f"Cannot open {path}: {error.strerror}. Make the directory writable for this user, or use another one."
        ) from error


def _set_lock(fd: int, kind: int) -> None:
    if hasattr(fcntl, "F_OFD_SETLK"):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, kind, os.SEEK_SET, 0, 0, 0))
    else:
        fcntl.flock(fd, fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB)


def _try_lock(fd: int) -> bool:
    try:
        _set_lock(fd, fcntl.F_WRLCK)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        raise
    return True


def _read_holder(fd: int) -> tuple[int, str]:
    """(pid, command line) of the process that holds the lock; the pid is -1 if it is unknown."""
    pid, _, command = os.pread(fd, 4_096, 0).decode(errors="replace").partition("\n")
    if pid.isdigit():
        return int(pid), command.strip()
    owner = _pid_of_classic_lock(fd)  # Apache Kafka writes nothing to the file
    return owner, command_of(owner)


def _pid_of_classic_lock(fd: int) -> int:
    if not hasattr(fcntl, "F_OFD_SETLK"):
        return -1
    query = struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    kind, _, _, _, pid = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_GETLK, query))
    return pid if kind != fcntl.F_UNLCK and pid > 0 else -1


def command_of(pid: int) -> str:
    """The command line of a process; empty if the system does not provide it."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _command() -> str:
    return command_of(os.getpid()) or " ".join(sys.argv)
