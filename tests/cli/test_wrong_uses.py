"""Wrong uses of every command end with a sentence and exit code 1 or 2: no traceback reaches a user.

Every parameter of every command is given values that no one would mean: wrong numbers, addresses, names that are not
UTF-8, and files of every kind in the place of others. Commands connect to a scripted cluster; what would start
processes or a simulation is replaced.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest
import typer
from typer.main import get_group
from typer.testing import CliRunner

from insync.cli import exits
from insync.cli.main import app
from insync.server import cluster_registry
from tests.fake_answers import HANDLERS
from tests.fake_cluster import ALL_VERSIONS, EVERY_API, FakeCluster

SEED = 14
VALUES_PER_PARAMETER = 2
ODD_TEXTS = (
    *("", " ", "-1", "0", "99999999999999999999", "nan", "inf", "1e308", "x", "ü\udc80", "\x1b[31m", "{", "%s"),
    *("http://localhost:9092", ":", "host:99999", "[::1", "a=b", "1,2", "1,,2", "5:1", "../..", "a" * 300),
)
ODD_FILES = (
    *("empty", "binary", "directory", "missing", "/dev/null/x", "/proc/nope", "unwritable/x"),
    *("null.json", "list.json", "wrong.json", "numbers.json", "deep.json"),
)
SLOW = {("demo",), ("sim", "demo")}
"""They take no arguments that could be wrong."""
MAX_SECONDS = 20
"""A wrong use is noticed at once; this is far more, for busy machines."""


def commands() -> dict[tuple[str, ...], Any]:
    """Every command by its words."""
    leaves: dict[tuple[str, ...], Any] = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        if not hasattr(command, "list_commands"):
            leaves[words] = command
            return
        context = typer.Context(command)
        for name in command.list_commands(context):
            walk(command.get_command(context, name), (*words, name))

    walk(get_group(app), ())
    return leaves


def wrong_uses(words: tuple[str, ...], command: Any) -> Iterator[list[str]]:
    """The words of the command with one parameter that is odd, and something for those that are required."""
    chosen = random.Random(f"{SEED} {words}")
    for odd in command.params:
        if getattr(odd, "is_flag", False) or odd.name in ("help", "follow"):
            continue
        for value in chosen.sample((*ODD_TEXTS, *ODD_FILES), VALUES_PER_PARAMETER):
            options: list[str] = []
            arguments: list[str] = []
            for parameter in command.params:
                is_option = parameter.opts[0].startswith("-")
                if parameter is odd:
                    (options if is_option else arguments).append(f"{parameter.opts[0]}={value}" if is_option else value)
                elif parameter.required:
                    (options if is_option else arguments).append(f"{parameter.opts[0]}=t" if is_option else "t")
            yield [*words, *_limits(words, command, odd.name), *options, "--", *arguments]


def _limits(words: tuple[str, ...], command: Any, odd: str) -> list[str]:
    """Options that keep a command short which finds nothing wrong."""
    names = [parameter.name for parameter in command.params]
    limits = ["--timeout=1"] if "timeout" in names and odd != "timeout" else []
    return [*limits, "--frames=1"] if words == ("top",) and odd != "frames" else limits


def fail(*_: Any, **__: Any) -> NoReturn:
    raise exits.failure("not started")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with files that are none of those that commands read; the current one."""
    monkeypatch.chdir(tmp_path)
    Path("empty").touch()
    Path("binary").write_bytes(bytes(range(256)) * 4)
    Path("directory").mkdir()
    Path("unwritable").mkdir(mode=0o500)
    Path("null.json").write_text("null")
    Path("list.json").write_text("[1, 2]")
    Path("wrong.json").write_text('{"partitions": {"a": 1}}')
    Path("numbers.json").write_text('{"partitions": [{"topic": [], "partition": 1e400, "replicas": "12"}]}')
    Path("deep.json").write_text("[" * 100_000)
    monkeypatch.setenv(cluster_registry.DIRECTORY_VARIABLE, str(tmp_path / "run"))
    return tmp_path


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands check what they are given, and do not begin."""
    from insync.server import process

    def run_node(_executable: str, arguments: list[str]) -> NoReturn:
        raise typer.Exit(process.main(arguments[-1], make_server=fail))

    monkeypatch.setattr("os.execv", run_node)
    monkeypatch.setattr("insync.server.process._log_to_stderr", lambda node_id: None)
    for name in (
        *("cli.sim.run_plan", "cli.sim.over_processes", "cli.sim.hunt_mutants", "cli.up.Supervisor"),
        *("chaos.campaign.run", "cli.pipeline_archive.check_java", "cli.pipeline_compact.check_java"),
        *(f"cli.pipeline_{job}.open_session" for job in ("audit", "health", "campaign")),
        "cli.pipeline_replay.check_java",
    ):
        monkeypatch.setattr(f"insync.{name}", fail)


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    served = {api.key: ALL_VERSIONS[api.key] for api in EVERY_API if api.name in HANDLERS}
    with FakeCluster(versions=served) as cluster:
        cluster.add_topic("t", [1, 2, 3])
        yield cluster


@pytest.fixture
def run(fake: FakeCluster, place: Path, nothing_starts: None) -> Iterator[Callable[[list[str]], None]]:
    runner = CliRunner(env={"INSYNC_BOOTSTRAP": fake.bootstrap, "COLUMNS": "120"})

    def on_alarm(*_: object) -> NoReturn:
        raise AssertionError(f"took more than {MAX_SECONDS} s")

    def run(arguments: list[str]) -> None:
        signal.alarm(MAX_SECONDS)
        result = runner.invoke(app, arguments, input="y\n")
        signal.alarm(0)
        assert result.exit_code in (0, 1, 2), (arguments, result.output, result.exception)
        assert "Traceback" not in result.output, (arguments, result.output)
        assert "\x1b[31m" not in result.output, (arguments, result.output)
        assert result.exit_code == 0 or result.stderr.strip() or result.stdout.strip(), arguments

    before = signal.signal(signal.SIGALRM, on_alarm)
    yield run
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_no_wrong_use_of_a_command_ends_in_a_traceback(run: Callable[[list[str]], None]) -> None:
    uses = [use for words, command in commands().items() if words not in SLOW for use in wrong_uses(words, command)]
    assert len(uses) > 500
    for arguments in uses:
        run(arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["up", "--data", "binary"], "binary is not a directory"),
        (["up", "--data", "/proc/x/y"], "No such file or directory"),
        (["up", "--brokers", "500"], "Add --yes to start them"),
        (["sim", "scenario", "binary"], "binary is not a scenario: it is not a text file"),
        (["sim", "scenario", "empty"], "empty is not a scenario: it has no steps"),
        (["sim", "scenario", "directory"], "directory: Is a directory"),
        (["reassign", "start", "numbers.json"], "is not a plan"),
        (["reassign", "start", "deep.json"], "is not a plan"),
        (["reassign", "plan", "-b", "x:1", "--output", "directory"], "x:1"),
        (["topic", "list", "-b", "http://localhost:9092"], "write it without a scheme, localhost:9092"),
        (["topic", "list", "--timeout", "nan"], "--timeout"),
        (["consume", "t", "--client-config", "binary"], "is not a text file"),
        (["produce", "t", "x", "-p", "99999999999"], "99999999999"),
    ],
)
def test_an_error_says_what_is_wrong(
    fake: FakeCluster, place: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INSYNC_BOOTSTRAP", fake.bootstrap)
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code in (1, 2), result.output
    assert message in result.stderr


def test_a_defect_is_one_sentence_with_an_exit_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(typer.Exit) as ended, exits.errors_reported():
        raise ZeroDivisionError("by zero")
    assert ended.value.exit_code == exits.DEFECT
    said = capsys.readouterr().err
    assert said.startswith("insync: defect: ZeroDivisionError: by zero (test_wrong_uses.py:")
    assert "Traceback" not in said
    monkeypatch.setenv(exits.TRACEBACK_VARIABLE, "1")
    with pytest.raises(typer.Exit), exits.errors_reported():
        raise ZeroDivisionError("by zero")
    assert "Traceback" in capsys.readouterr().err
