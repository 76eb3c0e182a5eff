"""`insync up`: start a local cluster of real processes."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from insync.server.cluster_layout import ADMIN
from insync.server.local_cluster import ClusterError, LocalCluster
from insync.server.profiles import PROFILES
from insync.server.supervisor import Supervisor

if TYPE_CHECKING:
    from insync.server.local_security import LocalSecurity


def up(
    brokers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of brokers; default: as in --data, or 3. A higher number adds brokers."),
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option(min=0, help="Dedicated controllers of a new cluster; with 0, the first three brokers are voters."),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Directory for all data; default: a temporary one.")] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65_000, help="Port of the first node; the others follow. 0: any free ports.")
    ] = 0,
    profile: Annotated[str, typer.Option(help=f"Timeouts of the nodes: {' or '.join(PROFILES)}.")] = "fast",
    secure: Annotated[
        str | None,
        typer.Option(
            metavar="PROTOCOL",
            help="Secure the cluster: sasl_ssl, ssl or sasl_plaintext for clients, TLS between nodes, ACLs. "
            "Creates certificates, an admin and a user.",
        ),
    ] = None,
    restart: Annotated[bool, typer.Option(help="Restart nodes that crashed.")] = True,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON when the cluster is ready.")] = False,
) -> None:
    """Start a cluster on this machine and stop it on Ctrl-C."""
    if profile not in PROFILES:
        raise typer.BadParameter(f"{profile!r} is not one of {', '.join(PROFILES)}")
    started = time.monotonic()
    directory = str(data.resolve()) if data is not None else None

    def when_ready(cluster: LocalCluster) -> None:
        if as_json:
            typer.echo(json.dumps(cluster.describe()))
        else:
            _print_nodes(cluster, time.monotonic() - started)

    try:
        cluster = LocalCluster(
            brokers=brokers, controllers=controllers, directory=directory, port=port, profile=profile, security=secure
        )
        supervisor = Supervisor(cluster, lambda text: typer.echo(text, err=as_json), restart=restart)
        supervisor.run(lambda: when_ready(cluster))
    except ClusterError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error


def _print_nodes(cluster: LocalCluster, seconds: float) -> None:
    for node in cluster.nodes.values():
        roles = "+".join(node.roles)
        metrics = f"metrics http://127.0.0.1:{node.metrics_port}/metrics"
        typer.echo(f"node {node.id}  {roles:<17}  port {node.port}  pid {node.pid}  {metrics}")
    typer.echo(f"data in {cluster.directory}")
    typer.echo(f"ready after {seconds:.1f} s; Ctrl-C stops the cluster. Clients connect to")
    typer.echo(f"  bootstrap.servers={cluster.bootstrap}")
    if cluster.security is not None:
        _print_security(cluster.security, cluster.bootstrap)


def _print_security(security: LocalSecurity, bootstrap: str) -> None:
    """Where the settings of clients are. Passwords are in these files only."""
    typer.echo(f"  security.protocol={security.protocol.name}")
    typer.echo("")
    for user in security.users:
        rights = "may do everything" if user == ADMIN else "may use topics and groups"
        typer.echo(f"user {user} {rights}. Settings for")
        typer.echo(f"  Java, Spark, insync --client-config   {security.client_file(user, 'properties')}")
        typer.echo(f"  librdkafka, kcat -F                   {security.client_file(user, 'conf')}")
    file = security.client_file(ADMIN, "properties")
    typer.echo("")
    typer.echo(f"  insync topic create orders -b {bootstrap.partition(',')[0]} --client-config {file}")
