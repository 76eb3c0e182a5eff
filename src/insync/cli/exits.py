"""How commands fail: one sentence on stderr, and exit code 2 for wrong arguments, 1 for everything else.

raise usage_error("--brokers: ...")

An exception that no command expects becomes a sentence too (`errors_reported`), with an exit code of its own.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from insync.escaping import printable

_USAGE_ERRORS = [kind for kind in typer.BadParameter.__mro__ if kind.__name__ in ("ClickException", "TyperException")]
"""Of click, or of the copy of it in newer releases of typer, which do not export them."""
_ENDS: tuple[Any, ...] = (typer.Exit, typer.Abort, *_USAGE_ERRORS)
"""How a command ends by itself: typer prints these."""
DEFECT = 70
"""The exit code of a defect of insync, as sysexits.h has it."""
TRACEBACK_VARIABLE = "INSYNC_TRACEBACK"

LINE_CHARACTERS = "\n\t"
"""Control characters that may reach a terminal; all others are escaped."""


def usage_error(message: str) -> typer.Exit:
    """The arguments make no sense: print why; exit code 2."""
    typer.echo(f"insync: {printable(message, keep=LINE_CHARACTERS)}", err=True)
    return typer.Exit(2)


def failure(message: str) -> typer.Exit:
    """The command did not succeed: print why; exit code 1."""
    typer.echo(f"insync: {printable(message, keep=LINE_CHARACTERS)}", err=True)
    return typer.Exit(1)


def file_problem(error: OSError, path: Path | str | None = None) -> str:
    """`FILE: No such file or directory`."""
    name = error.filename if path is None else path
    reason = error.strerror or str(error)
    return reason if name is None else f"{name}: {reason}"


@contextmanager
def errors_reported() -> Iterator[None]:
    """Print an unexpected exception as one sentence. The variable INSYNC_TRACEBACK shows where it comes from."""
    try:
        yield
    except BrokenPipeError:  # the reader of a pipe has ended, which is no error
        raise
    except _ENDS:
        raise
    except OSError as error:
        _print_traceback()
        raise failure(file_problem(error)) from None
    except UnicodeEncodeError as error:
        _print_traceback()
        raise usage_error(f"{error.object!r} is not valid UTF-8 text") from None
    except Exception as error:
        _print_traceback()
        place = traceback.extract_tb(error.__traceback__)[-1]
        typer.echo(
            f"insync: defect: {printable(f'{type(error).__name__}: {error}', keep=LINE_CHARACTERS)} "
            f"({Path(place.filename).name}:{place.lineno}). Please report it with the output of the same command with "
            f"{TRACEBACK_VARIABLE}=1",
            err=True,
        )
        raise typer.Exit(DEFECT) from None


def _print_traceback() -> None:
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exc()
