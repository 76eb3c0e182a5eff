"""insync's commands on a cluster of Apache Kafka: they send no request that only insync answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from apache_kafka import ApacheCluster
from insync.wire.compression import NAMES
from interop.java import kafka_tools
from interop.java.kafka_tools import Tools, wait_for_output
from tests.insync_command import InsyncCommand


@pytest.fixture(scope="module")
def insync(kafka: ApacheCluster) -> InsyncCommand:
    return InsyncCommand(kafka.bootstrap, timeout_s=60)


def test_topics_are_created_altered_described_and_deleted(insync: InsyncCommand) -> None:
    insync("topic", "create", "t", "-p", "2", "-r", "3", "-c", "min.insync.replicas=2")
    insync("topic", "alter", "t", "-p", "3", "-c", "retention.ms=3600000")
    assert "t" in insync("topic", "list").split()
    (topic,) = insync.json("topic", "describe", "t")
    assert topic["configs"] == {"min.insync.replicas": "2", "retention.ms": "3600000"}
    assert [(len(p["isr"]), p["elr"], p["state"]) for p in topic["partitions"]] == [(3, [], "ok")] * 3
    again = insync.run("topic", "create", "t")
    assert (again.exit_code, "TOPIC_ALREADY_EXISTS" in again.stderr) == (1, True)
    insync("topic", "delete", "t")
    gone = insync.run("topic", "describe", "t", timeout_s=5)
    assert (gone.exit_code, "there is no topic 't'" in gone.stderr) == (1, True)


def test_records_of_every_codec_are_produced_and_consumed(insync: InsyncCommand) -> None:
    insync("topic", "create", "r", "-p", "1", "-r", "3")
    for codec in NAMES:
        insync("produce", "r", codec, "-k", "key", "-H", "h=1", "-t", "1700000000000", "-z", codec)
    lines = insync.json_lines("consume", "r")
    assert [(line["value"], line["offset"]) for line in lines] == [
        (codec, offset) for offset, codec in enumerate(NAMES)
    ]
    assert {(line["key"], line["timestamp"], str(line["headers"])) for line in lines} == {
        ("key", 1_700_000_000_000, "[['h', '1']]")
    }
    assert insync("consume", "r", "--from=-2", "--keys").split() == ["key", NAMES[-2], "key", NAMES[-1]]
    assert insync("consume", "r", "--since", "1700000000000", "-n", "1").strip() == NAMES[0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_both_protocols(insync: InsyncCommand, kafka: ApacheCluster, protocol: str) -> None:
    """The second is that of KIP-848, which insync's brokers do not have."""
    topic, group = f"g-{protocol}", f"group-{protocol}"
    insync("topic", "create", topic, "-p", "1", "-r", "3")
    insync("produce", topic, "a", "b", "c")
    consumer = subprocess.Popen(
        kafka_tools.command(
            kafka_tools.CLASSES["kafka-console-consumer"], "--bootstrap-server", kafka.bootstrap, "--topic", topic,
            "--from-beginning", "--group", group, "--consumer-property", f"group.protocol={protocol}",
        ),
        stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert consumer.stdout is not None
        assert [consumer.stdout.readline() for _ in range(3)] == ["a\n", "b\n", "c\n"]
        described = insync.json("group", "describe", group)
        (member,) = described["members"]
        assert described["state"] == "Stable"
        assert [(row["partition"], row["member"]) for row in described["partitions"]] == [(0, member["id"])]
        refused = insync.run("group", "reset", group, "--topic", topic, "--to", "beginning")
        assert (refused.exit_code, "stop its consumers first" in refused.stderr) == (1, True)
    finally:
        consumer.terminate()
        consumer.wait(kafka_tools.TIMEOUT_S)
    assert insync.json("group", "describe", group)["lag"] == 0
    insync("group", "reset", group, "--to", "1")
    assert insync.json("group", "describe", group)["lag"] == 2
    assert group in insync("group", "list")
    insync("group", "delete", group)
    assert group not in insync("group", "list")


def test_partitions_move_with_a_throttle(insync: InsyncCommand, kafka: ApacheCluster, tmp_path: Path) -> None:
    insync("topic", "create", "m", "--assign", "1,2/2,1")
    insync("produce", "m", *(f"v{n}" for n in range(30)), "-p", "0")
    plan = tmp_path / "plan.json"
    assert "2 copies" in insync("reassign", "plan", "m", "--brokers", "2,3", "-o", str(plan))
    insync("reassign", "start", str(plan), "--throttle", "50000000", "--wait")
    assert insync("reassign", "status") == "no reassignment is in progress\n"
    insync("reassign", "unthrottle")
    (topic,) = insync.json("topic", "describe", "m")
    assert [{*p["replicas"], *p["isr"]} for p in topic["partitions"]] == [{2, 3}, {2, 3}]
    assert topic["configs"] == {}
    described = Tools(kafka.bootstrap)("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "2")
    assert "throttled" not in described
    assert insync("consume", "m").split() == [f"v{n}" for n in range(30)]


def test_a_slow_reassignment_is_reported_and_cancelled(
    insync: InsyncCommand, kafka: ApacheCluster, tmp_path: Path
) -> None:
    insync("topic", "create", "c", "--assign", "1,2")
    Tools(kafka.bootstrap).produce_many("c", 2_000, 1_000)
    plan = tmp_path / "plan.json"
    insync("reassign", "plan", "c", "--brokers", "1,3", "-o", str(plan))
    insync("reassign", "start", str(plan), "--throttle", "1000")
    (row,) = insync.json("reassign", "status")
    assert (row["adding"], row["removing"]) == ([3], [2])
    insync("reassign", "cancel")
    assert insync("reassign", "status") == "no reassignment is in progress\n"
    insync("reassign", "unthrottle")
    (topic,) = insync.json("topic", "describe", "c")
    assert (topic["partitions"][0]["replicas"], topic["configs"]) == ([1, 2], {})


def test_a_healthy_cluster_is_described(insync: InsyncCommand) -> None:
    insync("topic", "create", "h", "--assign", "1,2,3")
    insync("produce", "h", "x")
    assert "healthy" in insync("health", "--wait", "60")
    assert insync("elect") == "every partition has its preferred leader\n"
    quorum = insync.json("quorum")
    assert (len(quorum["replicas"]), quorum["leader"] in (1, 2, 3)) == (3, True)
    explained = insync.json("explain", "h", "0")
    assert (explained["state"], explained["hwm"], [r["log_end"] for r in explained["replicas"]]) == ("ok", 1, [1, 1, 1])
    assert "h-0" in insync("top", "h", "--frames", "2", "--interval", "0")


def test_users_and_quotas(insync: InsyncCommand) -> None:
    insync("user", "add", "alice", stdin="secret\n")
    insync("user", "add", "alice", "-m", "SCRAM-SHA-512", stdin="secret\n")
    mechanisms = [(user["user"], user["mechanism"]) for user in insync.json("user", "list")]
    assert mechanisms == [("alice", "SCRAM-SHA-256"), ("alice", "SCRAM-SHA-512")]
    insync("user", "passwd", "alice", "--iterations", "4096", stdin="other\n")
    assert {user["iterations"] for user in insync.json("user", "list")} == {4_096}
    insync("user", "remove", "alice")
    insync("quota", "set", "--user", "alice", "--default-client-id", "producer_byte_rate=1024")
    (quota,) = insync.json("quota", "list")
    assert (quota["user"], quota["client_id"], quota["ip"], quota["limit"]) == ("alice", "<default>", None, 1_024)
    insync("quota", "remove", "--user", "alice", "--default-client-id")
    assert (insync.json("user", "list"), insync.json("quota", "list")) == ([], [])
    without = insync.run("acl", "list")
    assert (without.exit_code, "SECURITY_DISABLED" in without.stderr) == (1, True)


def test_the_loss_and_the_return_of_a_broker_are_reported(insync: InsyncCommand, kafka: ApacheCluster) -> None:
    """E3: with one replica gone, writes that need all three are refused, and the missing replica stays eligible."""
    insync("topic", "create", "w", "--assign", "3,1,2", "-c", "min.insync.replicas=3")
    insync("produce", "w", "before")
    kafka.kill(3)
    try:
        report = wait_for_output(
            lambda: insync.run("health", "--json").stdout, lambda text: "broker 3" in text and '"w-0"' in text
        )
        findings = {(finding["what"], finding["where"]) for finding in json.loads(report)["findings"]}
        assert {("under min ISR", "w-0"), ("fenced", "broker 3")} <= findings
        assert insync.run("health").exit_code == 1
        refused = insync.run("produce", "w", "during", timeout_s=5)
        assert (refused.exit_code, "NOT_ENOUGH_REPLICAS" in refused.stderr) == (1, True)
        explained = insync.json("explain", "w", "0")
        assert (explained["state"], explained["elr"]) == ("unavailable", [3])
        assert explained["replicas"][0]["standing"] == "eligible (ELR)"
        assert "NOT_ENOUGH_REPLICAS" in explained["writes_fail_because"][0]
        assert insync.run("elect", "w").exit_code == 1
    finally:
        kafka.start_node(3)
        kafka.wait_until_ready()
    insync("health", "--wait", "120")
    insync("elect", "w")
    insync("produce", "w", "after")
    stored = insync("consume", "w").split()
    assert [value for value in stored if value != "during"] == ["before", "after"]  # a refused write may be stored (P2)
