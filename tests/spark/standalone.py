"""A standalone master with two workers of one core on loopback: executors are processes, and can be killed.

The JVMs are those of pyspark's own jars. Each is a child of whoever starts it and ends with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyspark

T = TypeVar("T")

PATIENCE_S = 300
REPOSITORY = Path(__file__).parents[2]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Starts sooner; nothing here runs long enough to be compiled better."""
EXECUTOR = b"CoarseGrainedExecutorBackend"


@dataclass(frozen=True)
class Standalone:
    address: str
    workers: tuple[int, ...]
    """Their pids."""

    def executors(self) -> list[int]:
        """The pids of those that run now."""
        every = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
        return sorted(pid for pid in every if parent(pid) in self.workers and EXECUTOR in _command(pid))


@contextlib.contextmanager
def standalone(directory: Path) -> Iterator[Standalone]:
    with contextlib.ExitStack() as stack:
        port = _free_port()
        log = directory / "master.log"
        stack.enter_context(_jvm(log, "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"))
        address = f"spark://127.0.0.1:{port}"
        workers = [stack.enter_context(_worker(directory, f"worker-{index}", address)) for index in (1, 2)]
        until(lambda: log.exists() and log.read_text(errors="replace").count("Registering worker") == 2, "two workers")
        yield Standalone(address, tuple(each.pid for each in workers))


@contextlib.contextmanager
def started(command: Sequence[str | Path], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A driver in the directory of `log`, which has its standard error; what it prints is for the caller."""
    with log.open("wb") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, env=environment(), cwd=log.parent, stdin=subprocess.DEVNULL
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def environment() -> Mapping[str, str]:
    """As in a shell where the virtual environment is active; nothing has to resolve the machine's name.

    Executors inherit it from their worker, and find the modules of tests that a driver's functions use.
    """
    first = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(REPOSITORY)}
    paths = {name: os.pathsep.join(filter(None, (own, os.environ.get(name)))) for name, own in first.items()}
    quick = {"JAVA_TOOL_OPTIONS": QUICK_JVM, "SPARK_DAEMON_MEMORY": "256m"}
    return {**os.environ, **paths, **quick, "SPARK_LOCAL_IP": "127.0.0.1"}


def finished(process: subprocess.Popen[bytes], log: Path, code: int = 0) -> list[str]:
    """The lines that it printed, when it has come to its end."""
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code, log.read_text(errors="replace")[-3_000:]
    return output.decode().splitlines()


def until(condition: Callable[[], T], what: str, process: subprocess.Popen[bytes] | None = None) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert process is None or process.poll() is None, f"the driver ended before {what}"
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.01)
    return found


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def parent(pid: int) -> int:
    """0 if there is no such process any more."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@contextlib.contextmanager
def _worker(directory: Path, name: str, address: str) -> Iterator[subprocess.Popen[bytes]]:
    """Memory is what it may promise: executors of one gigabyte, which is Spark's default, and none of it is used."""
    own = directory / name
    arguments = ("--host", "127.0.0.1", "-c", "1", "-m", "1g", "-d", str(own), "--webui-port", "0", address)
    with _jvm(directory / f"{name}.log", "worker.Worker", *arguments) as process:
        yield process


@contextlib.contextmanager
def _jvm(log: Path, name: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment())
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
