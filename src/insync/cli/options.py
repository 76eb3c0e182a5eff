"""The options that all commands for a cluster have."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = "localhost:9092"
DEFAULT_TIMEOUT = 10.0

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
Interval = Annotated[float, typer.Option("--interval", min=0.0, metavar="SECONDS", help="Time between two samples.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
