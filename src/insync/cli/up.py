"""`insync up`: a local cluster of real processes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Annotated

import typer

from insync.server.local_cluster import ClusterError, LocalCluster
from insync.server.profiles import PROFILES
from insync.server.supervisor import Supervisor


def up(
    brokers: Annotated[
        int | None, typer.Option(min=1, help="Brokers; else as many as --data remembers, or 3. More adds brokers.")
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(min=0, help="Controllers of their own, of a new cluster; with 0 the first three brokers vote."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Keep everything here; else a temporary directory.")] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_000, help="Of the first node, the others follow; 0: free ports.")
    ] = 0,
    profile: Annotated[str, typer.Option(help=" or ".join(PROFILES) + ".")] = "fast",
    restart: Annotated[bool, typer.Option(help="Start nodes again that crashed.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON when the cluster is ready.")] = False,
) -> None:
    """Start a cluster on this machine and stop it on Ctrl-C."""
    if profile not in PROFILES:
        raise typer.BadParameter(f"{profile!r} is not one of {', '.join(PROFILES)}")
    began = time.monotonic()
    directory = str(data.resolve()) if data is not None else None

    def when_ready(cluster: LocalCluster) -> None:
        if as_json:
            typer.echo(json.dumps(cluster.describe()))
        else:
            _tell(cluster, time.monotonic() - began)

    try:
        cluster = LocalCluster(
            brokers=brokers, controllers=controllers, directory=directory, port=port, profile=profile
        )
        supervisor = Supervisor(cluster, lambda text: typer.echo(text, err=as_json), restart=restart)
        supervisor.run(lambda: when_ready(cluster))
    except ClusterError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _tell(cluster: LocalCluster, seconds: float) -> None:
    for node in cluster.nodes.values():
        roles = "+".join(node.roles)
        metrics = f"metrics http://127.0.0.1:{node.metrics_port}/metrics"
        typer.echo(f"node {node.id}  {roles:<17}  port {node.port}  pid {node.pid}  {metrics}")
    typer.echo(f"data in {cluster.directory}")
    typer.echo(f"ready after {seconds:.1f} s; Ctrl-C stops the cluster. Clients connect to")
    typer.echo(f"  bootstrap.servers={cluster.bootstrap}")
