"""`insync chaos`: its arguments, its output, the files it keeps, and its exit code."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from insync.chaos import campaign
from insync.chaos.campaign import InjectedFault, Plan, Report
from insync.chaos.faults import FAULTS
from insync.chaos.resources import Growth
from insync.cli.main import app
from insync.history import history_file
from insync.history.verdict import PartitionVerdict, Verdict, check_history
from insync.properties.history_checker import Finding

LOST = Finding("lost", "S9", 41, "1 records acknowledged at 41 are not committed")


def _run(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["chaos", *map(str, arguments)])
    return result.exit_code, result.output


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[Plan]:
    """The plans that the command runs; the seed decides the outcome."""
    run_plans: list[Plan] = []

    def run(plan: Plan, directory: Path, on_fault: Callable[[InjectedFault], None]) -> Report:
        run_plans.append(plan)
        (directory / campaign.HISTORY).touch()
        findings = (LOST,) if plan.seed == 13 else ()
        report = Report(plan, stuck="NoProgressError: no acks" if plan.seed == 14 else "")
        report.faults.append(InjectedFault("cut", "node 2 cut off", 1.5, 2.5))
        on_fault(report.faults[0])
        report.verdict = Verdict((PartitionVerdict("chaos", 0, Counter(send=7, ack=7), 7, findings),))
        report.growth = [Growth(2, 99, 42.0, 72.0, 60.0, 30, 31, 2.0, judged=plan.seed == 15)]
        return report

    monkeypatch.setattr(campaign, "run", run)
    return run_plans


def test_a_good_run_leaves_nothing_behind(plans: list[Plan], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, output = _run("--faults", "cut,pause", "--seconds", "5", "--rate", "9")
    assert code == 0
    assert "1.5 s  cut                 node 2 cut off; recovered after 2.5 s" in output
    assert "nothing lost, duplicated or reordered" in output
    assert (plans[0].faults, plans[0].seconds, plans[0].load["rate"]) == (["cut", "pause"], 5.0, 9)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90.0), ("60m", 3_600.0), ("8h", 28_800.0), ("7", 7.0)])
def test_the_duration_is_parsed(plans: list[Plan], text: str, seconds: float) -> None:
    _run("--for", text)
    assert (plans[0].seconds, plans[0].keep_histories) == (seconds, False)


def test_without_faults_all_of_them_are_injected(plans: list[Plan]) -> None:
    _run()
    assert plans[0].faults == list(FAULTS)
    assert {"damage", "damage-stopped", "damage-quorum", "bit-rot", "slow-disk"} <= set(plans[0].faults)


def test_growing_nodes_are_reported_and_exit_with_1(plans: list[Plan], tmp_path: Path) -> None:
    code, output = _run("--seed", "15", "--keep", tmp_path)
    assert code == 1
    assert "node 2 grows: +60.0 MB/h" in output


def test_a_finding_is_reported_and_files_are_kept_and_the_exit_code_is_1(plans: list[Plan], tmp_path: Path) -> None:
    code, output = _run("--seed", "13", "--keep", tmp_path / "kept")
    assert code == 1
    assert "lost chaos-0 offset 41: 1 records acknowledged at 41 are not committed (S9)" in output
    assert f"history, data and logs are in {tmp_path / 'kept'}" in output.replace("\n", "")
    assert (tmp_path / "kept" / campaign.HISTORY).exists()


def test_a_stuck_campaign_exits_with_1(plans: list[Plan], tmp_path: Path) -> None:
    code, output = _run("--seed", "14", "--keep", tmp_path)
    assert code == 1
    assert "stuck: NoProgressError: no acks" in output


def test_json_prints_one_object(plans: list[Plan], tmp_path: Path) -> None:
    code, output = _run("--seed", "13", "--keep", tmp_path, "--json")
    report = json.loads(output)
    assert (code, report["ok"], report["events"]["ack"], report["directory"]) == (1, False, 7, str(tmp_path))
    assert report["faults"] == [{"name": "cut", "description": "node 2 cut off", "at": 1.5, "seconds": 2.5}]
    assert report["findings"] == [{"topic": "chaos", "partition": 0, **LOST._asdict()}]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--faults", "cut,nap"], "there is no fault 'nap'"),
        (["--profile", "slow"], "'slow' is not one of"),
        (["--keep", "/"], "/ is not empty"),
        (["--for", "soon"], "'soon' is not a duration"),
    ],
)
def test_wrong_arguments_exit_with_2(plans: list[Plan], arguments: list[str], message: str) -> None:
    code, output = _run(*arguments)
    assert (code, plans) == (2, [])
    assert message in output


def test_the_history_of_a_real_run_can_be_checked_again(tmp_path: Path) -> None:
    code, output = _run("--faults", "kill-leader", "--seconds", "0", "--brokers", "3", "--keep", tmp_path, "--json")
    report = json.loads(output)
    assert (code, report["ok"], report["findings"], [fault["name"] for fault in report["faults"]]) == (
        0,
        True,
        [],
        ["kill-leader"],
    )
    verdict = check_history(history_file.read(tmp_path / campaign.HISTORY))
    assert verdict.ok
    assert verdict.count("ack") == report["events"]["ack"] > 100
    assert (tmp_path / "nodes" / "node-1" / "node.log").exists()


def test_faults_of_logins_need_a_secured_cluster(plans: list[Plan]) -> None:
    code, output = _run("--faults", "change-password", "--secure", "ssl")
    assert (code, "change-password needs --secure sasl_ssl or sasl_plaintext" in output) == (2, True)
    code, output = _run("--secure", "tls")
    assert (code, "'tls' is not one of sasl_ssl, ssl, sasl_plaintext" in output) == (2, True)
    assert _run("--secure", "SASL_SSL")[0] == 0
    assert (plans[0].security, list(plans[0].faults)[-2:]) == ("sasl_ssl", ["rotate-certificates", "change-password"])
    assert _run()[0] == 0
    assert (plans[1].security, list(plans[1].faults)) == (None, list(FAULTS))
