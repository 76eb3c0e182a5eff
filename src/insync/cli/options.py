"""The options that all commands for a cluster have."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_BOOTSTRAP = ""
"""The local cluster that runs, or localhost:9092 (`running_cluster.resolve_bootstrap`)."""
DEFAULT_TIMEOUT = 10.0

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="INSYNC_BOOTSTRAP",
        metavar="HOST:PORT[,...]",
        show_default="the running cluster of `insync up`, or localhost:9092",
        help="Bootstrap brokers, comma-separated, or the name of a local cluster.",
    ),
]
MAX_SECONDS = 86_400.0

Timeout = Annotated[
    float,
    typer.Option("--timeout", min=0.1, max=MAX_SECONDS, metavar="SECONDS", help="How long to retry."),
]
Interval = Annotated[
    float,
    typer.Option("--interval", min=0.0, max=MAX_SECONDS, metavar="SECONDS", help="Time between two samples."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
