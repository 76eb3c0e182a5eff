"""`insync format FILE`: prepare a node's directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from insync.server import properties
from insync.server.properties import PropertiesError
from insync.server.storage_format import FormatError, format_directory, new_cluster_id


def format_node(
    file: Annotated[Path, typer.Argument(help="Properties file of the node.")],
    cluster_id: Annotated[str, typer.Option(help="The same for all nodes of a cluster; else a new one.")] = "",
) -> None:
    """Write meta.properties into the node's log directory; one that exists is left alone."""
    chosen = cluster_id or new_cluster_id()
    try:
        settings = properties.load(str(file))
        format_directory(settings.directory, cluster_id=chosen, node_id=settings.node_id)
    except (PropertiesError, FormatError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo(f"formatted {settings.directory} for node {settings.node_id} of cluster {chosen}")
