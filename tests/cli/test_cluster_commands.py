"""`insync reassign`, `elect`, `quorum`, `health`, `explain` and `top` against a scripted cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from insync.wire.errors import ErrorCode
from tests.fake_cluster import FakeCluster
from tests.fake_state import FakeState
from tests.insync_command import InsyncCommand


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster(4) as cluster:
        yield cluster


@pytest.fixture
def insync(fake: FakeCluster) -> InsyncCommand:
    return InsyncCommand(fake.bootstrap, timeout_s=2)


# --- reassign ---


def test_a_reassignment_is_planned_started_reported_and_cancelled(
    fake: FakeCluster, insync: InsyncCommand, tmp_path: Path
) -> None:
    partition = fake.add_topic("t", [1, 2, 3]).partitions[0]
    fake.write("t", 0, "x" * 1000)
    file = tmp_path / "plan.json"
    output = insync("reassign", "plan", "t", "--brokers", "2,3,4", "-o", str(file))
    assert "1 partitions change, 1 copies, 1.1 kB to copy" in output
    assert json.loads(file.read_text()) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0, "replicas": [2, 4, 3]}],
    }
    assert "1 partitions started" in insync("reassign", "start", str(file), "--throttle", "5000")
    assert fake.broker_configs[4]["follower.replication.throttled.rate"] == "5000"
    assert fake.topics["t"].configs["follower.replication.throttled.replicas"] == "0:4"

    partition.sizes, partition.ends = {4: 200}, {4: 0}
    (row,) = insync.json("reassign", "status", "--interval", "0")
    assert (row["adding"], row["removing"], row["blocker"]) == ([4], [1], 4)
    assert row["bytes_left"] == len(partition.data) - 200
    assert "broker 4 makes no progress, 1 records behind" in insync("reassign", "status", "--interval", "0.01")

    assert "1 partitions cancelled" in insync("reassign", "cancel")
    assert "no reassignment is in progress" in insync("reassign", "status")
    assert "throttles removed from 5 brokers and topics" in insync("reassign", "unthrottle")
    assert fake.topics["t"].configs == {}
    assert insync.json("reassign", "unthrottle") == {"lifted": 0}


def test_a_refused_reassignment_names_its_partition(fake: FakeCluster, insync: InsyncCommand, tmp_path: Path) -> None:
    fake.add_topic("t", [1, 2])
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 77]}]}')
    result = insync.run("reassign", "start", str(file))
    assert result.exit_code == 1
    assert "t-0: INVALID_REPLICA_ASSIGNMENT" in result.stdout
    assert "1 of 1 partitions were refused" in result.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "is not a plan"), ('{"partitions": [{"topic": "t"}]}', "is not a plan"), ('{"partitions": []}', "nothing")],
)
def test_a_file_that_is_not_a_plan_is_an_error(
    fake: FakeCluster, insync: InsyncCommand, tmp_path: Path, text: str, message: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    result = insync.run("reassign", "start", str(file))
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_impossible_plan_is_an_error(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1, 2, 3])
    unknown = insync.run("reassign", "plan", "--brokers", "1,2,9")
    assert (unknown.exit_code, "broker 9 is not in the cluster" in unknown.stderr) == (1, True)
    too_few = insync.run("reassign", "plan", "--brokers", "1,2")
    assert (too_few.exit_code, "3 replicas need 3 brokers" in too_few.stderr) == (1, True)
    missing = insync.run("reassign", "start", "/nowhere/plan.json")
    assert (missing.exit_code, "cannot read" in missing.stderr) == (2, True)


# --- elect, quorum ---


def test_preferred_leaders_are_elected(fake: FakeCluster, insync: InsyncCommand) -> None:
    moved, blocked = fake.add_topic("t", [1, 2], [3, 4]).partitions
    moved.leader = 2
    (row,) = insync.json("elect")
    assert (row["topic"], row["partition"], row["result"], row["leader"]) == ("t", 0, "elected", 1)
    assert "every partition has its preferred leader" in insync("elect")
    blocked.leader, blocked.isr = 4, [4]
    result = insync.run("elect", "t", "1")
    assert result.exit_code == 1
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in result.stdout


def test_unclean_elections_need_a_partition(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1, 2]).partitions[0].leader = -1
    assert insync.run("elect", "--unclean").exit_code == 2
    assert insync.run("elect", "t", "--unclean").exit_code == 2
    assert insync.run("elect", "t", "5", "--unclean").exit_code == 1
    assert "elected" in insync("elect", "t", "0", "--unclean")


def test_the_quorum_is_described_wherever_its_leader_is(fake: FakeCluster, insync: InsyncCommand) -> None:
    quorum = insync.json("quorum")
    assert (quorum["leader"], quorum["epoch"], quorum["hwm"]) == (4, 5, 90)
    assert [(row["node"], row["role"]) for row in quorum["replicas"]] == [
        (1, "voter"), (2, "voter"), (3, "voter"), (4, "leader"), (9, "observer"),
    ]  # fmt: skip
    assert "leader 4  epoch 5" in insync("quorum")


# --- health ---


def check_health(insync: InsyncCommand, exit_code: int) -> list[tuple[str, str, str]]:
    """The findings, as (severity, what, where)."""
    result = insync.run("health", "--json")
    assert result.exit_code == exit_code, result.output
    report = json.loads(result.stdout)
    assert report["healthy"] == (exit_code == 0)
    return [(finding["severity"], finding["what"], finding["where"]) for finding in report["findings"]]


def test_a_healthy_cluster_exits_with_0(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1, 2])
    assert check_health(insync, 0) == []
    assert insync("health").endswith("healthy\n")


def test_every_kind_of_finding_is_reported(fake: FakeCluster, insync: InsyncCommand) -> None:
    not_preferred, leaderless, short, below_min_isr = fake.add_topic(
        "t", *[[1, 2, 3]] * 4, min_insync_replicas="2"
    ).partitions
    leaderless.leader, leaderless.isr = -1, []
    short.isr = [1, 2]
    below_min_isr.isr = [1]
    not_preferred.leader = 2
    fake.fenced = [3]
    fake.usable_bytes = 1_000
    assert check_health(insync, 1) == [
        ("critical", "no leader", "t-1"),
        ("critical", "under min ISR", "t-3"),
        ("warning", "fenced", "broker 3"),
        ("warning", "disk nearly full", "broker 1 /data"),
        ("warning", "disk nearly full", "broker 2 /data"),
        ("warning", "disk nearly full", "broker 4 /data"),
        ("warning", "under-replicated", "t-2"),
        ("info", "leader not preferred", "t-0"),
    ]
    result = insync.run("health")
    assert (result.exit_code, "NOT healthy" in result.stdout) == (1, True)


def test_a_reassignment_in_progress_is_healthy(fake: FakeCluster, insync: InsyncCommand) -> None:
    """R1: replicas that are being added need not be in sync yet."""
    partition = fake.add_topic("t", [1, 2]).partitions[0]
    fake.reassignments["t", 0] = ([3], [])
    partition.replicas = [1, 2, 3]
    assert check_health(insync, 0) == [("info", "reassigning", "t-0")]


def test_a_broker_that_does_not_answer_is_reported(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1, 2])
    fake.stop(4)
    fake.quorum_leader = 1
    assert check_health(insync, 1) == [("warning", "unreachable", "broker 4")]


def test_health_waits_on_request(fake: FakeCluster, insync: InsyncCommand) -> None:
    partition = fake.add_topic("t", [1, 2]).partitions[0]
    partition.isr = [1]

    def expand_isr_before_the_next_check(state: FakeState) -> None:
        state.before_answer["DescribeQuorum"] = lambda _: setattr(partition, "isr", [1, 2])

    fake.before_answer["DescribeQuorum"] = expand_isr_before_the_next_check
    assert "healthy" in insync("health", "--wait", "30")


def test_health_waits_for_a_cluster_that_is_only_starting() -> None:
    with FakeCluster(brokers=1) as fake:
        fake.stop(1)
        later = threading.Timer(0.3, fake.start, [1])
        later.start()
        assert "healthy" in InsyncCommand(fake.bootstrap, timeout_s=2)("health", "--wait", "30")
        later.join()


# --- explain, top ---


def test_explain_says_why_a_live_replica_is_out_of_sync(fake: FakeCluster, insync: InsyncCommand) -> None:
    """I2: the log end, the epoch's start and the high watermark come from the brokers themselves."""
    partition = fake.add_topic("t", [1, 2, 3], min_insync_replicas="2").partitions[0]
    fake.write("t", 0, *"abcdefghij")
    partition.isr, partition.epoch = [1], 4
    partition.elr = [2]
    partition.ends, partition.last_epochs, partition.epoch_ends = {3: 7}, {3: 2}, {2: 5, 3: 6}
    fake.fenced = [2]
    explained = insync.json("explain", "t", "0", "--interval", "0.01")
    assert (explained["state"], explained["min_isr"], explained["hwm"], explained["leso"]) == ("unavailable", 2, 10, 6)
    leader, fenced, behind = explained["replicas"]
    assert leader["standing"] == "leader"
    assert (fenced["standing"], fenced["broker_status"]) == ("eligible (ELR)", "fenced")
    assert "offsets 5 to 6 of its log differ from the leader's" in behind["why"]
    assert "NOT_ENOUGH_REPLICAS" in explained["writes_fail_because"][0]
    assert explained["unclean_losses"][0]["committed"] == 5
    text = insync("explain", "t", "0", "--interval", "0")
    assert "electing broker 3 would lose 5 committed records (offsets 5 to 9)" in text


def test_explain_of_a_missing_partition_is_an_error(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [1])
    assert insync.run("explain", "nope", "0").exit_code == 1
    assert "has no partition 3" in insync.run("explain", "t", "3").stderr
    assert insync.run("explain", "t", "x").exit_code == 2


def test_top_lists_unhealthy_partitions_first(fake: FakeCluster, insync: InsyncCommand) -> None:
    healthy, short, leaderless = fake.add_topic("t", *[[1, 2]] * 3).partitions
    short.isr, short.ends = [1], {2: 0}
    leaderless.leader, leaderless.isr = -1, []
    fake.write("t", 1, "a", "b")
    first, second = insync.json_lines("top", "--frames", "2", "--interval", "0")
    assert [(line["partition"], line["state"]) for line in first] == [
        (2, "no leader"), (1, "under-replicated"), (0, ""),
    ]  # fmt: skip
    assert (first[1]["hwm"], first[1]["lag"], first[1]["rate"]) == (2, 2, None)
    assert second[1]["rate"] == 0.0
    assert healthy.hwm == 0
    text = insync("top", "--frames", "1")
    assert text.count("under-replicated") == 1
    assert "brokers 1,2,3,4" in text


def test_top_continues_after_an_error_of_a_broker(fake: FakeCluster, insync: InsyncCommand) -> None:
    fake.add_topic("t", [2, 1])
    fake.next_errors["DescribeCluster"] = [ErrorCode.not_controller]
    assert "t-0" in insync("top", "t", "--frames", "1")
