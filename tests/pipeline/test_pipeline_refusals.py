"""What makes no sense is refused before Spark starts: exit code 2, one sentence, and nothing was touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit_data import ten_batches, write_replica
from typer.testing import CliRunner

from insync.cli.lazy import LazyGroup
from insync.cli.main import app
from insync.pipeline import session
from insync.pipeline.archive import job as archive
from insync.pipeline.lake import Lake
from insync.pipeline.ledger import RANGES, Ledger, Range
from insync.pipeline.replay import job as replay

METADATA = str(Path(__file__).resolve().parent.parent / "data" / "apache-kafka-metadata")


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current directory has a file, a directory of somebody else's, and logs of two brokers."""
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


def everything() -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(Path().rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("audit broker-1 --out file", "--out file: that is a file"),
        ("audit broker-1 --out foreign", "--out foreign: the directory has 'notes.txt' in it"),
        ("audit broker-1 --out file/below", "--out file/below: "),
        ("audit --history none.jsonl", "--history none.jsonl: there is no such file or directory"),
        ("audit --history none-*.jsonl", "--history none-*.jsonl: nothing fits this pattern"),
        ("audit nowhere", "there is no such directory"),
        ("audit broker-1 --brokers 1,2", "--brokers 1,2: 2 ids for 1 directory; name one for each"),
        ("audit broker-* --brokers 1", "--brokers 1: 1 id for 2 directories; name one for each"),
        ("audit broker-1 --topics nothing", "'nothing'"),
        ("audit broker-1 --master foo", "--master foo: Spark's masters are"),
        (f"health {METADATA} --html none/x.html", "--html none/x.html: there is no directory none"),
        (f"health {METADATA} --html foreign", "--html foreign: that is a directory"),
        (f"health {METADATA} --html file", "--html file: that is a file which this command did not write"),
        (f"health {METADATA} --out file", "--out file/events: "),
        (f"health {METADATA} --out foreign", "--out foreign/spans: the directory has 'notes.txt' in it"),
        (f"health {METADATA} --until 1999-01-01", "--until 1999-01-01: the log begins at 20"),
        (f"health {METADATA} --master foo", "--master foo"),
        ("campaign --seeds 0:2 --out file", "--out file: that is a file"),
        ("campaign --seeds 0:2 --master local[x]", "--master local[x]"),
        ("archive --pattern (((", "--pattern ((( is no regular expression: "),
        ("archive t --pattern t", "not both: 't' and --pattern t were given"),
        ("archive t --offline", "--offline goes with --verify"),
        ("archive t --lake file", "is a file"),
        ("replay t --from-offset 50 --to-offset 20", "--from-offset 50 is not before --to-offset 20"),
        ("replay t --from-time 5 --to-time 4", "--from-time 1970-01-01T00:00:00.005Z is not before --to-time 1970"),
        ("replay t=x:y", "no topic can be called 'x:y': a name has 1 to 249"),
        ("replay t --state file", "--state file: that is a file"),
    ],
)
def test_it_is_refused_in_a_sentence_and_nothing_is_touched(command: str, told: str) -> None:
    before = everything()
    result = CliRunner().invoke(app, ["pipeline", *command.split()])
    assert (result.exit_code, result.stdout) == (2, ""), result.output
    assert told in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert everything() == before


def test_health_tells_no_causes_where_there_are_none(tmp_path: Path) -> None:
    """And a page of its own is written anew."""
    for _ in range(2):
        result = CliRunner().invoke(app, ["pipeline", "health", METADATA, "--until", _beginning(), "--html", "h.html"])
        assert "decided by" not in result.stdout
        assert "report: h.html" in result.stdout
        assert Path("h.html").read_text().startswith("<!doctype html>")


def _beginning() -> str:
    refused = CliRunner().invoke(app, ["pipeline", "health", METADATA, "--until", "1999-01-01"])
    return refused.stderr.split("begins at ")[1].split(";")[0]


@pytest.mark.parametrize(
    ("command", "module", "name"),
    [("replay t", replay, "done_before"), ("archive t", archive, "check_topics")],
)
def test_ctrl_c_says_that_the_same_command_goes_on(
    command: str, module: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also before Spark runs."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, interrupted)
    result = CliRunner().invoke(app, ["pipeline", *command.split()])
    assert result.exit_code == 130
    assert result.stderr == "insync: stopped; the same command goes on from here\n"


def test_ctrl_c_while_a_pipeline_is_loaded_says_that_nothing_was_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    load = LazyGroup.load

    def interrupted(group: LazyGroup, module: str) -> object:
        if module == "pipeline_replay":
            raise KeyboardInterrupt
        return load(group, module)

    monkeypatch.setattr(LazyGroup, "load", interrupted)
    result = CliRunner().invoke(app, ["pipeline", "replay", "t"])
    assert (result.exit_code, result.stderr) == (130, "insync: stopped before it began\n")


@pytest.mark.parametrize("command", ["archive t", "replay t", "archive --verify"])
def test_where_no_broker_answers_it_says_how_to_name_one(command: str) -> None:
    Lake.open("lake", {}).close()
    Ledger.load(Path("lake")).commit(RANGES, "x", ranges=[_range()])
    arguments = ["--bootstrap", "127.0.0.1:1", "--timeout", "1", "--lake", "lake"]
    result = CliRunner().invoke(app, ["pipeline", *command.split(), *arguments])
    assert result.exit_code == 1
    assert "Is the cluster running? Name one of its brokers with --bootstrap HOST:PORT" in result.stderr


def _range() -> Range:
    return Range(topic="t", topic_id="00000000-0000-0000-0000-000000000001", partition=0, generation=0, start=0, end=9)
