"""A standalone master with two workers on loopback: an executor is killed while it reads; nothing is lost or doubled.

The JVMs are those of pyspark's own jars. Each is a child of the test and ends with it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pyspark
import pytest
from spark_data import numbered, produce

from insync.testing import Cluster

T = TypeVar("T")

pytestmark = pytest.mark.xdist_group("spark")

PATIENCE_S = 300
SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
HERE = Path(__file__).parent
RECORDS = 20_000
"""Of each of two partitions."""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[str]:
    """The address of a master that has two workers of one core."""
    with contextlib.ExitStack() as stack:
        port = _free_port()
        log = tmp_path / "master.log"
        stack.enter_context(_jvm(log, "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"))
        address = f"spark://127.0.0.1:{port}"
        for index in (1, 2):
            own = tmp_path / f"worker-{index}"
            arguments = ("--host", "127.0.0.1", "-c", "1", "-m", "600m", "-d", str(own), "--webui-port", "0", address)
            stack.enter_context(_jvm(tmp_path / f"worker-{index}.log", "worker.Worker", *arguments))
        _until(lambda: log.exists() and log.read_text(errors="replace").count("Registering worker") == 2, "two workers")
        yield address


def test_a_lost_executor_costs_no_row(spark_cluster: Cluster, master: str, tmp_path: Path) -> None:
    spark_cluster.create_topic("far", partitions=2)
    for partition in (0, 1):
        first = RECORDS * partition
        produce(spark_cluster.bootstrap, "far", numbered(first, first + RECORDS), partition=partition)
    command = [
        sys.executable,
        str(HERE / "standalone_driver.py"),
        master,
        spark_cluster.bootstrap,
        "far",
        str(tmp_path),
    ]
    with (tmp_path / "driver.log").open("wb") as errors:
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        try:
            reached = _until(lambda: sorted(tmp_path.glob("reached-*")) or None, "a task reads", driver)
            os.kill(int(reached[0].name.removeprefix("reached-")), signal.SIGKILL)
            (tmp_path / "go-on").touch()
            output, _ = driver.communicate(timeout=PATIENCE_S)
        finally:
            driver.kill()
            driver.wait()
    assert driver.returncode == 0, (tmp_path / "driver.log").read_text()[-3_000:]
    count = 2 * RECORDS
    found = json.loads(output.decode().splitlines()[-1])
    assert found == {"rows": count, "positions": count, "sum": count * (count - 1) // 2, "values": count}
    assert (tmp_path / "again").exists()


@contextlib.contextmanager
def _jvm(log: Path, name: str, *arguments: str) -> Iterator[None]:
    environment = {
        **os.environ,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    command = [str(SPARK_CLASS), f"org.apache.spark.deploy.{name}", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _until(condition: Callable[[], T], what: str, process: subprocess.Popen[bytes] | None = None) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert process is None or process.poll() is None, f"the driver ended before {what}"
        assert time.monotonic() < deadline, f"still not: {what}"
        time.sleep(0.02)
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
