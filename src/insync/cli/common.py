"""What all commands that talk to a cluster share: options, running, printing and failing.

Wrong arguments exit with 2 and failures with 1; both print one sentence on stderr.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
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
CONNECT_INTERVAL_S = 0.1
PIPE_WIDTH = 180

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="INSYNC_BOOTSTRAP",
        metavar="HOST:PORT[,...]",
        help="Bootstrap brokers, comma-separated.",
    ),
]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to retry.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def run(bootstrap: str, timeout: float, work: Callable[[Client], Awaitable[T]], *, wait_s: float = 0.0) -> T:
    """Connect, do the work and close; errors of the cluster are printed and become an exit code.

    As long as no broker can be reached, all of it is tried again for `wait_s` seconds.
    """

    async def session() -> T:
        async with Client.connect(bootstrap, timeout_s=timeout, settings=client_config.current_settings()) as client:
            return await work(client)

    async def sessions() -> T:
        deadline = time.monotonic() + wait_s
        while True:
            try:
                return await session()
            except NoBrokerError:
                if time.monotonic() >= deadline:
                    raise
            await asyncio.sleep(CONNECT_INTERVAL_S)

    try:
        return asyncio.run(sessions())
    except AddressError as error:
        raise usage_error(str(error)) from None
    except ClientError as error:
        raise failure(reason(error)) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def delete_all(
    kind: str,
    names: Sequence[str],
    delete: Callable[[Client, str], Awaitable[object]],
    *,
    bootstrap: str,
    timeout: float,
    as_json: bool,
) -> None:
    """Delete one after the other, and say so of each: those before one that fails are gone."""

    async def work(client: Client) -> None:
        for name in names:
            await delete(client, name)
            if not as_json:
                typer.echo(f"{kind} '{printable(name)}' deleted")

    run(bootstrap, timeout, work)
    if as_json:
        print_json({"deleted": list(names)})


def reason(error: Exception) -> str:
    """The error; if no broker answers, also how to name one."""
    hint = " Set its address with --bootstrap HOST:PORT or INSYNC_BOOTSTRAP"
    return f"{error}{hint if isinstance(error, NoBrokerError) else ''}"


def empty_directory(path: Path) -> Path:
    """Create the directory if necessary; one that contains files is refused."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise usage_error(f"--keep {path}: {path} is not empty" if path.is_dir() else f"--keep {path}: is a file")
    path.mkdir(parents=True, exist_ok=True)
    return path.resolve()


def print_json(value: Any) -> None:
    typer.echo(json.dumps(value))


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
    result = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True, show_edge=False)
    for row in rows:
        result.add_row(*(Text(printable(text(cell))) for cell in row))
    return result


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
    """A readable number of bytes."""
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
