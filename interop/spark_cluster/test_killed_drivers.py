"""Kill -9 of a driver at every point of a micro-batch, and of an executor: nothing is lost, nothing is stored twice.

What was stored is read from the log by a client that is not ours. Each driver continues where the one before was
killed, with the same checkpoint: the same micro-batch is killed again and again, a step later each time.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from insync.testing import Cluster
from interop.spark_cluster import stopping_driver
from interop.spark_cluster.stopping_driver import COPIES, COUNTS, INPUT, POINTS
from tests.spark.sink_data import end_offsets, read_records
from tests.spark.spark_data import numbered, produce
from tests.spark.standalone import Standalone, kill, start_driver, wait_for_driver, wait_for_output

PARTITIONS = 3
RECORDS = 1_000
"""In each partition, before each driver is started."""
DRIVER = Path(stopping_driver.__file__)


class Stream:
    """A streaming query with its checkpoint, whose drivers are killed."""

    def __init__(self, job: str, cluster: Cluster, master: Standalone, directory: Path) -> None:
        self._cluster = cluster
        self._directory = directory
        self._command = [sys.executable, DRIVER, job, master.address, cluster.bootstrap, directory]
        self._log = directory / "driver.log"
        self.produced = 0

    def produce(self) -> None:
        """Record i has the key k<i> modulo RECORDS, so that all keys are in every partition."""
        for partition in range(PARTITIONS):
            values = numbered(self.produced, self.produced + RECORDS)
            produce(self._cluster.bootstrap, INPUT, values, partition=partition)
            self.produced += RECORDS

    def kill_driver(self, point: str) -> None:
        (self._directory / f"at-{point}").unlink(missing_ok=True)
        with start_driver([*self._command, point], self._log) as driver:
            wait_for_driver((self._directory / f"at-{point}").exists, f"the driver is at {point}", driver)

    def kill_executor(self, point: str) -> None:
        """The driver gives its tasks to another executor and runs to the end."""
        marker = self._directory / f"at-{point}"
        marker.unlink(missing_ok=True)
        with start_driver([*self._command, point], self._log) as driver:
            pid = wait_for_driver(lambda: _read_text(marker), f"an executor is at {point}", driver)
            kill(int(pid))
            (self._directory / "go-on").touch()
            wait_for_output(driver, self._log)
        (self._directory / "go-on").unlink()

    def finish(self) -> None:
        with start_driver([*self._command, "nowhere"], self._log) as driver:
            wait_for_output(driver, self._log)

    @property
    def batches(self) -> tuple[int, int]:
        """The newest micro-batch that is planned, and the newest that is done; -1 if there is none."""
        return self._newest("offsets"), self._newest("commits")

    def _newest(self, kind: str) -> int:
        entries = (self._directory / "checkpoint" / kind).glob("[0-9]*")
        return max((int(entry.name) for entry in entries if entry.name.isdecimal()), default=-1)

    def stored(self, topic: str) -> int:
        return sum(end_offsets(self._cluster.bootstrap, topic))


def _read_text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.fixture(scope="module", autouse=True)
def topics(cluster: Cluster) -> None:
    for topic in (INPUT, COPIES, COUNTS):
        cluster.create_topic(topic, partitions=PARTITIONS)


def test_a_driver_killed_at_any_point_of_a_batch_loses_and_repeats_nothing(
    cluster: Cluster, master: Standalone, tmp_path: Path
) -> None:
    stream = Stream("copy", cluster, master, tmp_path)
    stream.produce()
    batch = PARTITIONS * RECORDS
    found: dict[str, tuple[int, int, str]] = {}
    for point in POINTS:
        stream.kill_driver(point)
        stored = stream.stored(COPIES)
        found[point] = (*stream.batches, "no" if not stored else "some" if stored < batch else "all")
        assert stored <= batch, f"rows are stored twice after {point}"
    assert found == {
        "planned": (-1, -1, "no"),
        "offsets": (0, -1, "no"),
        "task": (0, -1, "no"),
        "rows": (0, -1, "some"),
        "stored": (0, -1, found["stored"][2]),  # as many tasks as have ended
        "commit": (0, -1, "all"),
        "committed": (0, -1, "all"),
        "next": (0, 0, "all"),
    }
    assert found["stored"][2] in ("some", "all")
    stream.produce()
    stream.kill_executor("rows")
    stream.produce()
    stream.finish()
    counts = Counter(record.value for record in read_records(cluster.bootstrap, COPIES))
    assert [value for value, count in counts.items() if count > 1] == []
    assert sorted(value or b"" for value in counts) == numbered(0, stream.produced)
