"""What comes from clients can neither forge log lines nor steer a terminal."""

from __future__ import annotations

import logging
import sys

import pytest

from insync.cli import exits, output, records
from insync.escaping import MAX_VALUE_LENGTH, log_value, printable
from insync.server.notes import format_line
from insync.server.process import LineFormatter
from insync.wire.batch import Record

FORGED = "g\ntime=2026-01-01T00:00:00.000Z level=ERROR node=1 event=stopped"
NASTY = ("a\nb", "a\rb", "a\x1b[2Jb", "a\u2028b", "a\x9bb", "a\u202eb", "a\x00b", "a\ud800b")


@pytest.mark.parametrize("text", NASTY)
def test_nothing_that_is_not_printable_is_left(text: str) -> None:
    assert printable(text).isprintable()
    assert log_value(text).isprintable()
    assert printable(text).encode()


def test_a_log_value_is_one_word_or_in_quotes_and_bounded() -> None:
    assert log_value("orders-0") == "orders-0"
    assert [log_value(text) for text in ("", "a b", "a=b", "it's")] == ["''", "'a b'", "'a=b'", '"it\'s"']
    assert len(log_value("x" * 100_000)) < MAX_VALUE_LENGTH + 50


def test_a_note_is_one_line_whatever_its_values_contain() -> None:
    text = format_line("group_joined", {"group": FORGED, "members": ("a\nb", "c d"), "many": tuple(range(10_000))})
    assert text.isprintable()
    assert text.count(" event=") == 1  # inside of the quotes
    assert "members=['a\\nb','c d']" in text
    assert len(text) < 1_000


def test_a_log_message_is_one_line_and_no_line_of_a_traceback_looks_like_one() -> None:
    formatter = LineFormatter(3)
    try:
        raise ValueError(FORGED)
    except ValueError:
        record = logging.LogRecord("insync", logging.ERROR, "f", 1, "event=%s", ("x\ny",), sys.exc_info())
    first, *traceback = formatter.format(record).split("\n")
    assert first.endswith("level=ERROR node=3 event=x\\ny")
    assert traceback
    assert all(row.startswith("  ") for row in traceback)


def test_tables_and_messages_show_names_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """Neither markup nor escape sequences work in a name."""
    output.print_table(("group",), [["[red]x[/red]\x1b[31m"]])
    output.console().print("[bold]y\x1b[0m", markup=False)
    exits.failure("no group 'z\x1b[2J'")
    shown = capsys.readouterr()
    assert "[red]x[/red]\\x1b[31m" in shown.out
    assert "[bold]y\\x1b[0m" in shown.out
    assert "\x1b" not in shown.out + shown.err


def test_a_terminal_does_not_obey_a_record_and_a_pipe_gets_it_unchanged() -> None:
    record = Record(0, 0, b"\x1b[2Jk", b"v\x07\n", (("h\x1b", b"\x1b"),))
    options = {"keys": True, "headers": True, "timestamps": False, "offsets": False, "separator": "\t"}
    assert records.to_line(0, record, terminal=True, **options) == "h\\x1b=\\x1b\t\\x1b[2Jk\tv\\x07\n"  # type: ignore[arg-type]
    assert records.to_line(0, record, **options) == "h\x1b=\x1b\t\x1b[2Jk\tv\x07\n"  # type: ignore[arg-type]
