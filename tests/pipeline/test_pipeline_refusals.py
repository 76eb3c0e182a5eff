"""Wrong arguments are reported before Spark starts: exit code 2, one line, and no file is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from insync.cli.lazy import LazyGroup
from insync.cli.main import app
from insync.lake.directory import Lake
from insync.lake.ledger import RANGES, Ledger, Range
from insync.pipeline import session
from insync.pipeline.archive import job as archive
from insync.pipeline.replay import job as replay
from tests.pipeline.audit_data import ten_batches, write_replica

METADATA = str(Path(__file__).resolve().parent.parent / "data" / "apache-kafka-metadata")


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory has a file, a directory with other files, and logs of two brokers."""
    monkeypatch.setattr(session, "open_quiet_session", _no_spark)
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    Path("foreign/spans").mkdir(parents=True)
    for directory in ("foreign", "foreign/spans"):
        Path(directory, "notes.txt").write_text("mine")
    for broker in (1, 2):
        write_replica(tmp_path, broker, [ten_batches()])


def _no_spark(*_: object, **__: object) -> None:
    raise AssertionError("Spark was started")


def read_all_files() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("audit broker-1 --out file", "--out file: it is a file"),
        ("audit broker-1 --out foreign", "--out foreign: the directory contains 'notes.txt'"),
        ("audit broker-1 --out file/below", "--out file/below: "),
        ("audit --history none.jsonl", "--history none.jsonl: there is no such file or directory"),
        ("audit --history none-*.jsonl", "--history none-*.jsonl: nothing matches this pattern"),
        ("audit nowhere", "there is no such directory"),
        ("audit broker-1 --brokers 1,2", "--brokers 1,2: 2 ids for 1 directory; give one for each"),
        ("audit broker-* --brokers 1", "--brokers 1: 1 id for 2 directories; give one for each"),
        ("audit broker-1 --topics nothing", "'nothing'"),
        ("audit broker-1 --master foo", "--master foo: Spark's masters are"),
        (f"health {METADATA} --html none/x.html", "--html none/x.html: there is no directory none"),
        (f"health {METADATA} --html foreign", "--html foreign: it is a directory"),
        (f"health {METADATA} --html file", "--html file: the file exists, and this command did not write it"),
        (f"health {METADATA} --out file", "--out file/events: "),
        (f"health {METADATA} --out foreign", "--out foreign/spans: the directory contains 'notes.txt'"),
        (f"health {METADATA} --until 1999-01-01", "--until 1999-01-01: the log begins at 20"),
        (f"health {METADATA} --master foo", "--master foo"),
        ("campaign --seeds 0:2 --out file", "--out file: it is a file"),
        ("campaign --seeds 0:2 --master local[x]", "--master local[x]"),
        ("archive --pattern (((", "--pattern ((( is not a regular expression: "),
        ("archive t --pattern t", "not both: got 't' and 't'"),
        ("archive t --offline", "--offline needs --verify"),
        ("archive t --lake file", "is a file"),
        ("replay t --from-offset 50 --to-offset 20", "--from-offset 50 is not before --to-offset 20"),
        ("replay t --from-time 5 --to-time 4", "--from-time 1970-01-01T00:00:00.005Z is not before --to-time 1970"),
        ("replay t=x:y", "'x:y' is not a valid topic name: a name has 1 to 249"),
        ("replay t --state file", "--state file: it is a file"),
    ],
)
def test_wrong_arguments_are_reported_and_no_file_is_touched(command: str, message: str) -> None:
    before = read_all_files()
    result = CliRunner().invoke(app, ["pipeline", *command.split()])
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert read_all_files() == before


def test_health_prints_no_causes_if_there_are_none(tmp_path: Path) -> None:
    """Its own page is overwritten."""
    for _ in range(2):
        result = CliRunner().invoke(app, ["pipeline", "health", METADATA, "--until", _log_start(), "--html", "h.html"])
        assert "decided by" not in result.stdout
        assert "report: h.html" in result.stdout
        assert Path("h.html").read_text().startswith("<!doctype html>")


def _log_start() -> str:
    refused = CliRunner().invoke(app, ["pipeline", "health", METADATA, "--until", "1999-01-01"])
    return refused.stderr.split("begins at ")[1].split(";")[0]


@pytest.mark.parametrize(
    ("command", "module", "name"),
    [("replay t", replay, "find_finished"), ("archive t", archive, "check_topics")],
)
def test_ctrl_c_says_that_the_same_command_continues(
    command: str, module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even before Spark runs."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupted)
    result = CliRunner().invoke(app, ["pipeline", *command.split()])
    assert result.exit_code == 130
    assert result.stderr == "insync: stopped; the same command continues from here\n"


def test_ctrl_c_while_a_command_loads_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    load = LazyGroup.load

    def interrupted(group: LazyGroup, module: str) -> object:
        if module == "pipeline_replay":
            raise KeyboardInterrupt
        return load(group, module)

    monkeypatch.setattr(LazyGroup, "load", interrupted)
    result = CliRunner().invoke(app, ["pipeline", "replay", "t"])
    assert (result.exit_code, result.stderr) == (130, "insync: interrupted before it started\n")


@pytest.mark.parametrize("command", ["archive t", "replay t", "archive --verify"])
def test_without_a_broker_the_error_names_the_option(command: str) -> None:
    Lake.open("lake", {}).close()
    Ledger.load(Path("lake")).commit(RANGES, "x", ranges=[_range()])
    arguments = ["--bootstrap", "127.0.0.1:1", "--timeout", "1", "--lake", "lake"]
    result = CliRunner().invoke(app, ["pipeline", *command.split(), *arguments])
    assert result.exit_code == 1
    assert "Is the cluster running? Set its address with --bootstrap HOST:PORT" in result.stderr


def _range() -> Range:
    return Range(topic="t", topic_id="00000000-0000-0000-0000-000000000001", partition=0, generation=0, start=0, end=9)
