"""`insync format FILE`: format a node's log directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from insync.server import properties
from insync.server.directory_lock import DirectoryLock
from insync.server.properties import PropertiesError
from insync.server.startup_error import StartupError
from insync.server.storage_format import format_directory, new_cluster_id


def format_node(
    file: Annotated[Path, typer.Argument(help="The node's properties file.")],
    cluster_id: Annotated[str, typer.Option(help="Cluster id, the same for all nodes; default: a new one.")] = "",
    existing_data: Annotated[
        bool, typer.Option("--existing-data", help="The directory has this node's data but lost meta.properties.")
    ] = False,
) -> None:
    """Write meta.properties into the node's log directory; an existing one is kept."""
    if existing_data and not cluster_id:
        raise typer.BadParameter("--existing-data needs --cluster-id: the id of the cluster that the data belongs to")
    chosen = cluster_id or new_cluster_id()
    try:
        settings = properties.load(str(file))
        Path(settings.directory).mkdir(parents=True, exist_ok=True)
        with DirectoryLock(settings.directory):
            format_directory(
                settings.directory, cluster_id=chosen, node_id=settings.node_id, existing_data=existing_data
            )
    except (PropertiesError, StartupError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo(f"formatted {settings.directory} for node {settings.node_id} of cluster {chosen}")
