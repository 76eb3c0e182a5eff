"""Apache Kafka's tools for replicas, leaders, the quorum and the cluster itself, on insync."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

from insync.server.local_cluster import LocalCluster
from interop.java.kafka_tools import CLASSES, Tools, command, find_lines, run, wait_for_output


def test_partitions_are_moved_with_a_throttle_and_verified(tools: Tools, tmp_path: Path) -> None:
    """R2, R6."""
    tools.create_topic("moving", "--replica-assignment", "1:2,2:1")
    tools.produce_lines("moving", "".join(f"{n}\n" for n in range(20)))
    (tmp_path / "topics.json").write_text(json.dumps({"version": 1, "topics": [{"topic": "moving"}]}))
    options = ("--topics-to-move-json-file", str(tmp_path / "topics.json"), "--broker-list", "2,3")
    proposed = tools("kafka-reassign-partitions", "--generate", *options)
    assert '"topic":"moving","partition":0,"replicas":[1,2]' in proposed
    (tmp_path / "plan.json").write_text(proposed.strip().splitlines()[-1])
    plan = ("--reassignment-json-file", str(tmp_path / "plan.json"))
    output = tools("kafka-reassign-partitions", "--execute", *plan, "--throttle", "90000000")
    assert "Successfully started partition reassignments for moving-0,moving-1" in output
    verified = wait_for_output(
        lambda: tools("kafka-reassign-partitions", "--verify", *plan), lambda text: "progress" not in text
    )
    assert verified.count("is completed") == 2
    assert "Clearing topic-level throttles on topic moving" in verified
    assert all(set(assigned.split(",")) == {"2", "3"} for _, assigned, _ in tools.describe_replicas("moving"))
    assert "throttled" not in tools("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", "moving")
    assert len(tools.consume("moving", 20)) == 20


def test_a_slow_reassignment_is_listed_and_cancelled(tools: Tools, tmp_path: Path) -> None:
    """R5, R6: two megabytes at a thousand bytes a second."""
    tools.create_topic("slow", "--replica-assignment", "1:2")
    tools.produce_many("slow", 2_000, 1_000)
    target = {"topic": "slow", "partition": 0, "replicas": [1, 3], "log_dirs": ["any", "any"]}
    (tmp_path / "plan.json").write_text(json.dumps({"version": 1, "partitions": [target]}))
    plan = ("--reassignment-json-file", str(tmp_path / "plan.json"))
    tools("kafka-reassign-partitions", "--execute", *plan, "--throttle", "1000")
    assert "slow-0: replicas: 1,3,2. adding: 3. removing: 2." in tools("kafka-reassign-partitions", "--list")
    output = tools("kafka-reassign-partitions", "--cancel", *plan)
    assert "Successfully cancelled partition reassignment for: slow-0" in output
    assert tools.describe_replicas("slow") == [("1", "1,2", "1,2")]


def test_leadership_returns_to_the_preferred_replica(cluster: LocalCluster, tools: Tools) -> None:
    """E1, B7."""
    tools.create_topic("led", "--replica-assignment", "2:1:3")
    cluster.stop_node(2)
    cluster.start_node(2)
    cluster.wait_until_ready()
    wait_for_output(lambda: tools.describe_replicas("led")[0][2], lambda isr: len(isr.split(",")) == 3)
    election = ("--election-type", "preferred", "--topic", "led", "--partition", "0")
    output = tools("kafka-leader-election", *election)
    assert "Successfully completed leader election (PREFERRED) for partitions led-0" in output
    assert "Valid replica already elected for partitions led-0" in tools("kafka-leader-election", *election)


def test_the_quorum_is_described_by_brokers_and_by_controllers(cluster: LocalCluster, tools: Tools) -> None:
    """Q1."""
    status = tools("kafka-metadata-quorum", "describe", "--status")
    assert find_lines(r"LeaderId: +[123]$", status)
    assert f'{{"id": 1, "endpoints": ["PLAINTEXT://127.0.0.1:{cluster.nodes[1].port}"]}}' in status
    rows = tools("kafka-metadata-quorum", "describe", "--replication", "--human-readable").splitlines()[1:]
    assert sorted(row.split()[0] for row in rows) == ["1", "2", "3"]
    assert sorted(row.split()[-1] for row in rows) == ["Follower", "Follower", "Leader"]
    ages = [int(age) for row in rows for age in re.findall(r"(\d+) ms ago", row)]
    assert len(ages) == 5
    assert max(ages) < 60_000
    completed = run(
        CLASSES["kafka-metadata-quorum"], "--bootstrap-controller", cluster.bootstrap, "describe", "--status"
    )
    assert find_lines(r"LeaderId: +[123]$", completed.stdout), completed


def test_the_cluster_describes_itself(tools: Tools) -> None:
    features = tools("kafka-features", "describe")
    assert "metadata.version\tSupportedMinVersion: 4.0-IV3\tSupportedMaxVersion: 4.0-IV3" in features

    def cluster_tool(*arguments: str) -> str:
        return run(CLASSES["kafka-cluster"], *arguments, tools.bootstrap).stdout

    assert re.match(r"Cluster ID: \S{22}$", cluster_tool("cluster-id", "--bootstrap-server"))
    assert cluster_tool("list-endpoints", "--bootstrap-server").count("unfenced") == 3
    assert cluster_tool("list-endpoints", "--bootstrap-controller").count("controller") == 3
    versions = tools("kafka-broker-api-versions")
    assert versions.count("Produce(0): 0 to 13 [usable: 13]") == 3
    assert versions.count("ConsumerGroupHeartbeat(68): 0 to 1 [usable: 1]") == 3  # answered with an error, see ADR 18
    assert versions.count("ConsumerGroupDescribe(69): UNSUPPORTED") == 3


def test_the_replica_verification_tool_finds_equal_replicas(tools: Tools) -> None:
    """H5, F3: it reads from followers as a debugging consumer, and runs until it is stopped."""
    tools.create_topic("compared", "--partitions", "1", "--replication-factor", "3")
    tools.produce_lines("compared", "a\nb\nc\n")
    options = ("--topics-include", "compared", "--time", "-2", "--report-interval-ms", "500")
    verification = subprocess.Popen(
        command(CLASSES["kafka-replica-verification"], "--broker-list", tools.bootstrap, *options),
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert verification.stdout is not None
        reports = [next(verification.stdout) for _ in range(3)]
    finally:
        verification.kill()
        verification.communicate()
    assert "max lag is 0 for partition compared-0 at offset 3 among 1 partitions" in reports[-1], reports


def test_log_directories_and_producers_are_described(tools: Tools) -> None:
    tools.create_topic("described", "--partitions", "1", "--replication-factor", "3")
    tools.produce_lines("described", "a\nb\n")
    lines = tools("kafka-log-dirs", "--describe", "--topic-list", "described").splitlines()
    brokers = json.loads(lines[-1])["brokers"]
    sizes = [directory["partitions"][0]["size"] for broker in brokers for directory in broker["logDirs"]]
    assert len(sizes) == 3
    assert sizes[0] > 60
    assert sizes == sizes[:1] * 3
    rows = tools("kafka-transactions", "describe-producers", "--topic", "described", "--partition", "0").splitlines()
    assert rows[0].split()[:4] == ["ProducerId", "ProducerEpoch", "LatestCoordinatorEpoch", "LastSequence"]
    assert rows[1].split()[1:4] == ["0", "-1", "1"]
