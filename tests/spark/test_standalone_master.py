"""A standalone master with three workers: no row is lost or repeated when an executor is killed in the middle."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from insync.testing import Cluster
from tests.spark.sink_data import read_records
from tests.spark.spark_data import numbered, produce
from tests.spark.standalone import Standalone, kill, standalone, start_driver, wait_for_driver, wait_for_output

pytestmark = pytest.mark.xdist_group("spark")

DRIVER = Path(__file__).with_name("standalone_driver.py")
RECORDS = 20_000
"""In each of two partitions."""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(spark_cluster: Cluster) -> Cluster:
    """With the topic far, which has records, and the empty topic back."""
    for topic in ("far", "back"):
        spark_cluster.create_topic(topic, partitions=2)
    for partition in (0, 1):
        first = RECORDS * partition
        produce(spark_cluster.bootstrap, "far", numbered(first, first + RECORDS), partition=partition)
    return spark_cluster


def test_no_row_is_lost_when_an_executor_dies_while_it_reads(
    cluster: Cluster, master: Standalone, tmp_path: Path
) -> None:
    (line,) = run_driver("read", cluster, master, tmp_path)
    count = 2 * RECORDS
    assert json.loads(line) == {"rows": count, "positions": count, "sum": count * (count - 1) // 2, "values": count}


def test_no_row_is_lost_or_repeated_when_an_executor_dies_while_it_writes(
    cluster: Cluster, master: Standalone, tmp_path: Path
) -> None:
    """The task that replaces the executor's skips the rows that the executor stored."""
    (line,) = run_driver("write", cluster, master, tmp_path)
    assert json.loads(line)["stored"] > 0
    counts = Counter(record.value for record in read_records(cluster.bootstrap, "back"))
    assert [value for value, count in counts.items() if count > 1] == []
    assert sorted(value or b"" for value in counts) == numbered(0, 2 * RECORDS)


def run_driver(job: str, cluster: Cluster, master: Standalone, directory: Path) -> list[str]:
    """Kill the first executor that is in the middle of a task. Returns the lines that the driver prints."""
    log = directory / "driver.log"
    command = [sys.executable, DRIVER, job, master.address, cluster.bootstrap, directory]
    with start_driver(command, log) as driver:
        reached = wait_for_driver(lambda: sorted(directory.glob("reached-*")), "a task is in the middle", driver)
        kill(int(reached[0].name.removeprefix("reached-")))
        (directory / "go-on").touch()
        lines = wait_for_output(driver, log)
    assert (directory / "again").exists()
    return lines
