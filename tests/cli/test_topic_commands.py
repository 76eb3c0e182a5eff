"""`insync topic`, `produce`, `consume` and `group` on a scripted cluster: tables, JSON, and errors."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from typer.testing import CliRunner

from insync.cli.main import app
from tests.fake_cluster import FakeCluster
from tests.fake_state import FakeGroup
from tests.insync_command import InsyncCommand


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        yield cluster


@pytest.fixture
def insync(fake: FakeCluster) -> InsyncCommand:
    return InsyncCommand(fake.bootstrap, timeout_s=2)


# --- topic ---


def test_a_topic_is_created_listed_described_altered_and_deleted(fake: FakeCluster, insync: InsyncCommand) -> None:
    insync("topic", "create", "orders", "-p", "2", "-r", "3", "-c", "min.insync.replicas=2")
    assert len(fake.topics["orders"].partitions) == 2
    (listed,) = insync.json("topic", "list")
    assert listed == {"topic": "orders", "partitions": 2, "replicas": 3, "without_leader": 0, "under_replicated": 0}
    (described,) = insync.json("topic", "describe", "orders")
    assert described["configs"] == {"min.insync.replicas": "2"}
    assert described["partitions"][1]["isr"] == [1, 2, 3]
    insync("topic", "alter", "orders", "-p", "3", "-c", "retention.ms=9", "--reset", "min.insync.replicas")
    assert fake.topics["orders"].configs == {"retention.ms": "9"}
    assert len(fake.topics["orders"].partitions) == 3
    assert "deleted" in insync("topic", "delete", "orders")
    assert fake.topics == {}


def test_tables_have_the_same_values_as_json(fake: FakeCluster, insync: InsyncCommand) -> None:
    partition = fake.add_topic("orders", [1, 2, 3]).partitions[0]
    partition.isr, partition.elr = [1], [2]
    table = insync("topic", "describe").splitlines()
    assert table[-1].split() == [*["0", "1", "0", "1,2,3", "1", "2", "-", "0", "0", "0", "B"], "under-replicated"]
    assert "orders" in insync("topic", "list")


def test_a_topic_is_described_with_its_log_and_the_sources_of_its_configs(
    fake: FakeCluster, insync: InsyncCommand
) -> None:
    fake.add_topic("orders", [1, 2], min_insync_replicas="2")
    fake.write("orders", 0, "a", "b")
    (described,) = insync.json("topic", "describe", "orders", "--configs")
    (partition,) = described["partitions"]
    assert (partition["first_offset"], partition["end_offset"]) == (0, 2)
    assert partition["bytes"] > 0
    assert len(described["id"]) == 22  # Kafka's form
    assert {"config": "min.insync.replicas", "value": "2", "source": "topic"} in described["all_configs"]
    assert "topic" in insync("topic", "describe", "orders", "--configs").splitlines()[-1]


def test_brokers_are_listed_and_described(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1, 2], [2, 1], [2, 3])
    fake.fenced = [3]
    rows = insync.json("broker", "list")
    assert [(row["broker"], row["state"], row["leads"], row["replicas"]) for row in rows] == [
        (1, "ok", 1, 2),
        (2, "ok", 2, 3),
        (3, "fenced", 0, 1),
    ]
    described = insync.json("broker", "describe", "1")
    assert described["directories"][0]["replicas"] == 2
    assert "directory" in insync("broker", "describe", "1", "--all")
    unknown = insync.run("broker", "describe", "9")
    assert (unknown.exit_code, "there is no broker 9; the brokers that answer are 1, 2" in unknown.stderr) == (1, True)


def test_the_lag_of_all_groups_is_listed_largest_first(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t")
    fake.write("t", 0, "a", "b", "c")
    fake.groups["near"] = FakeGroup("Empty", {("t", 0): 2})
    fake.groups["far"] = FakeGroup("Empty", {("t", 0): 0})
    assert [(row["group"], row["lag"]) for row in insync.json("group", "lag")] == [("far", 3), ("near", 1)]


def test_an_assignment_names_the_brokers(fake: FakeCluster, insync: InsyncCommand) -> None:
    insync("topic", "create", "t", "--assign", "3,1/1,2")
    assert [p.replicas for p in fake.topics["t"].partitions] == [[3, 1], [1, 2]]


def test_a_dry_run_creates_nothing(fake: FakeCluster, insync: InsyncCommand) -> None:
    assert "could be created" in insync("topic", "create", "t", "--dry-run")
    assert fake.topics == {}


def test_internal_topics_are_listed_on_request(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("__consumer_offsets").internal = True
    assert insync.json("topic", "list") == []
    assert len(insync.json("topic", "list", "--internal")) == 1


# --- produce and consume ---


def test_values_are_produced_from_the_command_line(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t")
    assert insync("produce", "t", "a", "b") == "2 records to t-0 at offset 0 to 1\n"
    assert insync("consume", "t") == "a\nb\n"


def test_lines_are_produced_from_standard_input_with_keys_and_headers(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t")
    arguments = ("-K", "=", "-H", "h=1", "-t", "1000", "-z", "gzip")
    assert insync("produce", "t", *arguments, stdin="k=v\nplain\n").startswith("2 records")
    first, second = insync.json_lines("consume", "t")
    assert (first["key"], first["value"], first["headers"], first["timestamp"]) == ("k", "v", [["h", "1"]], 1000)
    assert (second["key"], second["value"]) == (None, "plain")
    text = insync("consume", "t", "--keys", "--headers", "--timestamps", "--offsets", "-n", "1")
    assert text == "1970-01-01T00:00:01.000Z\t0:0\th=1\tk\tv\n"


def test_produce_reads_what_consume_prints(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1], [2])
    fake.add_topic("u", [1], [2])
    record = {"key": {"base64": "/w=="}, "value": None, "headers": [["h", "x"]], "timestamp": 5, "partition": 1}
    insync("produce", "t", "--json-input", json.dumps(record))
    printed = insync("consume", "t", "--json")
    insync("produce", "u", "--json-input", stdin=printed)
    (copied,) = insync.json_lines("consume", "u")
    assert {name: copied[name] for name in record} == record


def test_many_records_are_spread_over_the_partitions_in_batches(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1], [2], [3])
    acks = insync.json_lines("produce", "t", stdin="".join(f"{n}\n" for n in range(1200)))
    assert sum(ack["count"] for ack in acks) == 1200
    assert sorted({ack["partition"] for ack in acks}) == [0, 1, 2]
    assert sorted(map(int, insync("consume", "t").split())) == list(range(1200))


def test_keys_decide_the_partition(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1], [2], [3])
    insync("produce", "t", "a", "b", "-k", "key")
    assert sorted(p.hwm for p in fake.topics["t"].partitions) == [0, 0, 2]


def test_consume_starts_at_an_offset_or_a_time(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t")
    for timestamp in ("1000", "2000", "3000"):
        insync("produce", "t", f"at{timestamp}", "-t", timestamp)
    assert insync("consume", "t", "--from", "1") == "at2000\nat3000\n"
    assert insync("consume", "t", "--from", "-1") == "at3000\n"
    assert insync("consume", "t", "--from", "end") == ""
    assert insync("consume", "t", "--since", "1970-01-01T00:00:02+00:00") == "at2000\nat3000\n"
    assert insync("consume", "t", "--since", "1h") == ""
    assert insync("consume", "t", "--follow", "-n", "2") == "at1000\nat2000\n"


def test_acks_0_does_not_wait_for_an_acknowledgement(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t")
    assert "not acknowledged" in insync("produce", "t", "x", "--acks", "0")


# --- group ---


def assignment(topic: str, *partitions: int) -> bytes:
    name = topic.encode()
    listed = b"".join(p.to_bytes(4) for p in partitions)
    return b"\x00\x00\x00\x00\x00\x01" + len(name).to_bytes(2) + name + len(partitions).to_bytes(4) + listed


def test_a_group_is_described_with_its_lag(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1], [2])
    fake.write("t", 0, "a", "b", "c")
    member = {
        "member_id": "m", "group_instance_id": None, "client_id": "c", "client_host": "/h", "member_metadata": b"",
        "member_assignment": assignment("t", 0, 1),
    }  # fmt: skip
    fake.groups["g"] = FakeGroup("Stable", {("t", 0): 1, ("gone", 0): 4}, [member])
    (listed,) = insync.json("group", "list")
    assert listed == {"group": "g", "state": "Stable", "type": "consumer", "coordinator": 3}
    described = insync.json("group", "describe", "g")
    assert described["lag"] == 2
    rows = {
        (row["topic"], row["partition"]): (row["committed"], row["end"], row["lag"]) for row in described["partitions"]
    }
    assert rows == {("gone", 0): (4, None, None), ("t", 0): (1, 3, 2), ("t", 1): (None, 0, None)}
    assert "lag 2" in insync("group", "describe", "g")


def test_a_group_of_the_newer_protocol_is_described_by_its_own_api(fake: FakeCluster, insync: InsyncCommand) -> None:
    """KIP-848: DescribeGroups answers that it is Dead."""
    fake.add_topic("t", [1], [2])
    assigned = [{"topic_id": None, "topic_name": "t", "partitions": [1]}]
    member = {
        "member_id": "m", "member_epoch": 1, "client_id": "c", "client_host": "/h", "member_type": 1,
        "assignment": {"topic_partitions": assigned}, "target_assignment": {"topic_partitions": assigned},
    }  # fmt: skip
    fake.groups["g"] = FakeGroup("Stable", {("t", 1): 0}, [member], group_type="Consumer")
    described = insync.json("group", "describe", "g")
    assert (described["state"], [row["id"] for row in described["members"]]) == ("Stable", ["m"])
    assert [(row["partition"], row["member"]) for row in described["partitions"]] == [(1, "m")]


@pytest.mark.parametrize(
    ("options", "offset"),
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
def test_the_offsets_of_a_group_are_reset(
    fake: FakeCluster, insync: InsyncCommand, options: tuple[str, ...], offset: int
) -> None:
    fake.add_topic("t")
    fake.write("t", 0, "a", "b", "c")
    fake.groups["g"] = FakeGroup("Empty", {("t", 0): 2})
    insync("group", "reset", "g", *options, "--dry-run")
    assert fake.groups["g"].offsets == {("t", 0): 2}
    insync("group", "reset", "g", *options)
    assert fake.groups["g"].offsets == {("t", 0): offset}


def test_a_group_is_deleted(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.groups["g"] = FakeGroup()
    insync("group", "delete", "g")
    result = insync.run("group", "delete", "g")
    assert result.exit_code == 1
    assert "GROUP_ID_NOT_FOUND (no such group" in result.stderr


# --- errors ---


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_wrong_arguments_are_exit_code_2_and_a_message(
    fake: FakeCluster, insync: InsyncCommand, arguments: list[str], message: str
) -> None:
    result = insync.run(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
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
def test_a_refusal_of_the_cluster_is_exit_code_1_and_a_message(
    fake: FakeCluster, insync: InsyncCommand, arguments: list[str], message: str
) -> None:
    fake.add_topic("t")
    result = insync.run(*arguments)
    assert result.exit_code == 1, result.output
    assert message in result.stderr
    assert "Traceback" not in result.output


def test_an_unreachable_cluster_is_exit_code_1_and_a_message() -> None:
    result = CliRunner().invoke(app, ["topic", "list", "-b", "127.0.0.1:1", "--timeout", "1"])
    assert result.exit_code == 1
    assert "no connection to 127.0.0.1:1: Connection refused. Is the cluster running?" in result.stderr
    assert "Set its address with --bootstrap HOST:PORT or INSYNC_BOOTSTRAP" in result.stderr
