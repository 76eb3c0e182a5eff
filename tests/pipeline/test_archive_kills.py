"""Spark's driver, its workers and the brokers are killed at random times: lake and ledger agree, and nothing is lost.

The archiver is the command line, in its own process, killed with -9 at times that a seed determines. A stock producer
writes all the time and records what is acknowledged; leaders are killed too. In the end the lake has each acknowledged
record exactly once. INSYNC_KILL_ROUNDS makes the test longer.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError, Message, Producer

from insync.lake.ledger import Ledger
from insync.pipeline.archive.verify import verify_lake
from insync.testing import Cluster
from tests.pipeline.lake_data import table
from tests.polling import wait_until

pytestmark = pytest.mark.xdist_group("spark")

ROUNDS = int(os.environ.get("INSYNC_KILL_ROUNDS", "2"))
ROLL = ("--roll-interval", "0.5", "--roll-bytes", "20000", "--rows-per-file", "2000")
"""Both limits are reached, so that rounds with and without some of the partitions are killed."""
SEED = int(os.environ.get("INSYNC_KILL_SEED", "4"))


class Archiver:
    """`insync pipeline archive --follow`, in its own process group."""

    def __init__(self, bootstrap: str, lake: Path, *extra: str) -> None:
        command = [sys.executable, "-c", "from insync.cli.main import app; app()", "pipeline", "archive", "kills"]
        options = ["--bootstrap", bootstrap, "--lake", str(lake), "--json", *extra]
        self.process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def kill(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)

    def kill_worker(self) -> bool:
        """Kill one of the executor's Python workers; false if there is none."""
        listed = subprocess.run(["ps", "-eo", "pid,sess,args"], capture_output=True, text=True, check=True).stdout
        processes = [line.split(None, 2) for line in listed.splitlines()[1:]]
        workers = [
            int(pid)
            for pid, session, args in processes
            if int(session) == self.process.pid and "pyspark.daemon" in args
        ]
        if len(workers) < 2:  # the first forks the others
            return False
        os.kill(max(workers), signal.SIGKILL)
        return True

    def finish(self) -> dict[str, Any]:
        try:
            out, err = self.process.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        assert self.process.returncode == 0, err[-3000:]
        summary: dict[str, Any] = json.loads(out.splitlines()[-1])
        return summary


class Writer:
    """Writes numbered records until it is stopped, and remembers the acknowledged ones."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: list[bytes] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "enable.idempotence": True, "acks": "all"}
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            for _ in range(20):
                self._producer.produce("kills", b"%08d" % number, partition=number % 2, on_delivery=self._on_delivery)
                number += 1
            self._producer.poll(0.05)
        assert self._producer.flush(120) == 0

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        value = message.value()
        if error is None and value is not None:
            self.acknowledged.append(value)

    def end(self) -> None:
        self._stop.set()
        self._thread.join(150)


def test_every_acknowledged_record_is_in_the_lake_once_whatever_is_killed(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    lake = tmp_path / "lake"
    with Cluster(brokers=3, topics={"kills": {"partitions": 2, "replication_factor": 3}}) as cluster:
        writer = Writer(cluster.bootstrap)
        try:
            for n in range(ROUNDS):
                _run_round(rng, cluster, lake, kill_worker=n % 2 == 0)
                _check_lake(lake)
        finally:
            writer.end()
        Archiver(cluster.bootstrap, lake).finish()
        report = verify_lake(lake, cluster.bootstrap)
    assert report.problems == []
    assert [partition.behind for partition in report.partitions] == [0, 0]
    values = Counter(table(lake, "kills", ["partition", "offset", "value"]).column("value").to_pylist())
    assert [value for value, count in values.items() if count > 1] == []
    assert [value for value in writer.acknowledged if value not in values] == []
    assert len(writer.acknowledged) > 1000


def _run_round(rng: random.Random, cluster: Cluster, lake: Path, *, kill_worker: bool) -> None:
    """Kill the archiver at some time after it began to work: in a round, between two, in a commit."""
    before = _entries(lake)
    archiver = Archiver(cluster.bootstrap, lake, "--follow", "--interval", "0.1", *ROLL)
    try:
        _wait_for(lambda: _entries(lake) > before + 1, "the archiver commits", archiver)
        if kill_worker:
            _wait_for(archiver.kill_worker, "there is a worker to kill", archiver)
            after = _entries(lake)
            _wait_for(lambda: _entries(lake) > after, "the archiver commits without the worker", archiver)
        leader = cluster.leader_of("kills")
        cluster.kill(leader)
        time.sleep(rng.uniform(0.0, 2.0))
    finally:
        archiver.kill()
    cluster.wait_for_leader("kills", other_than=leader)
    cluster.start(leader)
    cluster.wait_until_ready()


def _check_lake(lake: Path) -> None:
    """The ledger is correct at once, before any recovery or cleanup."""
    assert verify_lake(lake).problems == []
    for key in Ledger.load(lake).partitions():
        offsets = table(lake, key[0], ["partition", "offset"]).to_pydict()
        own = [offset for index, offset in zip(*offsets.values(), strict=True) if index == key[1]]
        assert len(own) == len(set(own))


def _entries(lake: Path) -> int:
    return len(list(lake.glob("_ledger/*.json")))


def _wait_for(condition: Callable[[], bool], description: str, archiver: Archiver) -> None:
    """As `wait_until`, but fails as soon as the archiver ends."""

    def condition_while_running() -> bool:
        if archiver.process.poll() is not None:
            pytest.fail(f"the archiver ended: {archiver.process.communicate()[1][-3000:]}")
        return condition()

    wait_until(condition_while_running, description, timeout_s=120.0)
