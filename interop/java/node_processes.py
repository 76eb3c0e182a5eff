"""One node, Apache Kafka's or insync's, from the text of a properties file in Kafka's syntax."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import apache_kafka
from insync.server.storage_format import new_cluster_id
from tests.polling import wait_until

HOST = apache_kafka.HOST
START_TIMEOUT_S, STOP_TIMEOUT_S = 120.0, 15.0
INSYNC = str(Path(sys.executable).with_name("insync"))


@dataclass(frozen=True, slots=True)
class Node:
    directory: Path
    ports: list[int]
    process: subprocess.Popen[bytes]

    def check_running(self) -> None:
        if self.process.poll() is not None:
            raise AssertionError(f"the node has ended with {self.process.returncode}: {self.read_log()}")

    def is_listening(self) -> bool:
        self.check_running()
        try:
            for port in self.ports:
                socket.create_connection((HOST, port)).close()
        except ConnectionRefusedError:
            return False
        return True

    def read_log(self) -> str:
        return (self.directory / "node.log").read_text()[-3_000:]


def format_by_kafka(file: Path, *options: str) -> list[str]:
    return apache_kafka.java(
        "kafka.tools.StorageTool", "format", f"--cluster-id={new_cluster_id()}", "-c", str(file), *options
    )


def format_by_insync(file: Path, *options: str) -> list[str]:
    return [INSYNC, "format", str(file), *options]


def run_by_kafka(file: Path) -> list[str]:
    return apache_kafka.java("kafka.Kafka", str(file), options=("-Xmx512m", *apache_kafka.JVM))


def run_by_insync(file: Path) -> list[str]:
    return [sys.executable, "-m", "insync.server", str(file)]


FORMAT: dict[str, Callable[..., list[str]]] = {"kafka": format_by_kafka, "insync": format_by_insync}
RUN: dict[str, Callable[[Path], list[str]]] = {"kafka": run_by_kafka, "insync": run_by_insync}


@contextmanager
def running(
    server: str,
    directory: Path,
    properties: Callable[[list[int], Path], str],
    *,
    ports: int,
    formatted_by: str = "",
    format_options: Sequence[str] = (),
) -> Iterator[Node]:
    """`properties` returns the text for these ports and this data directory. The node is killed with its starter."""
    free = apache_kafka.free_ports(ports)
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / "node.properties"
    file.write_text(properties(free, directory / "data"))
    formatted = subprocess.run(
        FORMAT[formatted_by or server](file, *format_options), capture_output=True, text=True, check=False
    )
    assert formatted.returncode == 0, formatted
    process = apache_kafka.spawn(RUN[server](file), directory / "node.log")
    try:
        node = Node(directory, free, process)
        wait_until(node.is_listening, "the node listens", timeout_s=START_TIMEOUT_S)
        yield node
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def running_pair(
    directory: Path, properties: Callable[[list[int], Path], str], format_options: Sequence[str] = ()
) -> Iterator[dict[str, Node]]:
    """One node of each server, with a listener for clients and one for controllers."""
    with ExitStack() as nodes:
        yield {
            server: nodes.enter_context(
                running(server, directory / server, properties, ports=2, format_options=format_options)
            )
            for server in ("kafka", "insync")
        }
