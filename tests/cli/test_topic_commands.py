"""`insync topic`, `produce`, `consume` and `group`: what people type, what scripts read, and what wrong input gets."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from insync.cli.main import app
from tests.fake_cluster import FakeCluster, FakeGroup


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        yield cluster


def run(fake: FakeCluster, *arguments: str, stdin: str | None = None) -> Result:
    runner = CliRunner(env={"INSYNC_BOOTSTRAP": fake.bootstrap, "COLUMNS": "160"})
    return runner.invoke(app, [*arguments, *(() if "--timeout" in arguments else ("--timeout", "2"))], input=stdin)


def good(fake: FakeCluster, *arguments: str, stdin: str | None = None) -> str:
    result = run(fake, *arguments, stdin=stdin)
    assert result.exit_code == 0, result.output
    return result.stdout


def lines(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


# --- topic ---


def test_a_topic_is_created_listed_described_altered_and_deleted(fake: FakeCluster) -> None:
    good(fake, "topic", "create", "orders", "-p", "2", "-r", "3", "-c", "min.insync.replicas=2")
    assert len(fake.topics["orders"].partitions) == 2
    (listed,) = json.loads(good(fake, "topic", "list", "--json"))
    assert listed == {"topic": "orders", "partitions": 2, "replicas": 3, "without_leader": 0, "under_replicated": 0}
    (described,) = json.loads(good(fake, "topic", "describe", "orders", "--json"))
    assert described["configs"] == {"min.insync.replicas": "2"}
    assert described["partitions"][1]["isr"] == [1, 2, 3]
    good(fake, "topic", "alter", "orders", "-p", "3", "-c", "retention.ms=9", "--reset", "min.insync.replicas")
    assert fake.topics["orders"].configs == {"retention.ms": "9"}
    assert len(fake.topics["orders"].partitions) == 3
    assert "deleted" in good(fake, "topic", "delete", "orders")
    assert fake.topics == {}


def test_tables_show_what_json_shows(fake: FakeCluster) -> None:
    partition = fake.topic("orders", [1, 2, 3]).partitions[0]
    partition.isr, partition.elr = [1], [2]
    shown = good(fake, "topic", "describe").splitlines()
    assert shown[-1].split() == ["0", "1", "0", "1,2,3", "1", "2", "-", "under-replicated"]
    assert "orders" in good(fake, "topic", "list")


def test_an_assignment_names_the_brokers(fake: FakeCluster) -> None:
    good(fake, "topic", "create", "t", "--assign", "3,1/1,2")
    assert [p.replicas for p in fake.topics["t"].partitions] == [[3, 1], [1, 2]]


def test_a_dry_run_creates_nothing(fake: FakeCluster) -> None:
    assert "could be created" in good(fake, "topic", "create", "t", "--dry-run")
    assert fake.topics == {}


def test_internal_topics_are_listed_when_asked_for(fake: FakeCluster) -> None:
    fake.topic("__consumer_offsets").internal = True
    assert json.loads(good(fake, "topic", "list", "--json")) == []
    assert len(json.loads(good(fake, "topic", "list", "--internal", "--json"))) == 1


# --- produce and consume ---


def test_values_from_the_command_line(fake: FakeCluster) -> None:
    fake.topic("t")
    assert good(fake, "produce", "t", "a", "b") == "2 records to t-0 at offset 0 to 1\n"
    assert good(fake, "consume", "t") == "a\nb\n"


def test_lines_of_standard_input_with_keys_and_headers(fake: FakeCluster) -> None:
    fake.topic("t")
    arguments = ("-K", "=", "-H", "h=1", "-t", "1000", "-z", "gzip")
    assert good(fake, "produce", "t", *arguments, stdin="k=v\nplain\n").startswith("2 records")
    first, second = lines(good(fake, "consume", "t", "--json"))
    assert (first["key"], first["value"], first["headers"], first["timestamp"]) == ("k", "v", [["h", "1"]], 1000)
    assert (second["key"], second["value"]) == (None, "plain")
    shown = good(fake, "consume", "t", "--keys", "--headers", "--timestamps", "--offsets", "-n", "1")
    assert shown == "1970-01-01T00:00:01.000Z\t0:0\th=1\tk\tv\n"


def test_what_consume_prints_produce_reads(fake: FakeCluster) -> None:
    fake.topic("t", [1], [2])
    fake.topic("u", [1], [2])
    record = {"key": {"base64": "/w=="}, "value": None, "headers": [["h", "x"]], "timestamp": 5, "partition": 1}
    good(fake, "produce", "t", "--json-input", json.dumps(record))
    printed = good(fake, "consume", "t", "--json")
    good(fake, "produce", "u", "--json-input", stdin=printed)
    (copied,) = lines(good(fake, "consume", "u", "--json"))
    assert {name: copied[name] for name in record} == record


def test_many_records_go_in_batches_over_the_partitions(fake: FakeCluster) -> None:
    fake.topic("t", [1], [2], [3])
    acks = lines(good(fake, "produce", "t", "--json", stdin="".join(f"{n}\n" for n in range(1200))))
    assert sum(ack["count"] for ack in acks) == 1200
    assert sorted({ack["partition"] for ack in acks}) == [0, 1, 2]
    assert sorted(map(int, good(fake, "consume", "t").split())) == list(range(1200))


def test_keys_decide_the_partition(fake: FakeCluster) -> None:
    fake.topic("t", [1], [2], [3])
    good(fake, "produce", "t", "a", "b", "-k", "key")
    assert sorted(p.hwm for p in fake.topics["t"].partitions) == [0, 0, 2]


def test_where_reading_begins(fake: FakeCluster) -> None:
    fake.topic("t")
    for stamp in ("1000", "2000", "3000"):
        good(fake, "produce", "t", f"at{stamp}", "-t", stamp)
    assert good(fake, "consume", "t", "--from", "1") == "at2000\nat3000\n"
    assert good(fake, "consume", "t", "--from", "-1") == "at3000\n"
    assert good(fake, "consume", "t", "--from", "end") == ""
    assert good(fake, "consume", "t", "--since", "1970-01-01T00:00:02+00:00") == "at2000\nat3000\n"
    assert good(fake, "consume", "t", "--since", "1h") == ""
    assert good(fake, "consume", "t", "--follow", "-n", "2") == "at1000\nat2000\n"


def test_acks_0_is_not_waited_for(fake: FakeCluster) -> None:
    fake.topic("t")
    assert "not acknowledged" in good(fake, "produce", "t", "x", "--acks", "0")


# --- group ---


def assignment(topic: str, *partitions: int) -> bytes:
    name = topic.encode()
    listed = b"".join(p.to_bytes(4) for p in partitions)
    return b"\x00\x00\x00\x00\x00\x01" + len(name).to_bytes(2) + name + len(partitions).to_bytes(4) + listed


def test_a_group_with_its_lag(fake: FakeCluster) -> None:
    fake.topic("t", [1], [2])
    fake.write("t", 0, "a", "b", "c")
    member = {
        "member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h", "member_metadata": b"",
        "member_assignment": assignment("t", 0, 1),
    }  # fmt: skip
    fake.groups["g"] = FakeGroup("Stable", {("t", 0): 1, ("gone", 0): 4}, [member])
    (listed,) = json.loads(good(fake, "group", "list", "--json"))
    assert listed == {"group": "g", "state": "Stable", "type": "consumer", "coordinator": 3}
    found = json.loads(good(fake, "group", "describe", "g", "--json"))
    assert found["lag"] == 2
    rows = {(row["topic"], row["partition"]): (row["committed"], row["end"], row["lag"]) for row in found["partitions"]}
    assert rows == {("gone", 0): (4, None, None), ("t", 0): (1, 3, 2), ("t", 1): (None, 0, None)}
    assert "lag 2" in good(fake, "group", "describe", "g")


def test_a_group_of_the_newer_protocol_is_described_by_its_own_api(fake: FakeCluster) -> None:
    """KIP-848: to DescribeGroups it is Dead."""
    fake.topic("t", [1], [2])
    places = [{"topic_id": None, "topic_name": "t", "partitions": [1]}]
    member = {
        "member_id": "m", "member_epoch": 1, "client_id": "c", "client_host": "/h", "member_type": 1,
        "assignment": {"topic_partitions": places}, "target_assignment": {"topic_partitions": places},
    }  # fmt: skip
    fake.groups["g"] = FakeGroup("Stable", {("t", 1): 0}, [member], kind="Consumer")
    found = json.loads(good(fake, "group", "describe", "g", "--json"))
    assert (found["state"], [each["id"] for each in found["members"]]) == ("Stable", ["m"])
    assert [(row["partition"], row["member"]) for row in found["partitions"]] == [(1, "m")]


@pytest.mark.parametrize(
    ("where", "after"),
    [
        (("--to", "beginning"), 0),
        (("--to", "end"), 3),
        (("--to", "1"), 1),
        (("--to", "+1"), 3),
        (("--to=-1",), 1),
        (("--to", "99"), 3),
        (("--since", "1000"), 0),
        (("--since", "5000"), 3),
    ],
)
def test_a_group_is_moved(fake: FakeCluster, where: tuple[str, ...], after: int) -> None:
    fake.topic("t")
    fake.write("t", 0, "a", "b", "c")
    fake.groups["g"] = FakeGroup("Empty", {("t", 0): 2})
    good(fake, "group", "reset", "g", *where, "--dry-run")
    assert fake.groups["g"].offsets == {("t", 0): 2}
    good(fake, "group", "reset", "g", *where)
    assert fake.groups["g"].offsets == {("t", 0): after}


def test_a_group_is_deleted_once(fake: FakeCluster) -> None:
    fake.groups["g"] = FakeGroup()
    good(fake, "group", "delete", "g")
    result = run(fake, "group", "delete", "g")
    assert result.exit_code == 1
    assert "GROUP_ID_NOT_FOUND (no such group" in result.stderr


# --- what goes wrong ---


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["topic", "create", "t", "-p", "0"], "--partitions 0: must be at least 1"),
        (["topic", "create", "t", "-c", "retention.ms"], "write NAME=VALUE"),
        (["topic", "create", "t", "--assign", "1,x"], "not a list of brokers"),
        (["topic", "create", "t", "--assign", "1,2", "-p", "2"], "omit --partitions"),
        (["topic", "alter", "t"], "nothing to alter"),
        (["topic", "list", "-b", "nonsense"], "write HOST:PORT"),
        (["produce", "t", "x", "--acks", "2"], "choose all, 1 or 0"),
        (["produce", "t", "x", "-z", "rar"], "choose one of none, gzip"),
        (["produce", "t", "x", "-t", "yesterday"], "is not a time"),
        (["consume", "t", "--from", "middle"], "write beginning, end"),
        (["consume", "t", "--from", "3", "--since", "1h"], "use one of them"),
        (["consume", "t", "-p", "a"], "not a list of partitions"),
        (["group", "reset", "g"], "give either --to"),
        (["group", "reset", "g", "--to", "there"], "write beginning, end"),
        (["group", "reset", "g", "--to", "end", "-p", "1"], "--partition needs --topic"),
    ],
)
def test_wrong_arguments_get_a_sentence_and_exit_code_2(
    fake: FakeCluster, arguments: list[str], complaint: str
) -> None:
    result = run(fake, *arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["topic", "describe", "nope"], "there is no topic 'nope'"),
        (["topic", "delete", "nope"], "there is no topic 'nope'"),
        (["topic", "alter", "nope", "-c", "a=b"], "there is no topic 'nope'"),
        (["topic", "create", "t"], "TOPIC_ALREADY_EXISTS (Topic 't' already exists.)"),
        (["topic", "alter", "t", "-c", "no.such=1"], "INVALID_CONFIG (Unknown config no.such)"),
        (["topic", "alter", "t", "-p", "1"], "INVALID_PARTITIONS"),
        (["produce", "nope", "x"], "there is no topic 'nope'"),
        (["produce", "t", "x", "-p", "7"], "has no partition 7"),
        (["produce", "t", "--json-input", "{"], "is not JSON"),
        (["produce", "t", "--json-input", "[]"], "not a JSON object"),
        (["produce", "t", "--json-input", '{"value": {"base64": "?"}}'], "not base64"),
        (["consume", "nope"], "there is no topic 'nope'"),
        (["consume", "t", "-p", "7"], "has no partition 7"),
        (["group", "describe", "nope"], "GROUP_ID_NOT_FOUND"),
        (["group", "reset", "nope", "--to", "end"], "has no committed offsets"),
        (["group", "reset", "nope", "--to", "end", "--topic", "t", "-p", "9"], "has no partition 9"),
    ],
)
def test_what_the_cluster_refuses_gets_a_sentence_and_exit_code_1(
    fake: FakeCluster, arguments: list[str], complaint: str
) -> None:
    fake.topic("t")
    result = run(fake, *arguments)
    assert result.exit_code == 1, result.output
    assert complaint in result.stderr
    assert "Traceback" not in result.output


def test_no_cluster_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["topic", "list", "-b", "127.0.0.1:1", "--timeout", "1"])
    assert result.exit_code == 1
    assert "no connection to 127.0.0.1:1: Connection refused. Is the cluster running?" in result.stderr
    assert "Set its address with --bootstrap HOST:PORT or INSYNC_BOOTSTRAP" in result.stderr
