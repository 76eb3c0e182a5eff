"""Three real processes, an unmodified client, one fault at a time: the clients' history is checked against the log."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from insync import Cluster
from insync.chaos.faults import FAULTS, FaultContext, inject
from insync.chaos.workload.load import Load
from insync.chaos.workload.login import Login
from insync.chaos.workload.workload import Workload
from insync.history.verdict import Verdict

PARTITIONS = 3
REPLICATED = {"partitions": PARTITIONS, "replication_factor": 3, "min_insync_replicas": 2}
MOVABLE = {"partitions": PARTITIONS, "replication_factor": 2, "min_insync_replicas": 1}
"""One of three brokers has no replica, so a replica can move there."""


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(brokers=3, directory=tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    """All nodes are up before every test, and none has logged an exception after it."""
    running.mend()
    yield running
    for node in running.nodes.values():
        assert "Traceback" not in node.log.read_text()


def _verdict(cluster: Cluster, fault: str, topic: dict[str, int], path: Path) -> Verdict:
    name = f"load-{fault}"
    cluster.create_topic(name, **topic)
    load = Load(bootstrap=cluster.bootstrap, topic=name, partitions=PARTITIONS)
    with Workload(load, path / "history.jsonl") as workload:
        context = FaultContext(cluster, workload, random.Random(fault))
        context.wait_for_progress()
        inject(fault, context)
        return workload.finish()


@pytest.mark.parametrize("fault", [name for name in FAULTS if name not in ("rolling", "reassign")])
def test_acknowledged_records_are_kept_once_and_in_order(cluster: Cluster, fault: str, tmp_path: Path) -> None:
    """S6, S8, S9, S11, S13 as clients see them, and L5: every write is answered."""
    verdict = _verdict(cluster, fault, REPLICATED, tmp_path)
    assert verdict.ok, "\n".join(verdict.lines())


def test_no_write_fails_in_a_rolling_restart(cluster: Cluster, tmp_path: Path) -> None:
    """B7: leaderships are handed over before a node exits, so a client that retries sees no error."""
    verdict = _verdict(cluster, "rolling", REPLICATED, tmp_path)
    assert verdict.ok, "\n".join(verdict.lines())
    assert verdict.count("fail") == 0


def test_no_write_fails_while_a_leader_moves_to_another_broker(cluster: Cluster, tmp_path: Path) -> None:
    """R2: the old replicas serve until the new ones are in sync."""
    verdict = _verdict(cluster, "reassign", MOVABLE, tmp_path)
    assert verdict.ok, "\n".join(verdict.lines())
    assert verdict.count("fail") == 0


def test_a_loss_is_detected(cluster: Cluster, tmp_path: Path) -> None:
    """All three nodes lose power and an unclean election accepts what is left: the verdict reports it."""
    cluster.create_topic("may-lose", 1, min_insync_replicas=1, unclean_leader_election_enable=True)
    with Workload(Load(bootstrap=cluster.bootstrap, topic="may-lose", partitions=1), tmp_path / "h.jsonl") as workload:
        workload.wait_for_reads(50)
        cluster.lose_unflushed(*cluster.nodes)
        cluster.mend()
        workload.wait_for_acks(50)
        cluster.wait_for_isr("may-lose")
        verdict = workload.finish()
    assert verdict.count("lost") >= 50
    assert verdict.count("inconsistent") >= 50


def test_a_secured_cluster_keeps_its_promises_while_credentials_change(tmp_path: Path) -> None:
    """TLS, logins and an authorizer; all faults on one history."""
    with Cluster(brokers=3, directory=tmp_path / "cluster", security="sasl_ssl") as cluster:
        cluster.create_topic("secured", **REPLICATED)
        login = Login(cluster.client_config("user"))
        load = Load(bootstrap=cluster.bootstrap, topic="secured", partitions=PARTITIONS, login=login)
        with Workload(load, tmp_path / "history.jsonl") as workload:
            context = FaultContext(cluster, workload, random.Random(1))
            context.wait_for_progress()
            for fault in ("rotate-certificates", "change-password", "kill-controller"):
                inject(fault, context)
            verdict = workload.finish()
        assert verdict.ok, "\n".join(verdict.lines())
        assert not [node for node in cluster.nodes.values() if "Traceback" in node.log.read_text()]
