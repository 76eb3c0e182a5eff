"""Audit and health on a real cluster after a leader was killed and a partition was moved."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from insync.cli.main import app
from insync.client import admin
from insync.client.client import Client
from insync.pipeline.health import job as health
from insync.testing import Cluster
from insync.wire import batch

pytestmark = pytest.mark.xdist_group("spark")

TIMEOUT_S = 60.0
MARGIN = timedelta(milliseconds=2)
"""Records of the metadata log have times in ms: the first of the shutdown must not have the same."""


class StoppedCluster(NamedTuple):
    directory: Path
    healthy_until: str
    """Just before the shutdown, during which some brokers are fenced."""


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> StoppedCluster:
    directory = tmp_path_factory.mktemp("cluster")
    topics = {"orders": {"partitions": 2, "replication_factor": 3, "min.insync.replicas": 2}}
    with Cluster(brokers=4, topics=topics, directory=directory) as cluster:
        _produce(cluster, b"before")
        leader = cluster.leader_of("orders", 0)
        cluster.kill(leader)
        cluster.wait_for_leader("orders", 0, other_than=leader)
        _produce(cluster, b"meanwhile")
        cluster.start(leader)
        cluster.wait_for_isr("orders", 0, size=3)
        cluster.wait_for_isr("orders", 1, size=3)
        asyncio.run(asyncio.wait_for(_move(cluster), TIMEOUT_S))
        _produce(cluster, b"after")
        cluster.wait_for_isr("orders", 0, size=3)
        cluster.wait_for_isr("orders", 1, size=3)
        healthy_until = (datetime.now(UTC) - MARGIN).isoformat()
    return StoppedCluster(directory, healthy_until)


@pytest.fixture(scope="module")
def directory(stopped: StoppedCluster) -> Path:
    """The nodes' data after a clean shutdown."""
    return stopped.directory


def _produce(cluster: Cluster, word: bytes) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 5})
    for number in range(2_000):
        producer.produce("orders", word * 10, key=str(number))
        producer.poll(0)
    assert producer.flush(TIMEOUT_S) == 0


async def _move(cluster: Cluster) -> None:
    async with Client.connect(cluster.bootstrap, timeout_s=TIMEOUT_S) as client:
        replicas = tuple(sorted(cluster.isr_of("orders", 0)))
        spare = next(node for node in (1, 2, 3, 4) if node not in replicas)
        await admin.reassign(client, {("orders", 0): (*replicas[:2], spare)})
        while await admin.list_reassignments(client):
            await asyncio.sleep(0.05)


def insync(*arguments: str) -> tuple[int, Any]:
    result = CliRunner().invoke(app, ["pipeline", *arguments, "--json"], catch_exceptions=False)
    return result.exit_code, json.loads(result.stdout.strip().splitlines()[-1])


def test_replicas_of_a_cluster_that_lost_a_leader_agree(spark: SparkSession, directory: Path) -> None:
    code, output = insync("audit", str(directory))
    assert (code, output["found"]) == (0, [])
    assert output["logs"]["replicas"] >= 6
    assert output["logs"]["records"] >= 3 * 6_000
    assert output["logs"]["policies_known"]


def test_one_damaged_byte_of_one_replica_is_found(spark: SparkSession, directory: Path, tmp_path: Path) -> None:
    log = sorted(directory.glob("node-*/data/data/orders-1/*.log"))[0]
    data = log.read_bytes()
    position, header = list(batch.iter_headers(data))[-1]
    log.write_bytes(data[: position + 80] + bytes([data[position + 80] ^ 1]) + data[position + 81 :])
    try:
        code, output = insync("audit", str(directory), "--topics", "orders", "--out", str(tmp_path / "findings"))
    finally:
        log.write_bytes(data)
    assert code == 1
    [finding] = output["found"]
    assert (finding["kind"], finding["offset"], finding["file"]) == ("crc", header.base_offset, str(log))
    assert spark.read.parquet(str(tmp_path / "findings")).count() == 1


def test_health_shows_the_kill_and_the_move(spark: SparkSession, stopped: StoppedCluster, tmp_path: Path) -> None:
    page, frames = tmp_path / "health.html", tmp_path / "frames"
    options = (str(stopped.directory), "--until", stopped.healthy_until)
    code, output = insync("health", *options, "--html", str(page), "--out", str(frames))
    assert (code, output["sound"], output["unclean_elections"]) == (0, True, 0)
    assert output["fencings"] >= 1
    assert output["reassignments"] == 1
    assert output["under_replicated_s"] > 0
    assert output["isr_expands"] >= 2
    assert "fenced" in page.read_text()
    spans = spark.read.parquet(str(frames / "spans"))
    assert spans.where("topic = 'orders' and partition = 0 and under_replicated").count() >= 1
    causes = {row["cause"] for row in spark.read.parquet(str(frames / "causes")).collect()}
    assert any(cause.endswith(" fenced") for cause in causes)
    assert any(cause.endswith(" caught up") for cause in causes)


def test_every_node_has_the_same_history(directory: Path) -> None:
    """As far as its log reaches."""
    logs = [health.read_health([node]) for node in sorted(directory.glob("node-*"))]
    end_ms = max(log.end_ms for log in logs)
    assert len({log.count("isr_shrink") for log in logs if log.end_ms == end_ms}) == 1


def test_wrong_arguments_are_reported(spark: SparkSession, tmp_path: Path) -> None:
    for arguments, message in (
        (["audit"], "nothing to audit"),
        (["audit", str(tmp_path / "nowhere")], "there is no such directory"),
        (["audit", str(tmp_path), "--brokers", "x"], "broker ids"),
        (["health", str(tmp_path)], "no __cluster_metadata-0"),
        (["health", str(tmp_path), "--until", "soon"], "'now', or a time"),
        (["campaign", "--seeds", "5:2"], "need 0 <= A < B"),
        (["campaign", "--mutant", "no-such-mutant"], "unknown mutant 'no-such-mutant'"),
    ):
        result = CliRunner().invoke(app, ["pipeline", *arguments])
        assert (result.exit_code, message in result.stderr) == (2, True), (arguments, result.output)
