"""Every scenario gives its golden output, and a wrong step is reported with its line and what would be right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from insync.replication.leader import Leader
from insync.sim.mutants.catalogue import MUTANTS
from insync.sim.scenario import library
from insync.sim.scenario.player import ScenarioError, play
from insync.sim.scenario.steps import STEPS

FILES = sorted(Path(library.__file__).parent.glob("*.scenario"))
START = "cluster brokers=3 controllers=1\ntopic t replicas=1,2,3 min.insync.replicas=2\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_gives_its_golden_output(file: Path, request: pytest.FixtureRequest) -> None:
    played = play(file.read_text(), name=file.name)
    golden = file.with_suffix(".golden")
    if request.config.getoption("--rewrite-golden"):
        golden.write_text(played.text + "\n")
    assert played.text + "\n" == golden.read_text()
    assert played.ok


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_scenario_has_a_title_and_expectations(file: Path) -> None:
    lines = file.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert any(line.startswith("expect ") for line in lines)


def test_every_golden_output_has_a_scenario() -> None:
    directory = FILES[0].parent
    assert sorted(directory.glob("*.golden")) == [file.with_suffix(".golden") for file in FILES]


def test_the_text_is_the_same_under_any_hash_seed() -> None:
    file = next(file for file in FILES if file.stem == "balanced_recovery_after_power_loss")
    program = "import sys; from insync.sim.scenario.player import play; print(play(open(sys.argv[1]).read()).text)"
    texts = [
        subprocess.run(
            [sys.executable, "-c", program, str(file)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    assert texts[0] == texts[1] == file.with_suffix(".golden").read_text()


# --- expectations can fail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("expect t-0 leader=2", "EXPECTED t-0 leader=2, found leader=1"),
        ("produce t-0 A\nexpect t-0 log.2=A@1", "EXPECTED t-0 log.2=A@1, found log.2=A@0"),
        ("produce t-0 A\nexpect answer A=pending", "EXPECTED answer A=pending, found A=none"),
        ("expect node 2 fenced=true", "EXPECTED node 2 fenced=true, found fenced=false"),
        ("expect quorum leader=1", "EXPECTED quorum leader=1, found leader=101"),
        ("expect noted truncated", "EXPECTED some node to note truncated, and none did"),
        ("expect never became_leader epoch=0", "EXPECTED no node to note became_leader epoch=0, and one did"),
        ("expect violation S1", "EXPECTED violation S1, and nothing is violated"),
        ("until t-0 leader=3", "NEVER CAME TRUE: t-0 leader=3"),
    ],
)
def test_a_wrong_expectation_fails_and_ends_the_scenario(steps: str, message: str) -> None:
    played = play(f"{START}{steps}\nshow t-0\n")
    assert not played.ok
    assert f"    {message}" in played.text.splitlines()
    assert played.text.endswith("FAILED")
    assert "> show t-0" not in played.text


@pytest.mark.parametrize(
    ("after", "message"),
    [
        ("", "VIOLATION S3"),
        ("expect violation S2", "EXPECTED violation S2, found S3"),
        ("run 10\nexpect violation S3", "the run has ended, because S3 is violated"),
    ],
)
def test_a_violation_that_was_not_expected_next_fails(after: str, message: str) -> None:
    file = next(file for file in FILES if file.stem == "maximal_isr_without_it")
    until_then = file.read_text().partition("expect violation")[0]
    played = play(until_then + after)
    assert not played.ok
    assert message in played.text


def test_a_removed_safeguard_is_back_after_the_scenario() -> None:
    before = dict(vars(Leader))
    assert play(f"{START}without hwm-over-isr\nrun 10\n").ok
    assert dict(vars(Leader)) == before


# --- wrong steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ("jump 3", "there is no step 'jump'. Known: cancel, cluster, config,"),
        ("crash", "too few words. Write: crash NODE [lossy]"),
        ("crash 9", "there is no node '9': the nodes are 101, 1, 2, 3"),
        ("crash 1 gently", "'gently' should be 'lossy' or nothing"),
        ("show t-7", "there is no partition t-7: known are t-0"),
        ("expect u-0 leader=1", "there is no partition u-0: known are t-0"),
        ("expect u leader=1", "'u' is not a partition: write TOPIC-INDEX, such as t-0"),
        ("start 1", "node 1 is running"),
        ("topic u replicas=1,2 min.insync.replicas=x", "the controller refuses it: invalid_config"),
        ("show t", "'t' is not a partition: write TOPIC-INDEX, such as t-0"),
        ("run fast", "the time in ms should be a whole number, not 'fast'"),
        ("expect t-0 colour=red", "a partition has no 'colour'. Known: leader, isr,"),
        ("expect t-0 colour.1=red", "a replica has no 'colour'. Known: leo.NODE,"),
        ("expect t-0 leader", "'leader' should be name=value"),
        ("until node 2", "the value of node 2 is missing. Write: node 2 name=value"),
        ("hold 1-2", "'1-2' should be FROM->TO or FROM<->TO, such as 2->1"),
        ("hold 1->2 gossip", "there is no channel 'gossip'. Known: fetch,"),
        ("release 1->2", "nothing is held as '1->2'. Held: nothing"),
        ("produce t-0 A acks=2", "give at least one value, and acks=all, acks=1 or acks=0"),
        ("retry A", "'A' was never produced. Produced: nothing"),
        ("elect t-0 fair", "an election is 'preferred' or 'unclean', not 'fair'"),
        ("reassign t-0 1,x", "each of the brokers, separated by commas, should be a whole number, not 'x'"),
        ("topic u", "too few words. Write: topic NAME replicas=BROKERS"),
        ("topic u replicas=1,8", "there is no node '8'"),
        ("without care", "there is no safeguard 'care' to remove. Known: "),
        ("cluster brokers=3", "there is a cluster already"),
    ],
)
def test_a_wrong_step_is_reported_with_its_line_and_what_would_be_right(step: str, message: str) -> None:
    with pytest.raises(ScenarioError) as error:
        play(f"# a comment\n{START}{step}\n", name="mine.scenario")
    assert str(error.value).startswith(f"mine.scenario, line 4: '{step}': ")
    assert message in str(error.value)


@pytest.mark.parametrize("step", ["crash 1", "stop 1", "pause 1", "resume 1"])
def test_a_node_that_is_down_cannot_be_stopped_or_paused(step: str) -> None:
    with pytest.raises(ScenarioError, match=r"line 4: .*: node 1 is down"):
        play(f"{START}crash 1\n{step}")


def test_a_link_cannot_be_held_twice_in_the_same_words() -> None:
    with pytest.raises(ScenarioError, match=r"line 4: .*: '1->2 fetch' is held already"):
        play(f"{START}hold 1->2 fetch\nhold 1->2 fetch")


def test_a_scenario_begins_with_its_cluster() -> None:
    with pytest.raises(ScenarioError, match="line 1: 'show t-0': there is no cluster yet"):
        play("show t-0")


def test_every_step_has_a_usage_line() -> None:
    for name, step in STEPS.items():
        assert step.usage.split()[0] == name
        assert step.run.__module__.startswith("insync.sim.scenario.")


def test_the_safeguards_that_scenarios_remove_exist() -> None:
    removed = [line.split()[1] for file in FILES for line in file.read_text().splitlines() if line[:8] == "without "]
    assert removed
    assert all(name in MUTANTS for name in removed)
