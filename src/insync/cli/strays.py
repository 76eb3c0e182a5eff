"""`insync strays`: what a node has set aside instead of deleting it (B9).

A directory is set aside when no metadata names its partition, or when the node cannot tell whose log it is; a segment,
when recovery took it out of a log; a file of the metadata log, when it is damaged. These commands list all of it,
remove it, and put a directory back in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from insync.cli.common import AsJson, print_json, print_table, size
from insync.cli.exits import usage_error
from insync.quorum.config import METADATA_DIRECTORY
from insync.server.directory_lock import DirectoryLock
from insync.server.startup_error import StartupError
from insync.storage import checkpoints, file_names, log_loader, strays
from insync.storage import disk as disks
from insync.storage.posix import PosixDisk
from insync.storage.strays import SetAside

app = typer.Typer(no_args_is_help=True, help="Directories and files that a node has set aside.")

BROKER = "data"

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The node's log directory, as log.dirs names it.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `insync strays list` shows it.")]


@app.command("list")
def list_strays(directory: Directory, as_json: AsJson = False) -> None:
    """Show everything that was set aside, with its partition, topic id, size and cause."""
    disk = _open(directory)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "partition": _partition(name),
            "topic_id": _topic_id(disk, name),
            "bytes": entry.size,
            "cause": entry.cause,
        }
        for name, entry in _set_aside(disk).items()
    ]
    if as_json:
        print_json(rows)
    elif not rows:
        typer.echo("no strays")
    else:
        print_table(
            ("name", "partition", "topic id", "size", "cause"),
            [[row["name"], row["partition"], row["topic_id"], size(row["bytes"]), row["cause"]] for row in rows],
        )


@app.command("remove")
def remove(
    directory: Directory,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="As `list` shows them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Delete directories and files that were set aside, for good. The node must be stopped."""
    disk = _open(directory)
    with _stopped(directory):
        known = _set_aside(disk)
        chosen = list(known) if every else [_checked(known, name) for name in names or ()]
        if not chosen and not every:
            raise usage_error("name the strays to remove, or --all; `insync strays list` shows them")
        for name in chosen:
            path = directory / known[name].path
            disk.rmtree(known[name].path) if path.is_dir() and not path.is_symlink() else path.unlink()
            typer.echo(f"removed {name}")
        disk.sync_dir(BROKER)


@app.command("restore")
def restore(
    directory: Directory,
    name: Name,
    topic_id: Annotated[
        str, typer.Option(help="Of the topic, as `insync topic describe` shows it; needed if the stray has none.")
    ] = "",
) -> None:
    """Put a stray back as the log of its partition; a log that is there becomes a stray. The node must be stopped.

    The node starts as after an unclean stop: its replica follows the leader, unless the partition has none.
    """
    disk = _open(directory)
    with _stopped(directory):
        entry = _set_aside(disk)[_checked(_set_aside(disk), name)]
        if not entry.is_stray:
            raise usage_error(f"{name} is a single file: only a directory can be restored as the log of its partition")
        path = entry.path
        known = log_loader.read_topic_id(disk, path)
        identity = _parse_id(topic_id) if topic_id else known
        if identity is None:
            raise usage_error(
                f"{name} does not say which topic it is of: give --topic-id, as `insync topic describe` shows it"
            )
        if known is not None and known != identity:
            raise usage_error(f"{name} is of topic {known}, not {identity}")
        target = disks.join(BROKER, _partition(name))
        if disk.exists(target):
            cause = f"{name} was restored in its place"
            typer.echo(f"set aside {strays.set_aside(disk, target, log_loader.read_topic_id(disk, target), cause)}")
        partition = file_names.parse_directory(_partition(name))
        data = checkpoints.encode_partition_metadata(identity, None if partition is None else partition[1])
        disks.write_atomically(disk, disks.join(path, checkpoints.PARTITION_METADATA), data)
        # It is derived from the batches again; an old one may say that the log starts earlier than it does.
        disks.remove_if_exists(disk, disks.join(path, checkpoints.LEADER_EPOCHS))
        disks.remove_if_exists(disk, disks.join(path, strays.CAUSE_FILE))
        disk.rename(path, target)
        disk.sync_dir(BROKER)
    typer.echo(f"restored {target}")


def _open(directory: Path) -> PosixDisk:
    if not (directory / BROKER).is_dir():
        raise usage_error(f"{directory} has no directory {BROKER!r}: give what log.dirs names in the node's properties")
    return PosixDisk(str(directory))


def _stopped(directory: Path) -> DirectoryLock:
    """Holds the lock of the directory, so that no node starts meanwhile."""
    try:
        return DirectoryLock(str(directory))
    except StartupError as error:
        raise usage_error(str(error)) from error


def _set_aside(disk: PosixDisk) -> dict[str, SetAside]:
    """By the name under which a user refers to it: without `data/`, which all but those of the metadata are in."""
    entries = strays.list_set_aside(disk, BROKER, METADATA_DIRECTORY)
    return {entry.path.removeprefix(f"{BROKER}/"): entry for entry in entries}


def _checked(known: Mapping[str, SetAside], name: str) -> str:
    if name not in known:
        raise usage_error(f"there is no stray {name!r}: `insync strays list` shows them")
    return name


def _partition(name: str) -> str:
    """What the directory was called; a topic of more than 210 characters is cut short in it."""
    if not strays.is_stray(name):
        return name.rpartition("/")[0].rpartition("/")[2]
    return name.removesuffix(strays.STRAY).rpartition(".")[0]


def _topic_id(disk: PosixDisk, name: str) -> str:
    directory = name if strays.is_stray(name) else name.partition("/")[0]
    identity = log_loader.read_topic_id(disk, disks.join(BROKER, directory))
    return "" if identity is None else str(identity)


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        found = checkpoints.decode_uuid(text)
        if found is None:
            raise usage_error(f"{text!r} is no topic id") from None
        return found
