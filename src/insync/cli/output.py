"""Tables, JSON and readable numbers on standard output."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from insync.cli.exits import LINE_CHARACTERS
from insync.escaping import printable
from insync.pipeline.text import format_size

PIPE_WIDTH = 180


def print_json(value: Any, *, pretty: bool = False) -> None:
    typer.echo(json.dumps(value, indent=2 if pretty else None))


def report(value: Any, sentence: str, *, as_json: bool) -> None:
    """What a command has done: as JSON, or as a sentence, in which names are printable already."""
    if as_json:
        print_json(value)
    else:
        typer.echo(sentence)


def print_rows(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], *, as_json: bool, empty: str) -> None:
    """Rows as JSON, or as a table: `columns` are the headings of the rows' values. `empty`: printed without rows."""
    if as_json:
        print_json(rows)
    elif not rows:
        typer.echo(empty)
    else:
        print_table(columns, [list(row.values()) for row in rows])


class SafeConsole(Console):
    """Text printed with `markup=False` may contain names from a cluster: control characters in it are escaped."""

    def print(self, *objects: Any, **options: Any) -> None:
        if options.get("markup") is False:
            objects = tuple(
                [printable(item, keep=LINE_CHARACTERS) if isinstance(item, str) else item for item in objects]
            )
        super().print(*objects, **options)


def console() -> Console:
    """As wide as the terminal; without one, wide enough that lines in pipes are not wrapped."""
    wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else PIPE_WIDTH
    return SafeConsole(width=wide, highlight=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Cells are shown literally: neither rich's markup nor escape sequences take effect."""
    result = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False, header_style="bold")
    lines = [[printable(text(cell)) for cell in row] for row in rows]
    for number, column in enumerate(columns):
        is_numeric = bool(lines) and all(_NUMBER.fullmatch(line[number]) for line in lines)
        result.add_column(column, justify="right" if is_numeric else "left")
    for line in lines:
        result.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in line))
    return result


STYLES = {
    **dict.fromkeys(("ok", "running", "Stable", "elected", "yes"), "green"),
    **dict.fromkeys(("under-replicated", "restarting", "starting", "stopping", "warning", "Empty", "fenced"), "yellow"),
    **dict.fromkeys(("no leader", "no answer", "stopped", "critical", "refused", "Dead", "offline"), "bold red"),
}
"""Of cells with these words: green is good, yellow needs attention, red is a failure."""
_NUMBER = re.compile(r"-|\?|[+-]?[\d,]+(\.\d+)?( ?(B|kB|MB|GB|TB|s|ms|%))?(/s)?")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    console().print(table(columns, rows))


def text(cell: Any) -> str:
    """Lists without brackets, None and empty strings as a dash."""
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, list | tuple):
        return ",".join(str(item) for item in cell) or "-"
    return str(cell)


def size(count: float | None) -> str:
    """A readable number of bytes; ? if it is unknown."""
    return "?" if count is None else format_size(count)


def count(number: int | None) -> str:
    """A readable number of records, or an offset."""
    return "-" if number is None else f"{number:,}"


def ago(timestamp_ms: int, now_ms: int) -> str:
    """How long ago a time was; - if there is none."""
    if timestamp_ms < 0:
        return "-"
    elapsed_ms = max(0, now_ms - timestamp_ms)
    return f"{elapsed_ms} ms ago" if elapsed_ms < 1_000 else f"{duration(elapsed_ms / 1_000)} ago"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
