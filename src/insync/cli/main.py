"""The `insync` command. One module per group of commands; this one only puts them together."""

from __future__ import annotations

import typer

from insync import __version__
from insync.cli import demo, sim

app = typer.Typer(
    name="insync",
    help="Kafka's replication protocol, to run, break on purpose, and prove.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.add_typer(sim.app, name="sim")
app.command(name="demo")(demo.demo)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"insync {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of every command."""
