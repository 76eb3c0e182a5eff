"""The order of faults in a campaign, its end, and what happens when it gets stuck. No process is started here."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from insync.chaos import campaign
from insync.chaos.campaign import Plan, Report
from insync.cluster.cluster import ClusterError
from insync.history.verdict import PartitionVerdict, Verdict
from insync.properties.history_checker import Finding

BAD = Verdict((PartitionVerdict("chaos", 0, Counter(send=1, ack=1), 1, (Finding("lost", "S9", 0, "gone"),)),))
GOOD = Verdict((PartitionVerdict("chaos", 0, Counter(send=1, ack=1), 1, ()),))


class FakeCluster:
    """Only what a campaign uses."""

    bootstrap = "127.0.0.1:1"
    mended = 0
    topics: ClassVar[list[str]] = []

    def __init__(self, brokers: int, **settings: Any) -> None:
        directory = Path(settings["directory"])
        directory.mkdir()
        self.nodes = {1: SimpleNamespace(log=directory / "node.log", is_running=False)}
        self.nodes[1].log.write_text("event=stopped\n")
        FakeCluster.topics = []

    def __enter__(self) -> FakeCluster:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def mend(self) -> None:
        FakeCluster.mended += 1

    def create_topic(self, name: str, partitions: int, replicas: int, **configs: Any) -> None:
        FakeCluster.topics.append(name)

    def wait_for_isr(self, topic: str, partition: int) -> None:
        return None


class FakeWorkload:
    def __init__(self, load: Any, path: Path) -> None:
        self.load = load
        path.touch()

    def __enter__(self) -> FakeWorkload:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def wait_for_acks(self, more: int) -> None:
        return None

    wait_for_reads = wait_for_acks

    def finish(self) -> Verdict:
        return GOOD


class World:
    """Each fault takes one second of a clock that nothing else moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.injected: list[str] = []
        self.failing_fault = ""
        self.deleted: list[str] = []

    def inject(self, name: str, context: Any) -> str:
        if name == self.failing_fault:
            raise ClusterError("node 1 does not answer")
        self.now += 1.0
        self.injected.append(name)
        return name


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    FakeCluster.mended = 0
    monkeypatch.setattr(campaign, "Cluster", FakeCluster)
    monkeypatch.setattr(campaign, "Workload", FakeWorkload)
    monkeypatch.setattr(campaign, "inject", made.inject)
    monkeypatch.setattr(campaign, "time", SimpleNamespace(monotonic=lambda: made.now))
    monkeypatch.setattr(campaign, "_delete_topic", lambda _cluster, topic: made.deleted.append(topic))
    return made


def _run(directory: Path, **plan: Any) -> Report:
    return campaign.run(Plan(**{"faults": ("a", "b", "c"), "seconds": 0.0, **plan}), directory, lambda _: None)


def test_every_fault_is_used_once_however_short_the_time(world: World, tmp_path: Path) -> None:
    report = _run(tmp_path)
    assert report.ok
    assert sorted(world.injected) == ["a", "b", "c"]
    assert [(fault.at, fault.seconds) for fault in report.faults] == [(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)]


def test_faults_come_in_rounds_until_the_time_is_up(world: World, tmp_path: Path) -> None:
    _run(tmp_path, seconds=7.5)
    assert len(world.injected) == 8
    assert sorted(world.injected[:3]) == sorted(world.injected[3:6]) == ["a", "b", "c"]


def test_each_leg_of_a_long_run_has_a_topic_and_its_history_is_kept_only_on_request(
    world: World, tmp_path: Path
) -> None:
    report = _run(tmp_path, seconds=7.5, leg_seconds=2.5, keep_histories=False)
    assert report.ok
    assert len(world.injected) == 8
    assert FakeCluster.topics == ["chaos", "chaos-2", "chaos-3"]
    assert world.deleted == ["chaos", "chaos-2"]
    assert sorted(file.name for file in tmp_path.glob("*.jsonl")) == ["history-3.jsonl"]
    assert len(report.verdict.partitions) == 3


def test_a_leg_with_a_loss_is_the_last_and_its_history_is_kept(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FakeWorkload, "finish", lambda _self: BAD)
    report = _run(tmp_path, seconds=60.0, leg_seconds=2.5, keep_histories=False)
    assert (report.ok, world.deleted, len(world.injected)) == (False, [], 3)
    assert (tmp_path / campaign.HISTORY).exists()


def test_the_seed_decides_the_order(world: World, tmp_path: Path) -> None:
    orders = []
    for number, seed in enumerate((1, 1, 2)):
        world.injected.clear()
        world.now = 0.0
        (tmp_path / str(number)).mkdir()
        _run(tmp_path / str(number), seconds=20.0, seed=seed)
        orders.append(list(world.injected))
    assert orders[0] == orders[1] != orders[2]


def test_a_stuck_campaign_mends_the_cluster_and_checks_the_history_it_has(world: World, tmp_path: Path) -> None:
    world.failing_fault = "b"
    report = _run(tmp_path, faults=("b", "b"))
    assert report.stuck == "ClusterError: node 1 does not answer"
    assert (report.verdict, FakeCluster.mended) == (GOOD, 1)
    assert not report.ok


def test_a_node_with_an_unexpected_exception_is_reported(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def finish(self: FakeWorkload) -> Verdict:
        (tmp_path / "nodes" / "node.log").write_text("Traceback (most recent call last):\n")
        return GOOD

    monkeypatch.setattr(FakeWorkload, "finish", finish)
    report = _run(tmp_path)
    assert (report.defects, report.ok) == ([str(tmp_path / "nodes" / "node.log")], False)
