"""A standalone master with two workers: an executor is killed while it reads or writes; nothing is lost or doubled."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from insync.testing import Cluster
from tests.spark.sink_data import records
from tests.spark.spark_data import numbered, produce
from tests.spark.standalone import Standalone, finished, kill, standalone, started, until

pytestmark = pytest.mark.xdist_group("spark")

HERE = Path(__file__).parent
RECORDS = 20_000
"""Of each of two partitions."""


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with standalone(tmp_path_factory.mktemp("standalone")) as running:
        yield running


@pytest.fixture(scope="module")
def far(spark_cluster: Cluster) -> Cluster:
    """Has the topic far with all records, and the topic back with none."""
    for topic in ("far", "back"):
        spark_cluster.create_topic(topic, partitions=2)
    for partition in (0, 1):
        first = RECORDS * partition
        produce(spark_cluster.bootstrap, "far", numbered(first, first + RECORDS), partition=partition)
    return spark_cluster


def test_an_executor_lost_while_it_reads_costs_no_row(far: Cluster, master: Standalone, tmp_path: Path) -> None:
    (line,) = driven("read", far, master, tmp_path)
    count = 2 * RECORDS
    assert json.loads(line) == {"rows": count, "positions": count, "sum": count * (count - 1) // 2, "values": count}


def test_an_executor_lost_while_it_writes_costs_no_row_and_doubles_none(
    far: Cluster, master: Standalone, tmp_path: Path
) -> None:
    """What the executor stored before it died is passed over by the task that takes its place."""
    (line,) = driven("write", far, master, tmp_path)
    assert json.loads(line)["stored"] > 0
    found = Counter(each.value for each in records(far.bootstrap, "back"))
    assert [value for value, count in found.items() if count > 1] == []
    assert sorted(found) == numbered(0, 2 * RECORDS)


def driven(job: str, cluster: Cluster, master: Standalone, directory: Path) -> list[str]:
    """What the driver prints, after the executor that came first was killed in the middle and a task ran again."""
    log = directory / "driver.log"
    command = [sys.executable, HERE / "standalone_driver.py", job, master.address, cluster.bootstrap, directory]
    with started(command, log) as driver:
        reached = until(lambda: sorted(directory.glob("reached-*")), "a task is in the middle", driver)
        kill(int(reached[0].name.removeprefix("reached-")))
        (directory / "go-on").touch()
        lines = finished(driver, log)
    assert (directory / "again").exists()
    return lines
