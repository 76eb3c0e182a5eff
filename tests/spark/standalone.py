"""A standalone Spark master with three workers of one core on loopback: executors are processes that can be killed.

The JVMs run pyspark's own jars. They are children of the process that starts them, and end with it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pyspark

from tests.polling import wait_until

T = TypeVar("T")

TIMEOUT_S = 300.0
REPOSITORY = Path(__file__).parents[2]
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
EXECUTOR = b"CoarseGrainedExecutorBackend"
WORKERS = 3


@dataclass(frozen=True)
class Standalone:
    address: str
    workers: tuple[int, ...]
    """The workers' pids."""

    def executors(self) -> list[int]:
        """The pids of the running executors."""
        pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
        return sorted(pid for pid in pids if parent(pid) in self.workers and EXECUTOR in _command(pid))


@contextlib.contextmanager
def standalone(directory: Path) -> Iterator[Standalone]:
    with contextlib.ExitStack() as stack:
        port = _free_port()
        log = directory / "master.log"
        stack.enter_context(_jvm(log, "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"))
        address = f"spark://127.0.0.1:{port}"
        workers = [
            stack.enter_context(_worker(directory, f"worker-{index}", address)) for index in range(1, WORKERS + 1)
        ]
        wait_until(
            lambda: log.exists() and log.read_text(errors="replace").count("Registering worker") == WORKERS,
            "all workers have registered",
            timeout_s=TIMEOUT_S,
        )
        yield Standalone(address, tuple(worker.pid for worker in workers))


@contextlib.contextmanager
def start_driver(command: Sequence[object], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a driver in the directory of `log`, which gets its stderr; `wait_for_output` returns its stdout.

    The driver leads a process group: at the end, its JVM is killed at the same moment.
    """
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environment(),
            cwd=log.parent,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def environment() -> Mapping[str, str]:
    """As in a shell where the virtual environment is active; no process needs to resolve the machine's name.

    Executors inherit it from their worker, so that they can import the tests' modules for the driver's functions.
    """
    prepended = {"PATH": str(Path(sys.executable).parent), "PYTHONPATH": str(REPOSITORY)}
    paths = {name: os.pathsep.join(filter(None, (own, os.environ.get(name)))) for name, own in prepended.items()}
    return {**os.environ, **paths, "SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": "127.0.0.1"}


def wait_for_output(process: subprocess.Popen[bytes], log: Path, exit_code: int = 0) -> list[str]:
    """Wait until the driver has ended with this code, and return the lines that it printed."""
    output, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == exit_code, log.read_text(errors="replace")[-3_000:]
    return output.decode().splitlines()


def wait_for_driver(condition: Callable[[], T | None], description: str, process: subprocess.Popen[bytes]) -> T:
    """As `wait_until`, but fails as soon as the driver ends."""

    def condition_while_running() -> T | None:
        value = condition()
        assert value or process.poll() is None, f"the driver ended before this was true: {description}"
        return value

    return wait_until(condition_while_running, description, timeout_s=TIMEOUT_S)


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def parent(pid: int) -> int:
    """The parent's pid; 0 if the process has ended."""
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
    """It may promise 1 GB, which Spark's executors ask for by default; nothing allocates that much."""
    arguments = (
        "--host",
        "127.0.0.1",
        "-c",
        "1",
        "-m",
        "1g",
        "-d",
        str(directory / name),
        "--webui-port",
        "0",
        address,
    )
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
