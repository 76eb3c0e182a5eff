"""insync's commands on a cluster of Apache Kafka: they send no request that only insync answers."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from apache_kafka import ApacheCluster
from insync.cli.main import app
from insync.wire.compression import NAMES
from interop.java import kafka_tools
from interop.java.kafka_tools import Tools, wait_for_output


@pytest.fixture(scope="module")
def cli(kafka: ApacheCluster) -> Insync:
    return Insync(kafka.bootstrap)


class Insync:
    """The command line on one cluster; returns the output of a command, or the value of its JSON output."""

    def __init__(self, bootstrap: str) -> None:
        self._runner = CliRunner(env={"INSYNC_BOOTSTRAP": bootstrap, "COLUMNS": "200"})

    def run(self, *arguments: str, timeout_s: int = 60) -> Result:
        return self._runner.invoke(app, [*arguments, "--timeout", str(timeout_s)])

    def __call__(self, *arguments: str) -> str:
        result = self.run(*arguments)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))


def test_topics_are_created_altered_described_and_deleted(cli: Insync) -> None:
    cli("topic", "create", "t", "-p", "2", "-r", "3", "-c", "min.insync.replicas=2")
    cli("topic", "alter", "t", "-p", "3", "-c", "retention.ms=3600000")
    assert "t" in cli("topic", "list").split()
    (topic,) = cli.json("topic", "describe", "t")
    assert topic["configs"] == {"min.insync.replicas": "2", "retention.ms": "3600000"}
    assert [(len(p["isr"]), p["elr"], p["state"]) for p in topic["partitions"]] == [(3, [], "ok")] * 3
    again = cli.run("topic", "create", "t")
    assert (again.exit_code, "TOPIC_ALREADY_EXISTS" in again.stderr) == (1, True)
    cli("topic", "delete", "t")
    gone = cli.run("topic", "describe", "t", timeout_s=5)
    assert (gone.exit_code, "there is no topic 't'" in gone.stderr) == (1, True)


def test_records_of_every_codec_are_produced_and_consumed(cli: Insync) -> None:
    cli("topic", "create", "r", "-p", "1", "-r", "3")
    for codec in NAMES:
        cli("produce", "r", codec, "-k", "key", "-H", "h=1", "-t", "1700000000000", "-z", codec)
    lines = [json.loads(line) for line in cli("consume", "r", "--json").splitlines()]
    assert [(line["value"], line["offset"]) for line in lines] == [
        (codec, offset) for offset, codec in enumerate(NAMES)
    ]
    assert {(line["key"], line["timestamp"], str(line["headers"])) for line in lines} == {
        ("key", 1_700_000_000_000, "[['h', '1']]")
    }
    assert cli("consume", "r", "--from=-2", "--keys").split() == ["key", NAMES[-2], "key", NAMES[-1]]
    assert cli("consume", "r", "--since", "1700000000000", "-n", "1").strip() == NAMES[0]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_groups_of_both_protocols(cli: Insync, kafka: ApacheCluster, protocol: str) -> None:
    """The second is that of KIP-848, which insync's brokers do not have."""
    topic, group = f"g-{protocol}", f"group-{protocol}"
    cli("topic", "create", topic, "-p", "1", "-r", "3")
    cli("produce", topic, "a", "b", "c")
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
        described = cli.json("group", "describe", group)
        (member,) = described["members"]
        assert described["state"] == "Stable"
        assert [(row["partition"], row["member"]) for row in described["partitions"]] == [(0, member["id"])]
        refused = cli.run("group", "reset", group, "--topic", topic, "--to", "beginning")
        assert (refused.exit_code, "stop its consumers first" in refused.stderr) == (1, True)
    finally:
        consumer.terminate()
        consumer.wait(kafka_tools.TIMEOUT_S)
    assert cli.json("group", "describe", group)["lag"] == 0
    cli("group", "reset", group, "--to", "1")
    assert cli.json("group", "describe", group)["lag"] == 2
    assert group in cli("group", "list")
    cli("group", "delete", group)
    assert group not in cli("group", "list")


def test_partitions_move_with_a_throttle(cli: Insync, kafka: ApacheCluster, tmp_path: Path) -> None:
    cli("topic", "create", "m", "--assign", "1,2/2,1")
    cli("produce", "m", *(f"v{n}" for n in range(30)), "-p", "0")
    plan = tmp_path / "plan.json"
    assert "2 copies" in cli("reassign", "plan", "m", "--brokers", "2,3", "-o", str(plan))
    cli("reassign", "start", str(plan), "--throttle", "50000000", "--wait")
    assert cli("reassign", "status") == "no reassignment is in progress\n"
    cli("reassign", "unthrottle")
    (topic,) = cli.json("topic", "describe", "m")
    assert [{*p["replicas"], *p["isr"]} for p in topic["partitions"]] == [{2, 3}, {2, 3}]
    assert topic["configs"] == {}
    described = Tools(kafka.bootstrap)("kafka-configs", "--describe", "--entity-type", "brokers", "--entity-name", "2")
    assert "throttled" not in described
    assert cli("consume", "m").split() == [f"v{n}" for n in range(30)]


def test_a_slow_reassignment_is_reported_and_cancelled(cli: Insync, kafka: ApacheCluster, tmp_path: Path) -> None:
    cli("topic", "create", "c", "--assign", "1,2")
    Tools(kafka.bootstrap).produce_many("c", 2_000, 1_000)
    plan = tmp_path / "plan.json"
    cli("reassign", "plan", "c", "--brokers", "1,3", "-o", str(plan))
    cli("reassign", "start", str(plan), "--throttle", "1000")
    (row,) = cli.json("reassign", "status")
    assert (row["adding"], row["removing"]) == ([3], [2])
    cli("reassign", "cancel")
    assert cli("reassign", "status") == "no reassignment is in progress\n"
    cli("reassign", "unthrottle")
    (topic,) = cli.json("topic", "describe", "c")
    assert (topic["partitions"][0]["replicas"], topic["configs"]) == ([1, 2], {})


def test_a_healthy_cluster_is_described(cli: Insync) -> None:
    cli("topic", "create", "h", "--assign", "1,2,3")
    cli("produce", "h", "x")
    assert "healthy" in cli("health", "--wait", "60")
    assert cli("elect") == "every partition has its preferred leader\n"
    quorum = cli.json("quorum")
    assert (len(quorum["replicas"]), quorum["leader"] in (1, 2, 3)) == (3, True)
    explained = cli.json("explain", "h", "0")
    assert (explained["state"], explained["hwm"], [r["log_end"] for r in explained["replicas"]]) == ("ok", 1, [1, 1, 1])
    assert "h-0" in cli("top", "h", "--frames", "2", "--interval", "0")


def test_the_loss_and_the_return_of_a_broker_are_reported(cli: Insync, kafka: ApacheCluster) -> None:
    """E3: with one replica gone, writes that need all three are refused, and the missing replica stays eligible."""
    cli("topic", "create", "w", "--assign", "3,1,2", "-c", "min.insync.replicas=3")
    cli("produce", "w", "before")
    kafka.kill(3)
    try:
        report = wait_for_output(
            lambda: cli.run("health", "--json").stdout, lambda text: "broker 3" in text and '"w-0"' in text
        )
        findings = {(finding["what"], finding["where"]) for finding in json.loads(report)["findings"]}
        assert {("under min ISR", "w-0"), ("fenced", "broker 3")} <= findings
        assert cli.run("health").exit_code == 1
        refused = cli.run("produce", "w", "during", timeout_s=5)
        assert (refused.exit_code, "NOT_ENOUGH_REPLICAS" in refused.stderr) == (1, True)
        explained = cli.json("explain", "w", "0")
        assert (explained["state"], explained["elr"]) == ("unavailable", [3])
        assert explained["replicas"][0]["standing"] == "eligible (ELR)"
        assert "NOT_ENOUGH_REPLICAS" in explained["writes_fail_because"][0]
        assert cli.run("elect", "w").exit_code == 1
    finally:
        kafka.start_node(3)
        kafka.wait_until_ready()
    cli("health", "--wait", "120")
    cli("elect", "w")
    cli("produce", "w", "after")
    stored = cli("consume", "w").split()
    assert [value for value in stored if value != "during"] == ["before", "after"]  # a refused write may be stored (P2)
