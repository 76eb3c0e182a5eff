"""The commands on real node processes, with librdkafka as the other client."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from insync.server.local_cluster import LocalCluster
from insync.wire.compression import NAMES
from tests.insync_command import InsyncCommand


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3) as local:
        yield local


def read(cluster: LocalCluster, topic: str, count: int) -> list[Message]:
    """The first records of a topic with one partition, read by librdkafka."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages: list[Message] = []
    try:
        while len(messages) < count:
            polled = consumer.consume(count - len(messages), timeout=20)
            assert polled, f"only {len(messages)} of {count} records of {topic} can be read"
            messages += polled
    finally:
        consumer.close()
    return messages


@pytest.mark.parametrize("codec", NAMES)
def test_librdkafka_reads_what_insync_writes_and_the_other_way_round(
    cluster: LocalCluster, insync: InsyncCommand, codec: str
) -> None:
    topic = f"codec-{codec}"
    insync("topic", "create", topic, "-p", "1", "-r", "3", "-c", "min.insync.replicas=2")
    insync("produce", topic, "a", "b", "-k", "key", "-H", "h=1", "-t", "1700000000000", "-z", codec)
    messages = read(cluster, topic, 2)
    assert [(m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in messages] == [
        (b"key", value, [("h", b"1")], 1_700_000_000_000) for value in (b"a", b"b")
    ]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "enable.idempotence": True})
    producer.produce(topic, value="c" * 2000, key="other", headers={"x": None})
    assert producer.flush(20) == 0
    record = insync.json("consume", topic, "--from", "2")
    assert (record["key"], record["value"], record["headers"], record["offset"]) == (
        "other",
        "c" * 2000,
        [["x", None]],
        2,
    )


def test_keys_are_in_the_partitions_that_librdkafkas_murmur2_gives(
    cluster: LocalCluster, insync: InsyncCommand
) -> None:
    insync("topic", "create", "keys", "-p", "5", "-r", "1")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2"})
    for number in range(30):
        producer.produce("keys", key=f"key-{number}", value="theirs")
    assert producer.flush(20) == 0
    values = [json.dumps({"key": f"key-{number}", "value": "ours"}) for number in range(30)]
    insync("produce", "keys", "--json-input", *values)
    rows = insync.json_lines("consume", "keys")
    ours, theirs = ({(r["key"], r["partition"]) for r in rows if r["value"] == value} for value in ("ours", "theirs"))
    assert len(ours) == 30
    assert ours == theirs


def test_a_group_of_librdkafka_is_described_reset_and_deleted(cluster: LocalCluster, insync: InsyncCommand) -> None:
    insync("topic", "create", "grouped", "-p", "2", "-r", "3")
    insync("produce", "grouped", "a", "b", "c", "-p", "1")
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "client.id": "reader"}
    )  # fmt: skip
    consumer.subscribe(["grouped"])
    messages = consumer.consume(3, timeout=30)
    assert [m.value() for m in messages] == [b"a", b"b", b"c"]
    consumer.commit(message=messages[1], asynchronous=False)
    described = insync.json("group", "describe", "readers")
    assert described["state"] == "Stable"
    assert [member["client_id"] for member in described["members"]] == ["reader"]
    assert {row["partition"]: row["lag"] for row in described["partitions"]} == {0: None, 1: 1}
    refused = insync.run("group", "reset", "readers", "--to", "beginning")
    assert (refused.exit_code, "stop its consumers first" in refused.stderr) == (1, True)
    consumer.close()
    insync("group", "reset", "readers", "--to", "beginning")
    assert insync.json("group", "describe", "readers")["lag"] == 3
    insync("group", "delete", "readers")
    assert "readers" not in insync("group", "list")


def test_no_record_is_lost_when_partitions_move(cluster: LocalCluster, insync: InsyncCommand, tmp_path: Path) -> None:
    insync("topic", "create", "moving", "--assign", "1,2/2,1")
    insync("produce", "moving", *(f"v{n}" for n in range(50)), "-p", "0")
    plan = tmp_path / "plan.json"
    assert "copies" in insync("reassign", "plan", "moving", "--brokers", "2,3", "-o", str(plan))
    insync("reassign", "start", str(plan), "--wait")
    (topic,) = insync.json("topic", "describe", "moving")
    assert all(set(p["replicas"]) == {2, 3} == set(p["isr"]) for p in topic["partitions"])
    assert insync("consume", "moving").split() == [f"v{n}" for n in range(50)]
    assert insync("reassign", "status") == "no reassignment is in progress\n"


def test_the_loss_and_the_return_of_a_broker_are_reported(cluster: LocalCluster, insync: InsyncCommand) -> None:
    insync("topic", "create", "watched", "--assign", "1,2,3", "-c", "min.insync.replicas=3")
    insync("produce", "watched", "before")
    assert insync.json("quorum")["leader"] in (1, 2, 3)
    insync("health", "--wait", "30")
    cluster.kill(3)
    refused = insync.run("produce", "watched", "during", timeout_s=3)
    assert refused.exit_code == 1
    assert "NOT_ENOUGH_REPLICAS" in refused.stderr
    explained = insync.json("explain", "watched", "0")
    assert (explained["state"], explained["elr"], explained["hwm"]) == ("unavailable", [3], 1)
    assert explained["replicas"][2]["standing"] == "eligible (ELR)"
    assert "NOT_ENOUGH_REPLICAS" in explained["writes_fail_because"][0]
    health = insync.run("health", "--json")
    assert health.exit_code == 1
    findings = [(finding["what"], finding["where"]) for finding in json.loads(health.stdout)["findings"]]
    assert ("under min ISR", "watched-0") in findings
    cluster.start_node(3)
    insync("health", "--wait", "30")
    insync("produce", "watched", "after")
    stored = insync("consume", "watched").split()
    assert [value for value in stored if value != "during"] == ["before", "after"]  # a refused write may be stored (P2)
    assert "watched-0" in insync("top", "watched", "--frames", "2", "--interval", "0")
