"""The same commands on real node processes, with librdkafka on the other side of the topic."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from confluent_kafka import Consumer, Producer, TopicPartition
from typer.testing import CliRunner

from insync.cli.main import app
from insync.server.local_cluster import LocalCluster
from insync.wire.compression import NAMES


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    made = LocalCluster(brokers=3)
    made.start()
    try:
        yield made
    finally:
        made.stop()


def run(cluster: LocalCluster, *arguments: str, timeout: int = 20) -> Result:
    env = {"INSYNC_BOOTSTRAP": cluster.bootstrap, "COLUMNS": "200"}
    return CliRunner(env=env).invoke(app, [*arguments, "--timeout", str(timeout)])


def good(cluster: LocalCluster, *arguments: str) -> str:
    result = run(cluster, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def read(cluster: LocalCluster, topic: str, count: int, partitions: int = 1) -> list[Any]:
    """What librdkafka finds in the topic."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    found: list[Any] = []
    try:
        while len(found) < count:
            found += consumer.consume(count - len(found), timeout=20) or pytest.fail(f"only {len(found)} of {count}")
    finally:
        consumer.close()
    return found


@pytest.mark.parametrize("codec", NAMES)
def test_librdkafka_reads_what_insync_writes_and_the_other_way_round(cluster: LocalCluster, codec: str) -> None:
    topic = f"codec-{codec}"
    good(cluster, "topic", "create", topic, "-p", "1", "-r", "3", "-c", "min.insync.replicas=2")
    good(cluster, "produce", topic, "a", "b", "-k", "key", "-H", "h=1", "-t", "1700000000000", "-z", codec)
    seen = read(cluster, topic, 2)
    assert [(m.key(), m.value(), m.headers(), m.timestamp()[1]) for m in seen] == [
        (b"key", value, [("h", b"1")], 1_700_000_000_000) for value in (b"a", b"b")
    ]
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": codec, "enable.idempotence": True})
    producer.produce(topic, value="c" * 2000, key="other", headers={"x": None})
    assert producer.flush(20) == 0
    back = json.loads(good(cluster, "consume", topic, "--from", "2", "--json"))
    assert (back["key"], back["value"], back["headers"], back["offset"]) == ("other", "c" * 2000, [["x", None]], 2)


def test_keys_land_where_librdkafkas_murmur2_puts_them(cluster: LocalCluster) -> None:
    good(cluster, "topic", "create", "keys", "-p", "5", "-r", "1")
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "partitioner": "murmur2"})
    for number in range(30):
        good_key = f"key-{number}"
        producer.produce("keys", key=good_key, value="theirs")
    assert producer.flush(20) == 0
    values = [json.dumps({"key": f"key-{number}", "value": "ours"}) for number in range(30)]
    good(cluster, "produce", "keys", "--json-input", *values)
    rows = [json.loads(line) for line in good(cluster, "consume", "keys", "--json").splitlines()]
    places = {name: {(r["key"], r["partition"]) for r in rows if r["value"] == name} for name in ("ours", "theirs")}
    assert len(places["ours"]) == 30
    assert places["ours"] == places["theirs"]


def test_a_group_of_librdkafka_is_seen_moved_and_deleted(cluster: LocalCluster) -> None:
    good(cluster, "topic", "create", "grouped", "-p", "2", "-r", "3")
    good(cluster, "produce", "grouped", "a", "b", "c", "-p", "1")
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap, "group.id": "readers", "auto.offset.reset": "earliest",
         "enable.auto.commit": False, "client.id": "reader"}
    )  # fmt: skip
    consumer.subscribe(["grouped"])
    messages = consumer.consume(3, timeout=30)
    assert [m.value() for m in messages] == [b"a", b"b", b"c"]
    consumer.commit(message=messages[1], asynchronous=False)
    found = json.loads(good(cluster, "group", "describe", "readers", "--json"))
    assert found["state"] == "Stable"
    assert [member["client_id"] for member in found["members"]] == ["reader"]
    assert {row["partition"]: row["lag"] for row in found["partitions"]} == {0: None, 1: 1}
    busy = run(cluster, "group", "reset", "readers", "--to", "beginning")
    assert (busy.exit_code, "stop its consumers first" in busy.stderr) == (1, True)
    consumer.close()
    good(cluster, "group", "reset", "readers", "--to", "beginning")
    assert json.loads(good(cluster, "group", "describe", "readers", "--json"))["lag"] == 3
    good(cluster, "group", "delete", "readers")
    assert "readers" not in good(cluster, "group", "list")


def test_partitions_move_and_nothing_is_lost(cluster: LocalCluster, tmp_path: Path) -> None:
    good(cluster, "topic", "create", "moving", "--assign", "1,2/2,1")
    good(cluster, "produce", "moving", *(f"v{n}" for n in range(50)), "-p", "0")
    plan = tmp_path / "plan.json"
    assert "copies" in good(cluster, "reassign", "plan", "moving", "--brokers", "2,3", "-o", str(plan))
    good(cluster, "reassign", "start", str(plan), "--wait")
    (topic,) = json.loads(good(cluster, "topic", "describe", "moving", "--json"))
    assert all(set(p["replicas"]) == {2, 3} == set(p["isr"]) for p in topic["partitions"])
    assert good(cluster, "consume", "moving").split() == [f"v{n}" for n in range(50)]
    assert good(cluster, "reassign", "status") == "no reassignment is in progress\n"


def test_the_loss_of_a_broker_is_told_and_its_return(cluster: LocalCluster) -> None:
    good(cluster, "topic", "create", "watched", "--assign", "1,2,3", "-c", "min.insync.replicas=3")
    good(cluster, "produce", "watched", "before")
    assert json.loads(good(cluster, "quorum", "--json"))["leader"] in (1, 2, 3)
    good(cluster, "health", "--wait", "30")
    cluster.kill(3)
    short = run(cluster, "produce", "watched", "during", timeout=3)
    assert short.exit_code == 1
    assert "NOT_ENOUGH_REPLICAS" in short.stderr
    found = json.loads(good(cluster, "explain", "watched", "0", "--json"))
    assert (found["state"], found["elr"], found["hwm"]) == ("unavailable", [3], 1)
    assert found["replicas"][2]["standing"] == "eligible (ELR)"
    assert "NOT_ENOUGH_REPLICAS" in found["writes_fail_because"][0]
    sick = run(cluster, "health", "--json")
    assert sick.exit_code == 1
    assert ("under min ISR", "watched-0") in [(f["what"], f["where"]) for f in json.loads(sick.stdout)["findings"]]
    cluster.start_node(3)
    good(cluster, "health", "--wait", "30")
    good(cluster, "produce", "watched", "after")
    stored = good(cluster, "consume", "watched").split()
    assert [value for value in stored if value != "during"] == ["before", "after"]  # a refused write may be there (P2)
    assert "watched-0" in good(cluster, "top", "watched", "--frames", "2", "--interval", "0")
