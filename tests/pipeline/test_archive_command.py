"""`insync pipeline archive` and `replay`: what they print, and their exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from insync.cli import pipeline_jobs
from insync.cli.main import app
from insync.lake.ledger import Ledger
from insync.testing import Cluster
from tests.pipeline.lake_data import numbered, produce, table

pytestmark = pytest.mark.xdist_group("spark")

Insync = Callable[..., Result]
"""Runs `insync pipeline` with these arguments."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, topics={"orders": 2}) as running:
        produce(running.bootstrap, "orders", numbered(0, 600, partitions=2))
        yield running


@pytest.fixture
def insync(spark: SparkSession, cluster: Cluster, tmp_path: Path) -> Insync:
    def run(command: str, *arguments: str) -> Result:
        options = ["--bootstrap", cluster.bootstrap, "--lake", str(tmp_path / "lake")]
        return CliRunner().invoke(app, ["pipeline", command, *options, *arguments])

    return run


def test_archive_verify_and_replay_report_what_they_did(insync: Insync, cluster: Cluster, tmp_path: Path) -> None:
    archived = insync("archive", "orders")
    assert archived.exit_code == 0
    assert "orders-1" in archived.stdout
    assert "600 rows in" in archived.stdout
    verified = insync("archive", "--verify")
    assert verified.exit_code == 0
    assert "2 ledger entries: no gaps, no overlaps, all files intact" in verified.stdout
    replayed = insync("replay", "orders=again", "--create")
    assert replayed.exit_code == 0
    assert "600 records in" in replayed.stdout
    assert "again-0" in replayed.stdout
    repeated = insync("replay", "orders=again")
    assert repeated.exit_code == 0
    assert "--again repeats it" in repeated.stdout
    assert "0 records in" in repeated.stdout
    assert insync("archive", "again").exit_code == 0
    content = ["partition", "offset", "key", "value", "timestamp"]
    assert table(tmp_path / "lake", "again", content).equals(table(tmp_path / "lake", "orders", content))


def test_json_is_the_only_output(insync: Insync) -> None:
    archived = json.loads(insync("archive", "orders", "--json").stdout)
    assert archived["rows"] == 600
    assert [(part["partition"], part["from"], part["to"]) for part in archived["partitions"]] == [
        (0, 0, 300),
        (1, 0, 300),
    ]
    verified = json.loads(insync("archive", "--verify", "--json").stdout)
    assert (verified["ok"], verified["problems"]) == (True, [])
    assert [(part["latest"], part["end"]) for part in verified["partitions"]] == [(300, 300)] * 2
    replayed = json.loads(insync("replay", "orders=jsonned", "--create", "--to-offset", "10", "--json").stdout)
    assert [(part["partition"], part["rows"], part["end"]) for part in replayed["partitions"]] == [
        (0, 10, 10),
        (1, 10, 10),
    ]


def test_a_pattern_without_a_topic_creates_no_lake(
    insync: Insync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    once = insync("archive", "--pattern", "zzz.*")
    assert (once.exit_code, once.stdout) == (1, "")
    assert once.stderr == "insync: no topic matches --pattern zzz.*; `insync topic list` shows the topics\n"
    assert not (tmp_path / "lake").exists()
    monkeypatch.setattr(pipeline_jobs, "interruptible", _stopped)
    following = insync("archive", "--pattern", "zzz.*", "--follow")
    assert following.exit_code == 0
    assert "no topic matches --pattern zzz.* yet; waiting for one" in following.stderr


@contextmanager
def _stopped() -> Iterator[threading.Event]:
    """The event is set, as after Ctrl-C."""
    stop = threading.Event()
    stop.set()
    yield stop


def test_a_stopped_archive_says_that_the_same_command_continues(
    insync: Insync, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(pipeline_jobs, "interruptible", _stopped)
        stopped = insync("archive", "orders", "--json")
    assert (stopped.exit_code, json.loads(stopped.stdout)["finished"]) == (130, False)
    assert "the same command continues from here" in stopped.stderr
    resumed = json.loads(insync("archive", "orders", "--json").stdout)
    assert (resumed["finished"], resumed["rows"]) == (True, 600)


def test_a_stopped_replay_says_that_the_same_command_continues(insync: Insync, monkeypatch: pytest.MonkeyPatch) -> None:
    insync("archive", "orders")
    with monkeypatch.context() as patched:
        patched.setattr(pipeline_jobs, "interruptible", _stopped)
        stopped = insync("replay", "orders=stopped", "--create", "--json")
    assert stopped.exit_code == 130
    assert "the same command continues from here" in stopped.stderr
    assert json.loads(stopped.stdout)["finished"] is False
    resumed = json.loads(insync("replay", "orders=stopped", "--create", "--json").stdout)
    assert (resumed["finished"], resumed["rows"]) == (True, 600)
    assert resumed["seconds"] == round(resumed["seconds"], 3)


def test_a_missing_target_is_reported_before_spark_starts(insync: Insync, monkeypatch: pytest.MonkeyPatch) -> None:
    insync("archive", "orders")
    monkeypatch.delattr(pipeline_jobs, "spark_session")
    refused = insync("replay", "orders=nowhere")
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert refused.stderr == "insync: there is no topic 'nowhere' to write to; --create creates it\n"


def test_wrong_arguments_are_exit_code_2_and_one_line(insync: Insync, tmp_path: Path) -> None:
    wrong = {
        "name topics, or a regular expression": ["archive"],
        "unknown codec 'rar'": ["archive", "orders", "--codec", "rar"],
        "'soon' is not a time": ["replay", "orders", "--from-time", "soon"],
        "'orders=' is not a topic": ["replay", "orders="],
        "it must be above 0": ["replay", "orders", "--rate", "0"],
        "'here' is not a broker address": ["archive", "orders", "--bootstrap", "here"],
    }
    for message, arguments in wrong.items():
        result = insync(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), message
        assert message in result.stderr
        assert len(result.stderr.splitlines()) == 1
    failed = insync("archive", "nowhere")
    assert (failed.exit_code, failed.stdout) == (1, "")
    assert failed.stderr.startswith("insync: there is no topic 'nowhere'")
    assert not (tmp_path / "lake").exists()


def test_a_missing_short_or_changed_file_is_named(insync: Insync, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    insync("archive", "orders")
    first, second = (lake / name for name in Ledger.load(lake).files())
    data = first.read_bytes()
    damages: dict[str, Callable[[], object]] = {
        f"{first.name} has {len(data) - 1} bytes instead of {len(data)}": lambda: first.write_bytes(data[:-1]),
        f"{first.name} was changed: its checksum": lambda: first.write_bytes(data[:-9] + b"x" + data[-8:]),
        f"{first.name} is missing": first.unlink,
    }
    for message, damage in damages.items():
        damage()
        for offline in ([], ["--offline"]):
            result = insync("archive", "--verify", *offline)
            assert result.exit_code == 1
            assert message in result.stdout.replace("\n", "")
            assert second.name not in result.stdout
    refused = insync("archive", "orders")
    assert refused.exit_code == 1
    assert "is missing" in refused.stderr
    first.write_bytes(data)
    assert insync("archive", "--verify").exit_code == 0


def test_a_damaged_ledger_is_reported_and_nothing_is_touched(insync: Insync, tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    insync("archive", "orders")
    entry = lake / "_ledger" / f"{1:020d}.json"
    good = entry.read_text()
    entry.write_text(good.replace('"start": 0', '"start": 5', 1))
    before = sorted(str(path) for path in lake.rglob("*"))
    for arguments in (["archive", "orders"], ["archive", "--verify"], ["replay", "orders=x", "--create"]):
        result = insync(*arguments)
        assert result.exit_code == 1
        assert f"{entry} is damaged: its checksum is wrong" in result.stderr
    assert sorted(str(path) for path in lake.rglob("*")) == before
    entry.write_text(good)
    assert insync("archive", "--verify").exit_code == 0


def test_a_path_that_is_not_a_lake_is_reported(insync: Insync, tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("a file")
    assert "is a file" in insync("archive", "orders").stderr
    for arguments in (["archive", "--verify"], ["replay", "orders"]):
        result = insync(*arguments)
        assert result.exit_code == 1
        assert "is not a lake" in result.stderr


def test_without_java_the_error_says_what_to_install(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    code = "from insync.cli.main import app; app(['pipeline', 'archive', 'orders'])"
    command = [sys.executable, "-c", code]
    completed = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert completed.returncode == 2
    assert "default-jre-headless" in completed.stderr
    assert "JAVA_HOME" in completed.stderr
