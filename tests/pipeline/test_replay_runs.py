"""A replay writes the same records in the same order, once, however often it is interrupted."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from insync.client import topics
from insync.client.sync_client import SyncClient
from insync.lake.reader import Selection
from insync.pipeline.archive import job as archive
from insync.pipeline.archive.job import ArchiveOptions
from insync.pipeline.replay import job as replay
from insync.pipeline.replay import target as replay_target
from insync.pipeline.replay import task as replay_task
from insync.pipeline.replay.job import ReplayOptions
from insync.pipeline.replay.plan import ReplayError
from insync.pipeline.replay.state import DIRECTORY
from insync.testing import Cluster
from tests.pipeline.lake_data import RECORD, numbered, produce, table
from tests.polling import wait_until

pytestmark = pytest.mark.xdist_group("spark")

FIRST_MS = 1_700_000_000_000
ROWS = 3000
RunReplay = Callable[..., replay.ReplaySummary]
"""(target topic, stop event or None, changed options as keywords)."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        yield running


@pytest.fixture(scope="module")
def lake(spark: SparkSession, cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3000 records on two partitions and two dates."""
    path = tmp_path_factory.mktemp("lake")
    cluster.create_topic("orders", partitions=2)
    headers = [("trace", b"\x00\xff"), ("none", None)]
    records = [
        {**record, "timestamp": FIRST_MS + i * 40_000, **({"headers": headers} if i % 10 == 0 else {})}
        for i, record in enumerate(numbered(0, ROWS, partitions=2))
    ]
    records[17]["value"], records[18]["key"] = None, None
    produce(cluster.bootstrap, "orders", records)
    archive.run(spark, archive_options(cluster, path, "orders", rows_per_file=400))
    return path


def archive_options(cluster: Cluster, path: Path, topic: str, **changes: Any) -> ArchiveOptions:
    return ArchiveOptions(bootstrap=cluster.bootstrap, lake=str(path), topics=(topic,), **changes)


def replay_options(cluster: Cluster, lake: Path, target: str, state: Path, **changes: Any) -> ReplayOptions:
    options = {"bootstrap": cluster.bootstrap, "lake": str(lake), "topics": {"orders": target}, "state": str(state)}
    return ReplayOptions(**{**options, **changes})


@pytest.fixture
def run(spark: SparkSession, cluster: Cluster, lake: Path, tmp_path: Path) -> RunReplay:
    def run_replay(target: str, stop: threading.Event | None = None, **changes: Any) -> replay.ReplaySummary:
        changes = {"create": True, "timeout_s": 30.0, **changes}
        return replay.run(spark, replay_options(cluster, lake, target, tmp_path / "state", **changes), stop=stop)

    return run_replay


def read_topic(spark: SparkSession, cluster: Cluster, topic: str, tmp_path: Path) -> list[dict[str, Any]]:
    """A topic's records, read through another lake."""
    path = tmp_path / f"check-{topic}"
    archive.run(spark, archive_options(cluster, path, topic))
    rows: list[dict[str, Any]] = table(path, topic).to_pylist()
    return rows


def test_records_are_replayed_unchanged(
    run: RunReplay, spark: SparkSession, cluster: Cluster, lake: Path, tmp_path: Path
) -> None:
    summary = run("back", codec="lz4")
    assert summary.rows == ROWS
    assert read_topic(spark, cluster, "back", tmp_path) == table(lake, "orders").to_pylist()
    repeated = run("back")
    assert (repeated.rows, repeated.finished, repeated.partitions[0].resumed) == (0, True, summary.partitions[0].rows)
    assert repeated.notes[0].startswith("this replay was finished before")
    with pytest.raises(ReplayError, match="is the state of another replay"):
        run("elsewhere")


def test_a_selection_by_offset_time_and_partition_is_replayed(
    run: RunReplay, spark: SparkSession, cluster: Cluster, lake: Path, tmp_path: Path
) -> None:
    selection = Selection(
        from_offset=100, to_offset=1400, from_time=FIRST_MS + 1000 * 40_000, to_time=FIRST_MS + 2000 * 40_000
    )
    run("part", selection=selection, partitions=(1,))
    rows = read_topic(spark, cluster, "part", tmp_path)
    assert [row["value"] for row in rows] == [b"v%06d" % i for i in range(1001, 2000, 2)]
    assert [row["offset"] for row in rows] == list(range(500))
    assert {row["partition"] for row in rows} == {1}


def test_a_stopped_replay_continues_where_it_was(
    run: RunReplay, spark: SparkSession, cluster: Cluster, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "ROWS_PER_ROUND", 200)
    stop = threading.Event()
    rounds: list[int] = []
    options = replay_options(cluster, lake, "halves", tmp_path / "s", create=True)

    def on_progress(done: int, total: int) -> None:
        rounds.append(done)
        if len(rounds) == 3:
            stop.set()

    first = replay.run(spark, options, on_progress=on_progress, stop=stop)
    assert (first.rows, first.notes[0][:7]) == (1200, "stopped")
    second = replay.run(spark, options)
    assert (second.rows, [part.resumed for part in second.partitions]) == (ROWS - 1200, [600, 600])
    assert read_topic(spark, cluster, "halves", tmp_path) == table(lake, "orders").to_pylist()


def test_a_rate_is_not_exceeded(run: RunReplay) -> None:
    started = time.perf_counter()
    run("slow", rate=1000.0, selection=Selection(to_offset=1000))
    assert time.perf_counter() - started >= 2.0 - 1.0  # the last round need not wait


def test_a_task_that_runs_twice_writes_once(
    spark: SparkSession, cluster: Cluster, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark repeats a task whose executor is lost; so does a driver that died before it recorded the positions."""
    execute = replay_task.replay_units
    monkeypatch.setattr(replay.Replayer, "_run_round", _run_locally(lambda task: (execute(task), execute(task))[1]))
    monkeypatch.setattr(replay, "ROWS_PER_ROUND", 700)
    assert replay.run(spark, replay_options(cluster, lake, "twice", tmp_path / "s", create=True)).rows == ROWS
    assert read_topic(spark, cluster, "twice", tmp_path) == table(lake, "orders").to_pylist()


def test_concurrent_senders_and_other_producers_cause_no_duplicates(
    spark: SparkSession, cluster: Cluster, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sender that was believed dead is still running, and another producer writes to the same partitions."""
    execute, rng = replay_task.replay_units, random.Random(5)

    def execute_concurrently(task: replay_task.ReplayTask) -> replay_task.ReplayResult:
        others = [{"value": b"other", "partition": task.partition} for _ in range(rng.randrange(50))]
        threads = [
            threading.Thread(target=execute, args=(task,)),
            threading.Thread(target=produce, args=(cluster.bootstrap, task.topic, others)),
        ]
        for thread in threads:
            thread.start()
        result = execute(task)
        for thread in threads:
            thread.join()
        return result

    monkeypatch.setattr(replay.Replayer, "_run_round", _run_locally(execute_concurrently))
    monkeypatch.setattr(replay, "ROWS_PER_ROUND", 500)
    monkeypatch.setattr(replay_target, "BATCH_BYTES", 4000)
    cluster.create_topic("busy", partitions=2)
    replay.run(spark, replay_options(cluster, lake, "busy", tmp_path / "s"))
    rows = [row for row in read_topic(spark, cluster, "busy", tmp_path) if row["value"] != b"other"]
    assert [_record(row) for row in rows] == [_record(row) for row in table(lake, "orders").to_pylist()]


def test_killed_leaders_cause_no_loss_and_no_duplicates(
    spark: SparkSession, cluster: Cluster, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_target, "BATCH_BYTES", 2000)
    monkeypatch.setattr(replay, "ROWS_PER_ROUND", 250)
    cluster.create_topic("killed", partitions=2, replication_factor=3)
    state = tmp_path / "s"
    replaying = threading.Thread(target=replay.run, args=(spark, replay_options(cluster, lake, "killed", state)))
    replaying.start()
    for entries in (2, 4):
        wait_until(partial(_has_entries, state, entries, replaying), f"the state has {entries} entries")
        leader = cluster.leader_of("killed")
        cluster.kill(leader)
        cluster.wait_for_leader("killed", other_than=leader)
        cluster.start(leader)
        cluster.wait_until_ready()
    replaying.join(120)
    assert not replaying.is_alive()
    assert read_topic(spark, cluster, "killed", tmp_path) == table(lake, "orders").to_pylist()


def test_a_killed_driver_can_be_continued(spark: SparkSession, cluster: Cluster, lake: Path, tmp_path: Path) -> None:
    """The command in its own process, killed with kill -9 in the middle of a round, and then repeated."""
    cluster.create_topic("continued", partitions=2, replication_factor=3)
    state = tmp_path / "s"
    command = [sys.executable, "-c", "from insync.cli.main import app; app()", "pipeline", "replay", "orders=continued"]
    options = ["--bootstrap", cluster.bootstrap, "--lake", str(lake), "--state", str(state), "--rate", "300"]
    driver = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        wait_until(
            lambda: len(list(state.glob("*.json"))) >= 4 or driver.poll() is not None,
            "the replay has written some rounds",
            timeout_s=180.0,
        )
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait(60)
    summary = replay.run(spark, replay_options(cluster, lake, "continued", state))
    assert 0 < summary.rows < ROWS
    assert read_topic(spark, cluster, "continued", tmp_path) == table(lake, "orders").to_pylist()


# --- errors ---------------------------------------------------------------------------------------------------------


def test_wrong_options_are_reported_and_nothing_is_written(
    run: RunReplay, cluster: Cluster, lake: Path, tmp_path: Path
) -> None:
    cluster.create_topic("narrow", partitions=1)
    cluster.create_topic("appends", partitions=2, message_timestamp_type="LogAppendTime")
    mistakes: dict[str, dict[str, Any]] = {
        "topic 'nothing' is not in": {"topics": {"nothing": "x"}},
        "there is no topic 'missing' to write to; --create creates it": {
            "topics": {"orders": "missing"},
            "create": False,
        },
        "topic 'narrow' has 1 partition, but the replay needs 2": {"topics": {"orders": "narrow"}},
        "LogAppendTime: timestamps would be lost": {"topics": {"orders": "appends"}},
        "unknown codec 'rar'": {"codec": "rar"},
        "it must be above 0": {"rate": 0.0},
        "their records would mix": {"topics": {"orders": "a", "others": "a"}},
    }
    for message, wrong in mistakes.items():
        with pytest.raises(ReplayError, match=message):
            run("narrow", **wrong)
    assert not (tmp_path / "state").exists()
    assert not (lake / DIRECTORY).exists()


def test_a_replay_does_not_continue_into_a_recreated_topic(
    run: RunReplay, cluster: Cluster, lake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "ROWS_PER_ROUND", 100)
    cluster.create_topic("reborn", partitions=2)
    stop = threading.Event()
    stop.set()
    run("reborn", stop)
    with SyncClient(cluster.bootstrap) as client:
        client.call(lambda cluster: topics.delete(cluster, "reborn"))
    cluster.create_topic("reborn", partitions=2)
    with pytest.raises(ReplayError, match="'reborn' was recreated since this replay began"):
        run("reborn")
    with pytest.raises(ReplayError, match="is the state of another replay"):
        run("reborn", partitions=(0,))


def _record(row: dict[str, Any]) -> list[Any]:
    return [row[name] for name in RECORD if name != "offset"]


def _run_locally(execute: Callable[[replay_task.ReplayTask], replay_task.ReplayResult]) -> Any:
    """A replacement for `Replayer._run_round` that runs the tasks in this process, one after the other."""

    def run_round(self: Any, tasks: dict[Any, replay_task.ReplayTask]) -> str:
        results = {key: execute(task) for key, task in tasks.items()}
        assert not [result.error for result in results.values() if result.error]
        self._state.record_positions({key: result.position for key, result in results.items()})
        return ""

    return run_round


def _has_entries(state: Path, entries: int, replaying: threading.Thread) -> bool:
    """Or the replay has ended."""
    return len(list(state.glob("*.json"))) >= entries or not replaying.is_alive()
