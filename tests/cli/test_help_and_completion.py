"""Help in words, completion of names, `insync version` and `insync rule`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
import typer
from typer.main import get_group
from typer.testing import CliRunner

from insync.cli import output
from insync.cli.completion import complete_brokers, complete_groups, complete_topics
from insync.cli.help_words import describe_limits
from insync.cli.main import COMMANDS, SECTIONS, app
from insync.cli.rule import read_rules
from insync.version import __version__
from tests.fake_cluster import FakeCluster
from tests.fake_state import FakeGroup
from tests.insync_command import InsyncCommand

PYTHON_TYPES = re.compile(r"<(int|float|str|path|list\[?)|x[<>]=|\bINTEGER\b|\bFLOAT\b")
QUICK = [name for name in COMMANDS if name not in ("pipeline", "demo")]
"""Commands whose modules need no Spark."""


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        cluster.add_topic("orders")
        cluster.add_topic("payments")
        cluster.groups["readers"] = FakeGroup()
        yield cluster


@pytest.fixture
def insync(fake: FakeCluster) -> InsyncCommand:
    return InsyncCommand(fake.bootstrap, timeout_s=2)


def helps(*words: str) -> Iterator[str]:
    """The help of a command, and of the commands in it."""
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output
    yield result.stdout
    command = get_group(app)
    for word in words:
        command = command.get_command(typer.Context(command), word)  # type: ignore[assignment]
    for name in getattr(command, "commands", {}):
        yield from helps(*words, name)


def test_every_command_is_in_one_section() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)
    shown = CliRunner().invoke(app, ["-h"]).stdout
    assert all(f"\n{title}:\n" in shown for title in SECTIONS)


@pytest.mark.parametrize("name", QUICK)
def test_help_has_no_types_of_python(name: str) -> None:
    for text in helps(name):
        assert not PYTHON_TYPES.search(text), text


def test_limits_are_words() -> None:
    assert describe_limits(1, None) == "at least 1"
    assert describe_limits(None, 5) == "at most 5"
    assert describe_limits(0.1, 86_400.0) == "0.1 to 86400"
    assert describe_limits(None, None) is None


def test_names_of_the_cluster_are_completed(fake: FakeCluster) -> None:
    command = get_group(app)
    context = typer.Context(command)
    context.params["bootstrap"] = fake.bootstrap
    assert complete_topics(context, "o") == ["orders"]
    assert complete_topics(context, "") == ["orders", "payments"]
    assert complete_groups(context, "rea") == ["readers"]
    assert complete_brokers(context, "2,") == ["2,1", "2,3"]
    context.params["bootstrap"] = "127.0.0.1:1"
    assert complete_topics(context, "o") == []  # no error reaches the shell


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_printed(shell: str) -> None:
    printed = CliRunner().invoke(app, ["completion", shell]).stdout
    assert f"_INSYNC_COMPLETE=complete_{shell}" in printed
    assert CliRunner().invoke(app, ["completion", "tcsh"]).exit_code == 2


def test_a_misspelt_name_is_answered_with_a_similar_one(insync: InsyncCommand) -> None:
    for arguments in (("topic", "describe", "oders"), ("produce", "oders", "x"), ("consume", "oders")):
        assert "there is no topic 'oders'. Did you mean 'orders'?" in insync.run(*arguments).stderr
    assert "Did you mean 'readers'?" in insync.run("group", "delete", "reader").stderr
    assert "--partitions" in insync.run("topic", "create", "x", "--partition", "3").stderr


def test_empty_results_say_so() -> None:
    with FakeCluster() as fake:
        insync = InsyncCommand(fake.bootstrap, timeout_s=2)
        assert "no topics" in insync("topic", "list")
        assert "no groups" in insync("group", "list")
        assert insync.json("topic", "list") == []


def test_states_have_colours_in_a_terminal_only() -> None:
    table = output.table(("state", "count"), [["ok", 1], ["no leader", "-"]])
    assert [column.justify for column in table.columns] == ["left", "right"]
    plain, coloured = output.console(), output.SafeConsole(force_terminal=True, width=80, color_system="standard")
    with plain.capture() as in_pipe:
        plain.print(table)
    with coloured.capture() as in_terminal:
        coloured.print(table)
    assert "\x1b" not in in_pipe.get()
    assert "\x1b[32mok" in in_terminal.get()
    assert "\x1b[1;31mno leader" in in_terminal.get()


def test_times_and_numbers_can_be_read() -> None:
    assert output.count(1_234_567) == "1,234,567"
    assert output.ago(1_000, 1_250) == "250 ms ago"
    assert output.ago(1_000, 91_000) == "1 min 30 s ago"
    assert output.ago(-1, 5) == "-"


def test_a_rule_is_printed_by_its_id() -> None:
    printed = CliRunner().invoke(app, ["rule", "b4"]).stdout
    assert printed.startswith("B4 No heartbeat within the session timeout fences a broker.")
    assert "**" not in printed
    assert {"Q1", "B9", "S1", "L1", "W1"} <= set(read_rules())
    wrong = CliRunner().invoke(app, ["rule", "B44"])
    assert (wrong.exit_code, "Did you mean B4" in wrong.stderr) == (2, True)
    everything = CliRunner().invoke(app, ["rule"]).stdout
    assert all(name in everything for name in read_rules())


def test_versions_are_printed() -> None:
    assert f"insync          {__version__}\n" in CliRunner().invoke(app, ["version"]).output
    assert json.loads(CliRunner().invoke(app, ["version", "--json"]).stdout)["insync"] == __version__
