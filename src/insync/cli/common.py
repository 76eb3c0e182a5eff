"""What all commands that talk to a cluster share: options, how they run, how they print, how they fail.

A wrong argument ends with exit code 2, a failure with 1; both print one sentence on stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from insync.cli import client_config
from insync.cli.exits import LINE_CHARACTERS, failure, usage_error
from insync.client.client import Client
from insync.client.errors import AddressError, ClientError, NoBrokerError
from insync.escaping import printable

T = TypeVar("T")

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_TIMEOUT = 10.0
WIDTH_OF_PIPES = 180

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap", "-b", envvar="INSYNC_BOOTSTRAP", metavar="HOST:PORT[,...]", help="Brokers to begin with."
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to keep trying.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def run(bootstrap: str, timeout: float, work: Callable[[Client], Awaitable[T]]) -> T:
    """Connect, do the work, close; whatever a cluster refuses becomes a sentence and an exit code."""

    async def session() -> T:
        async with Client.connect(bootstrap, timeout_s=timeout, settings=client_config.settings()) as client:
            return await work(client)

    try:
        return asyncio.run(session())
    except AddressError as error:
        raise usage_error(str(error)) from None
    except ClientError as error:
        raise failure(reason(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def reason(error: Exception) -> str:
    """What went wrong; if no broker answers, also how to name one."""
    hint = " Name one of its brokers with --bootstrap HOST:PORT or INSYNC_BOOTSTRAP"
    return f"{error}{hint if isinstance(error, NoBrokerError) else ''}"


def empty_directory(path: Path) -> Path:
    """Made if need be; what is in another one is not touched."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise usage_error(f"--keep {path}: {path} is not empty" if path.is_dir() else f"--keep {path}: that is a file")
    path.mkdir(parents=True, exist_ok=True)
    return path.resolve()


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value))


class SafeConsole(Console):
    """Text that is printed with `markup=False` may contain names from a cluster: a terminal obeys none of them."""

    def print(self, *objects: Any, **options: Any) -> None:
        if options.get("markup") is False:
            objects = tuple(
                [printable(item, keep=LINE_CHARACTERS) if isinstance(item, str) else item for item in objects]
            )
        super().print(*objects, **options)


def console() -> Console:
    """As wide as the terminal; wide where nobody looks, so that pipes get whole lines."""
    wide = None if sys.stdout.isatty() or os.environ.get("COLUMNS") else WIDTH_OF_PIPES
    return SafeConsole(width=wide, highlight=False)


def table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Table:
    """Cells are shown as they are: neither rich's markup nor a terminal's escape sequences work in them."""
    made = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    for row in rows:
        made.add_row(*(Text(printable(text(cell))) for cell in row))
    return made


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    console().print(table(columns, rows))


def text(cell: Any) -> str:
    """Lists of brokers without brackets, nothing as a dash."""
    if cell is None or cell == "":
        return "-"
    if isinstance(cell, list | tuple):
        return ",".join(str(item) for item in cell) or "-"
    return str(cell)


def size(count: float | None) -> str:
    """Bytes for people."""
    if count is None:
        return "?"
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
