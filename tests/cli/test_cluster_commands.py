"""`insync reassign`, `elect`, `quorum`, `health`, `explain` and `top` against a scripted cluster."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from insync.cli.main import app
from insync.wire.errors import ErrorCode
from tests.fake_cluster import FakeCluster


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster(4) as cluster:
        yield cluster


def run(fake: FakeCluster, *arguments: str) -> Result:
    runner = CliRunner(env={"INSYNC_BOOTSTRAP": fake.bootstrap, "COLUMNS": "200"})
    return runner.invoke(app, [*arguments, "--timeout", "2"])


def good(fake: FakeCluster, *arguments: str) -> str:
    result = run(fake, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


# --- reassign ---


def test_a_plan_is_made_started_watched_and_cancelled(fake: FakeCluster, tmp_path: Path) -> None:
    partition = fake.topic("t", [1, 2, 3]).partitions[0]
    fake.write("t", 0, "x" * 1000)
    file = tmp_path / "plan.json"
    shown = good(fake, "reassign", "plan", "t", "--brokers", "2,3,4", "-o", str(file))
    assert "1 partitions change, 1 copies, 1.1 kB to copy" in shown
    assert json.loads(file.read_text()) == {
        "version": 1,
        "partitions": [{"topic": "t", "partition": 0, "replicas": [2, 4, 3]}],
    }
    assert "1 partitions started" in good(fake, "reassign", "start", str(file), "--throttle", "5000")
    assert fake.broker_configs[4]["follower.replication.throttled.rate"] == "5000"
    assert fake.topics["t"].configs["follower.replication.throttled.replicas"] == "0:4"

    partition.sizes, partition.ends = {4: 200}, {4: 0}
    (row,) = json.loads(good(fake, "reassign", "status", "--interval", "0", "--json"))
    assert (row["adding"], row["removing"], row["blocker"]) == ([4], [1], 4)
    assert row["bytes_left"] == len(partition.data) - 200
    assert "broker 4 makes no progress, 1 records behind" in good(fake, "reassign", "status", "--interval", "0.01")

    assert "1 partitions cancelled" in good(fake, "reassign", "cancel")
    assert "no reassignment is in progress" in good(fake, "reassign", "status")
    assert "throttles removed from 5 brokers and topics" in good(fake, "reassign", "unthrottle")
    assert fake.topics["t"].configs == {}
    assert json.loads(good(fake, "reassign", "unthrottle", "--json")) == {"lifted": 0}


def test_a_refused_move_is_named(fake: FakeCluster, tmp_path: Path) -> None:
    fake.topic("t", [1, 2])
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [1, 77]}]}')
    result = run(fake, "reassign", "start", str(file))
    assert result.exit_code == 1
    assert "t-0: INVALID_REPLICA_ASSIGNMENT" in result.stdout
    assert "1 of 1 partitions were refused" in result.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [("{", "is not a plan"), ('{"partitions": [{"topic": "t"}]}', "is not a plan"), ('{"partitions": []}', "nothing")],
)
def test_a_file_that_is_no_plan(fake: FakeCluster, tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    result = run(fake, "reassign", "start", str(file))
    assert result.exit_code == 2
    assert complaint in result.stderr


def test_plans_that_cannot_be(fake: FakeCluster) -> None:
    fake.topic("t", [1, 2, 3])
    unknown = run(fake, "reassign", "plan", "--brokers", "1,2,9")
    assert (unknown.exit_code, "broker 9 is not in the cluster" in unknown.stderr) == (1, True)
    few = run(fake, "reassign", "plan", "--brokers", "1,2")
    assert (few.exit_code, "3 replicas need 3 brokers" in few.stderr) == (1, True)
    missing = run(fake, "reassign", "start", "/nowhere/plan.json")
    assert (missing.exit_code, "cannot read" in missing.stderr) == (2, True)


# --- elect, quorum ---


def test_preferred_leaders_are_elected(fake: FakeCluster) -> None:
    moved, blocked = fake.topic("t", [1, 2], [3, 4]).partitions
    moved.leader = 2
    (row,) = json.loads(good(fake, "elect", "--json"))
    assert (row["topic"], row["partition"], row["result"], row["leader"]) == ("t", 0, "elected", 1)
    assert "every partition has its preferred leader" in good(fake, "elect")
    blocked.leader, blocked.isr = 4, [4]
    result = run(fake, "elect", "t", "1")
    assert result.exit_code == 1
    assert "PREFERRED_LEADER_NOT_AVAILABLE" in result.stdout


def test_unclean_elections_name_their_partition(fake: FakeCluster) -> None:
    fake.topic("t", [1, 2]).partitions[0].leader = -1
    assert run(fake, "elect", "--unclean").exit_code == 2
    assert run(fake, "elect", "t", "--unclean").exit_code == 2
    assert run(fake, "elect", "t", "5", "--unclean").exit_code == 1
    assert "elected" in good(fake, "elect", "t", "0", "--unclean")


def test_the_quorum_is_shown_wherever_its_leader_is(fake: FakeCluster) -> None:
    found = json.loads(good(fake, "quorum", "--json"))
    assert (found["leader"], found["epoch"], found["hwm"]) == (4, 5, 90)
    assert [(row["node"], row["role"]) for row in found["replicas"]] == [
        (1, "voter"), (2, "voter"), (3, "voter"), (4, "leader"), (9, "observer"),
    ]  # fmt: skip
    assert "leader 4  epoch 5" in good(fake, "quorum")


# --- health ---


def findings(fake: FakeCluster, code: int) -> list[tuple[str, str, str]]:
    result = run(fake, "health", "--json")
    assert result.exit_code == code, result.output
    found = json.loads(result.stdout)
    assert found["healthy"] == (code == 0)
    return [(f["severity"], f["what"], f["where"]) for f in found["findings"]]


def test_a_healthy_cluster_exits_with_0(fake: FakeCluster) -> None:
    fake.topic("t", [1, 2])
    assert findings(fake, 0) == []
    assert good(fake, "health").endswith("healthy\n")


def test_each_trouble_is_found(fake: FakeCluster) -> None:
    good_one, leaderless, short, weak = fake.topic("t", *[[1, 2, 3]] * 4, min_insync_replicas="2").partitions
    leaderless.leader, leaderless.isr = -1, []
    short.isr = [1, 2]
    weak.isr = [1]
    good_one.leader = 2
    fake.fenced = [3]
    fake.usable_bytes = 1_000
    assert findings(fake, 1) == [
        ("critical", "no leader", "t-1"),
        ("critical", "under min ISR", "t-3"),
        ("warning", "fenced", "broker 3"),
        ("warning", "disk nearly full", "broker 1 /data"),
        ("warning", "disk nearly full", "broker 2 /data"),
        ("warning", "disk nearly full", "broker 4 /data"),
        ("warning", "under-replicated", "t-2"),
        ("info", "leader not preferred", "t-0"),
    ]
    shown = run(fake, "health")
    assert (shown.exit_code, "NOT healthy" in shown.stdout) == (1, True)


def test_a_reassignment_under_way_is_no_trouble(fake: FakeCluster) -> None:
    """R1: replicas that are being added need not be in sync yet."""
    partition = fake.topic("t", [1, 2]).partitions[0]
    fake.moving["t", 0] = ([3], [])
    partition.replicas = [1, 2, 3]
    assert findings(fake, 0) == [("info", "reassigning", "t-0")]


def test_a_broker_that_does_not_answer_is_found(fake: FakeCluster) -> None:
    fake.topic("t", [1, 2])
    fake.stop(4)
    fake.quorum_leader = 1
    assert findings(fake, 1) == [("warning", "unreachable", "broker 4")]


def test_health_waits_when_asked_to(fake: FakeCluster) -> None:
    partition = fake.topic("t", [1, 2]).partitions[0]
    partition.isr = [1]

    def join(cluster: FakeCluster) -> None:
        """The second look at the quorum is after the first was found wanting."""
        cluster.before["DescribeQuorum"] = lambda _: setattr(partition, "isr", [1, 2])

    fake.before["DescribeQuorum"] = join
    assert "healthy" in good(fake, "health", "--wait", "30")


def test_health_waits_for_a_cluster_that_is_only_starting() -> None:
    with FakeCluster(brokers=1) as fake:
        fake.stop(1)
        later = threading.Timer(0.3, fake.start, [1])
        later.start()
        assert "healthy" in good(fake, "health", "--wait", "30")
        later.join()


# --- explain, top ---


def test_explain_tells_why_a_live_replica_is_out(fake: FakeCluster) -> None:
    """I2: the log end, the epoch's start and the high watermark come from the brokers themselves."""
    partition = fake.topic("t", [1, 2, 3], min_insync_replicas="2").partitions[0]
    fake.write("t", 0, *"abcdefghij")
    partition.isr, partition.epoch = [1], 4
    partition.elr = [2]
    partition.ends, partition.last_epochs, partition.epoch_ends = {3: 7}, {3: 2}, {2: 5, 3: 6}
    fake.fenced = [2]
    found = json.loads(good(fake, "explain", "t", "0", "--interval", "0.01", "--json"))
    assert (found["state"], found["min_isr"], found["hwm"], found["leso"]) == ("unavailable", 2, 10, 6)
    leader, fenced, behind = found["replicas"]
    assert leader["standing"] == "leader"
    assert (fenced["standing"], fenced["broker_status"]) == ("eligible (ELR)", "fenced")
    assert "offsets 5 to 6 of its log differ from the leader's" in behind["why"]
    assert "NOT_ENOUGH_REPLICAS" in found["writes_fail_because"][0]
    assert found["unclean_losses"][0]["committed"] == 5
    shown = good(fake, "explain", "t", "0", "--interval", "0")
    assert "electing broker 3 would lose 5 committed records (offsets 5 to 9)" in shown


def test_explain_of_what_is_not_there(fake: FakeCluster) -> None:
    fake.topic("t", [1])
    assert run(fake, "explain", "nope", "0").exit_code == 1
    assert "has no partition 3" in run(fake, "explain", "t", "3").stderr
    assert run(fake, "explain", "t", "x").exit_code == 2


def test_top_shows_frames_with_trouble_first(fake: FakeCluster) -> None:
    fine, short, dead = fake.topic("t", *[[1, 2]] * 3).partitions
    short.isr, short.ends = [1], {2: 0}
    dead.leader, dead.isr = -1, []
    fake.write("t", 1, "a", "b")
    first, second = map(json.loads, good(fake, "top", "--frames", "2", "--interval", "0", "--json").splitlines())
    assert [(line["partition"], line["state"]) for line in first] == [
        (2, "no leader"), (1, "under-replicated"), (0, ""),
    ]  # fmt: skip
    assert (first[1]["hwm"], first[1]["lag"], first[1]["rate"]) == (2, 2, None)
    assert second[1]["rate"] == 0.0
    assert fine.hwm == 0
    shown = good(fake, "top", "--frames", "1")
    assert shown.count("under-replicated") == 1
    assert "brokers 1,2,3,4" in shown


def test_top_goes_on_when_a_broker_has_gone(fake: FakeCluster) -> None:
    fake.topic("t", [2, 1])
    fake.refuse["DescribeCluster"] = [ErrorCode.not_controller]
    assert "t-0" in good(fake, "top", "t", "--frames", "1")
