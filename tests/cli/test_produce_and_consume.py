"""Bytes, files and formats that `insync produce` reads, and what `insync consume` selects and prints."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from insync.cli.main import app
from insync.cli.produce_input import split
from insync.cli.record_format import unescape
from tests.fake_cluster import FakeCluster
from tests.fake_state import FakeGroup
from tests.insync_command import InsyncCommand

BINARY = bytes(range(256))


@pytest.fixture
def fake() -> Iterator[FakeCluster]:
    with FakeCluster() as cluster:
        cluster.add_topic("t")
        yield cluster


@pytest.fixture
def insync(fake: FakeCluster) -> InsyncCommand:
    return InsyncCommand(fake.bootstrap, timeout_s=2)


def consume_bytes(fake: FakeCluster, *arguments: str) -> bytes:
    result = CliRunner(env={"INSYNC_BOOTSTRAP": fake.bootstrap}).invoke(app, ["consume", "t", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def test_a_binary_file_is_produced_and_consumed_unchanged(
    fake: FakeCluster, insync: InsyncCommand, tmp_path: Path
) -> None:
    file = tmp_path / "binary"
    file.write_bytes(BINARY)
    assert insync("produce", "t", "--file", str(file), "-D", "").startswith("1 record ")
    assert consume_bytes(fake, "--format", "%s") == BINARY
    result = CliRunner(env={"INSYNC_BOOTSTRAP": fake.bootstrap}).invoke(app, ["produce", "t"], input=BINARY)
    assert result.stdout.startswith("2 records")  # it has one line end
    assert consume_bytes(fake, "--from", "1", "--format", "%s\\n") == BINARY + b"\n"


def test_several_files_are_read_in_order(insync: InsyncCommand, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{name}1;{name}2;")
    insync("produce", "t", "-F", str(tmp_path / "a"), "-F", str(tmp_path / "b"), "-D", ";")
    assert insync("consume", "t").split() == ["a1", "a2", "b1", "b2"]
    missing = insync.run("produce", "t", "-F", str(tmp_path / "missing"))
    assert (missing.exit_code, "No such file" in missing.stderr) == (2, True)
    assert insync.run("produce", "t", "x", "-F", str(tmp_path / "a")).exit_code == 2


@pytest.mark.parametrize(
    ("kind", "written", "stored"),
    [("hex", "00ff", b"\x00\xff"), ("base64", "AP8=", b"\x00\xff"), ("json", "[1]", b"[1]")],
)
def test_keys_and_values_have_formats(
    fake: FakeCluster, insync: InsyncCommand, kind: str, written: str, stored: bytes
) -> None:
    insync("produce", "t", f"{written}\t{written}", "-K", "\\t", "--key-format", kind, "--value-format", kind)
    assert consume_bytes(fake, "--format", "%k%s") == stored + stored
    refused = insync.run("produce", "t", "{", "--value-format", kind)
    assert (refused.exit_code, f"is not {kind}" in refused.stderr) == (1, True)
    assert insync.run("produce", "t", "x", "--value-format", "avro").exit_code == 2


def test_an_empty_value_is_a_tombstone_on_request(insync: InsyncCommand) -> None:
    insync("produce", "t", "key:", "-K", ":", "--null")
    insync("produce", "t", "key:", "-K", ":")
    assert [row["value"] for row in insync.json_lines("consume", "t")] == [None, ""]


def test_a_format_string_names_every_part(insync: InsyncCommand) -> None:
    insync("produce", "t", "value", "-k", "k", "-H", "h=1", "-t", "1000")
    form = "%t-%p@%o %T %k(%K)=%s(%S) [%h] 100%%\\x21\\n"
    assert insync("consume", "t", "--format", form) == "t-0@0 1000 k(1)=value(5) [h=1] 100%!\n"
    wrong = insync.run("consume", "t", "--format", "%x")
    assert (wrong.exit_code, "no field %x. Use %t topic" in wrong.stderr) == (2, True)


def test_records_are_selected_by_key_value_and_header(insync: InsyncCommand) -> None:
    insync("produce", "t", "apple", "-k", "a", "-H", "color=red")
    insync("produce", "t", "banana", "-k", "b", "-H", "color=yellow")
    assert insync("consume", "t", "--key", "b") == "banana\n"
    assert insync("consume", "t", "--grep", "^ap+") == "apple\n"
    assert insync("consume", "t", "-H", "color=yellow") == "banana\n"
    assert insync("consume", "t", "--grep", "an", "-n", "1") == "banana\n"
    none = insync.run("consume", "t", "--key", "c")
    assert (none.exit_code, none.stdout, none.stderr) == (0, "", "no records\n")
    assert insync.run("consume", "t", "--grep", "(").exit_code == 2


def test_json_is_indented_on_request(insync: InsyncCommand) -> None:
    insync("produce", "t", '{"a": [1]}', "plain")
    assert insync("consume", "t", "--pretty") == json.dumps({"a": [1]}, indent=2) + "\nplain\n"


def test_an_offset_beyond_the_end_is_an_error_that_names_the_end(fake: FakeCluster, insync: InsyncCommand) -> None:
    insync("produce", "t", "a", "b")
    beyond = insync.run("consume", "t", "--from", "9")
    assert beyond.exit_code == 1
    assert "offset 9 is beyond the end: t-0 ends at offset 2. Use a lower --from" in beyond.stderr
    assert insync("consume", "t", "--from", "2") == ""
    fake.add_topic("two", [1], [2])
    insync("produce", "two", "a", "b", "-p", "1")
    partly = insync.run("consume", "two", "--from", "1")
    assert (partly.exit_code, partly.stdout) == (0, "b\n")
    assert "two-0 ends at offset 0, before the start; it is not read" in partly.stderr


def test_a_group_continues_where_it_stopped(fake: FakeCluster, insync: InsyncCommand) -> None:
    insync("produce", "t", "a", "b", "c")
    fake.groups["g"] = FakeGroup("Empty", {})
    assert insync("consume", "t", "-g", "g", "-n", "2") == "a\nb\n"
    assert fake.groups["g"].offsets == {("t", 0): 2}
    assert insync("consume", "t", "-g", "g") == "c\n"
    assert insync("consume", "t", "-g", "g") == ""
    assert insync("consume", "t", "-g", "g", "--from", "beginning") == "a\nb\nc\n"


@pytest.mark.parametrize(
    ("data", "delimiter", "parts"),
    [
        (b"a\nb\n", b"\n", [b"a", b"b"]),
        (b"a\n\nb", b"\n", [b"a", b"", b"b"]),
        (b"a--b--", b"--", [b"a", b"b"]),
        (b"a\nb", b"", [b"a\nb"]),
        (b"", b"", []),
        (b"", b";", []),
    ],
)
def test_input_is_divided_by_a_delimiter(data: bytes, delimiter: bytes, parts: list[bytes]) -> None:
    assert list(split(io.BytesIO(data), delimiter)) == parts


def test_escapes_are_those_of_a_shell() -> None:
    assert unescape(r"a\tb\n\0\x41\\") == b"a\tb\n\0A\\"
