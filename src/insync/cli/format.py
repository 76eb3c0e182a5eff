"""`insync format FILE`: format a node's log directory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from insync.server import bootstrap_metadata, properties
from insync.server.bootstrap_metadata import ScramArgumentError
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
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            metavar="SCRAM-SHA-256=[name=NAME,password=SECRET]",
            help="A user that a new cluster begins with; repeat for more, and give it for every controller. Also with"
            " iterations, salt and saltedpassword.",
        ),
    ] = None,
) -> None:
    """Write meta.properties into the node's log directory; an existing one is kept."""
    if existing_data and not cluster_id:
        raise typer.BadParameter("--existing-data needs --cluster-id: the id of the cluster that the data belongs to")
    if existing_data and add_scram:
        raise typer.BadParameter(
            "--add-scram is for new clusters. Create users of an existing one with `insync user add`."
        )
    try:
        users = tuple(bootstrap_metadata.parse_scram_argument(text) for text in add_scram or ())
    except ScramArgumentError as error:
        raise typer.BadParameter(str(error)) from None
    chosen = cluster_id or new_cluster_id()
    try:
        settings = properties.load(str(file))
        Path(settings.directory).mkdir(parents=True, exist_ok=True)
        with DirectoryLock(settings.directory):
            format_directory(
                settings.directory,
                cluster_id=chosen,
                node_id=settings.node_id,
                existing_data=existing_data,
                bootstrap=bootstrap_metadata.encode(users) if users else None,
            )
    except (PropertiesError, StartupError, OSError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    typer.echo(f"formatted {settings.directory} for node {settings.node_id} of cluster {chosen}")
