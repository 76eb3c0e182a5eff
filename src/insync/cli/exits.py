"""How commands fail: one sentence on stderr, and exit code 2 for wrong arguments, 1 for everything else.

raise usage_error("--brokers: ...")
"""

from __future__ import annotations

import typer

from insync.escaping import printable

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
