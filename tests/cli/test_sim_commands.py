"""`insync sim`: its commands, their JSON, and errors for wrong input."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from insync.cli.main import app
from insync.sim.checks.probes import PROBES
from insync.sim.scenario import library

pytestmark = pytest.mark.slow

run = CliRunner().invoke


def test_run_prints_one_json_object_that_counts_everything() -> None:
    result = run(app, ["sim", "run", "--seeds", "0:3", "--jobs", "1", "--json"])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["seeds"] == 3
    assert summary["violations"] == 0
    assert summary["failures"] == []
    assert summary["steps"] > 500
    assert summary["steps_per_s"] > 0
    assert set(summary["probes"]) == set(PROBES)


def test_run_names_the_probes_that_were_not_reached() -> None:
    result = run(app, ["sim", "run", "--seeds", "0:2", "--jobs", "1"])
    assert result.exit_code == 0, result.output
    assert "probes reached" in result.stdout
    assert "no violation" in result.stdout


def test_fewer_steps_make_a_shorter_run() -> None:
    whole = json.loads(run(app, ["sim", "run", "--seeds", "1", "--json"]).stdout)
    short = json.loads(run(app, ["sim", "run", "--seeds", "1", "--steps", "300", "--json"]).stdout)
    assert short["steps"] < whole["steps"]


def test_a_seed_that_crashes_the_code_is_reported_like_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_args: object, **_fields: object) -> None:
        raise KeyError("unexpected")

    monkeypatch.setattr("insync.replication.isr.advance_hwm", crash)
    result = run(app, ["sim", "run", "--seeds", "1:3", "--jobs", "1", "--json"])
    assert result.exit_code == 1
    failures = json.loads(result.stdout)["failures"]
    assert [failure["seed"] for failure in failures] == [1, 2]
    assert failures[0]["property"] == "crash"
    assert "unexpected" in failures[0]["detail"]


def test_replay_gives_the_same_trace_hash_every_time() -> None:
    first, second = (json.loads(run(app, ["sim", "replay", "4", "--json"]).stdout) for _ in range(2))
    assert first["trace_hash"] == second["trace_hash"]
    assert first["violation"] is None


def test_replay_prints_the_events() -> None:
    result = run(app, ["sim", "replay", "4"])
    assert result.exit_code == 0
    assert "became leader" in result.stdout
    assert "LEO" in result.stdout


def test_a_caught_mutant_is_reported_with_its_property() -> None:
    result = run(app, ["sim", "mutants", "read-past-hwm", "--seeds", "0:20", "--jobs", "1", "--json"])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(result.stdout)["mutants"]
    assert row["name"] == "read-past-hwm"
    assert row["caught"] is True
    assert row["property"] == "S8"
    assert isinstance(row["seed"], int)


def test_a_mutant_that_is_not_caught_makes_the_command_fail() -> None:
    """Two seeds are too few for this one."""
    result = run(app, ["sim", "mutants", "old-epochs-counted", "--seeds", "0:2", "--jobs", "1"])
    assert result.exit_code == 1
    assert "NOT CAUGHT" in result.stdout


def test_shrink_prints_numbered_lines_of_the_smaller_run() -> None:
    result = run(app, ["sim", "shrink", "0", "--mutant", "read-past-hwm", "--seconds", "5"])
    assert result.exit_code == 1
    assert "shrunk:" in result.stdout
    assert "   1." in result.stdout


def test_scenario_files_are_run(tmp_path: Path) -> None:
    file = tmp_path / "one.scenario"
    file.write_text("cluster brokers=1 controllers=1\ntopic t replicas=1\nproduce t-0 A\nexpect t-0 leader=1\n")
    result = run(app, ["sim", "scenario", str(file)])
    assert result.exit_code == 0, result.output
    file.write_text(file.read_text() + "expect t-0 leader=2\n")
    assert run(app, ["sim", "scenario", str(file)]).exit_code == 1


def test_a_scenario_of_the_library_is_run_by_its_name() -> None:
    result = run(app, ["sim", "scenario", "divergence_a"])
    assert result.exit_code == 0, result.output
    assert result.stdout == (Path(library.__file__).parent / "divergence_a.golden").read_text()


def test_the_scenarios_of_the_library_are_listed() -> None:
    result = run(app, ["sim", "scenario", "--list"])
    assert result.exit_code == 0, result.output
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == library.list_scenarios()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "--seeds", "many"], "not a range of seeds"),
        (["run", "--seeds", "5:5"], "need 0 <= A < B"),
        (["run", "--seeds", "-1:5"], "need 0 <= A < B"),
        (["replay", "x"], "not a range of seeds"),
        (["replay", "1:3"], "takes one seed"),
        (["shrink", "0"], "does not fail"),
        (["mutants", "no-such-mutant"], "there is no mutant"),
        (["shrink", "0", "--mutant", "no-such-mutant"], "there is no mutant"),
        (["scenario", "/nowhere/at/all"], "no scenario file"),
        (["scenario"], "no scenario given"),
    ],
)
def test_wrong_input_gets_a_clear_message_and_exit_code_2(arguments: list[str], message: str) -> None:
    result = run(app, ["sim", *arguments])
    assert result.exit_code == 2
    assert message in result.stderr


def test_a_scenario_with_a_wrong_step_says_where(tmp_path: Path) -> None:
    file = tmp_path / "wrong.scenario"
    file.write_text("cluster brokers=1\nfly away\n")
    result = run(app, ["sim", "scenario", str(file)])
    assert result.exit_code == 2
    assert "line 2" in result.stderr
