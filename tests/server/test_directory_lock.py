"""One process per directory: the lock that a node takes before it opens anything."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from insync.server.directory_lock import LOCK_FILE, DirectoryLock, DirectoryLockedError
from insync.server.startup_error import StartupError

HOLD = """
import sys
from insync.server.directory_lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""
HOLD_AS_KAFKA = """
import fcntl, sys
file = open(sys.argv[1] + "/.lock", "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""
DIE_AND_LEAVE_A_CHILD = """
import os, sys
from insync.server.directory_lock import DirectoryLock
lock = DirectoryLock(sys.argv[1])
if os.fork():
    os._exit(0)
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def process(code: str, directory: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Runs until the end of the block, or until it is killed."""
    started = subprocess.Popen(
        [sys.executable, "-c", code, str(directory)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == b"held\n"
        yield started
    finally:
        started.communicate()


def test_a_second_process_is_refused_with_the_holder_of_the_directory(tmp_path: Path) -> None:
    """B9: the error has the pid and the command line; when the holder dies in any way, the lock is free."""
    with process(HOLD, tmp_path) as holder:
        with pytest.raises(
            DirectoryLockedError, match=rf"{tmp_path} is in use .* pid {holder.pid} \(.*python"
        ) as refused:
            DirectoryLock(str(tmp_path))
        assert refused.value.pid == holder.pid
        holder.kill()
        holder.wait()
        DirectoryLock(str(tmp_path)).release()


def test_a_second_owner_within_one_process_is_refused_too(tmp_path: Path) -> None:
    """B9: two clusters of one test, say."""
    with DirectoryLock(str(tmp_path)), pytest.raises(DirectoryLockedError, match=f"pid {os.getpid()} "):
        DirectoryLock(str(tmp_path))
    DirectoryLock(str(tmp_path)).release()


def test_reading_the_file_does_not_release_the_lock(tmp_path: Path) -> None:
    """B9: a classic lock of fcntl ends when its process closes any descriptor of the file."""
    with DirectoryLock(str(tmp_path)):
        (tmp_path / LOCK_FILE).read_text()
        with pytest.raises(DirectoryLockedError):
            DirectoryLock(str(tmp_path))


def test_a_directory_has_one_lock_under_all_its_names(tmp_path: Path) -> None:
    """B9: through a symbolic link it is the same directory."""
    real, other = tmp_path / "real", tmp_path / "other"
    real.mkdir()
    other.symlink_to(real)
    with DirectoryLock(str(real)), pytest.raises(DirectoryLockedError):
        DirectoryLock(str(other))


def test_a_file_that_a_dead_process_left_is_locked_again(tmp_path: Path) -> None:
    """B9: the kernel keeps the lock, not the file."""
    (tmp_path / LOCK_FILE).write_text("1\n/sbin/init\n")
    with DirectoryLock(str(tmp_path)):
        assert (tmp_path / LOCK_FILE).read_text().startswith(f"{os.getpid()}\n")


def test_a_forked_child_does_not_keep_the_lock_after_the_owners_death(tmp_path: Path) -> None:
    """B9: the child has a copy of every descriptor, and may live on."""
    with process(DIE_AND_LEAVE_A_CHILD, tmp_path) as owner:
        owner.wait()
        with DirectoryLock(str(tmp_path)):
            assert (tmp_path / LOCK_FILE).read_text().startswith(f"{os.getpid()}\n")


def test_apache_kafka_and_insync_exclude_each_other(tmp_path: Path) -> None:
    """B9: Kafka's lock is a classic one of fcntl, and its file is empty: the kernel names the holder."""
    with process(HOLD_AS_KAFKA, tmp_path) as holder, pytest.raises(DirectoryLockedError, match=f"pid {holder.pid}"):
        DirectoryLock(str(tmp_path))


def test_a_directory_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"Cannot open .*nowhere/\.lock: No such file"):
        DirectoryLock(str(tmp_path / "nowhere"))
    (tmp_path / LOCK_FILE).mkdir()
    with pytest.raises(StartupError, match=r"Cannot open .*: Is a directory"):
        DirectoryLock(str(tmp_path))
