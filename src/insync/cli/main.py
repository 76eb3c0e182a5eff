"""The `insync` command. One module per group of commands; this one only puts them together."""

from __future__ import annotations

import typer

from insync import __version__
from insync.cli import (
    consume,
    demo,
    elect,
    explain,
    group,
    health,
    node,
    produce,
    quorum,
    reassign,
    sim,
    top,
    topic,
    up,
)
from insync.cli import (
    format as format_command,
)

app = typer.Typer(
    name="insync",
    help="Kafka's replication protocol, to run, break on purpose, and prove.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.add_typer(sim.app, name="sim")
app.command(name="demo")(demo.demo)
app.command(name="up")(up.up)
app.command(name="node")(node.node)
app.command(name="format")(format_command.format_node)
app.add_typer(topic.app, name="topic")
app.command(name="produce")(produce.produce)
app.command(name="consume")(consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(reassign.app, name="reassign")
app.command(name="elect")(elect.elect)
app.command(name="quorum")(quorum.quorum)
app.command(name="health")(health.health)
app.command(name="explain")(explain.explain)
app.command(name="top")(top.top)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"insync {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Options of every command."""
