"""`insync strays`: log directories of a stopped node that no partition uses (B9).

A node sets a directory aside instead of deleting it when no metadata names its partition, or when it cannot tell whose
log it is. These commands list such directories, remove them, and put one back in its place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from insync.cli.common import AsJson, print_json, print_table, size, wrong
from insync.server.directory_lock import DirectoryLock
from insync.server.startup_error import StartupError
from insync.storage import checkpoints, opening, strays
from insync.storage import disk as disks
from insync.storage.posix import PosixDisk

app = typer.Typer(no_args_is_help=True, help="Log directories of a stopped node that no partition uses.")

BROKER = "data"

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The node's log directory, as log.dirs names it.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="As `insync strays list` shows it.")]


@app.command("list")
def list_strays(directory: Directory, as_json: AsJson = False) -> None:
    """Show every stray with its partition, topic id and size."""
    disk = _open(directory)
    rows: list[dict[str, Any]] = [
        {
            "name": name,
            "partition": _partition(name),
            "topic_id": _topic_id(disk, name),
            "bytes": strays.size_of(disk, disks.join(BROKER, name)),
        }
        for name in _names(disk)
    ]
    if as_json:
        print_json(rows)
    elif not rows:
        typer.echo("no strays")
    else:
        print_table(
            ("name", "partition", "topic id", "size"),
            [[row["name"], row["partition"], row["topic_id"], size(row["bytes"])] for row in rows],
        )


@app.command("remove")
def remove(
    directory: Directory,
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="As `list` shows them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
) -> None:
    """Delete strays for good. The node must be stopped."""
    disk = _open(directory)
    with _stopped(directory):
        chosen = _names(disk) if every else [_checked(disk, name) for name in names or ()]
        if not chosen and not every:
            raise wrong("name the strays to remove, or --all; `insync strays list` shows them")
        for name in chosen:
            disk.rmtree(disks.join(BROKER, name))
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
        path = disks.join(BROKER, _checked(disk, name))
        known = opening.read_topic_id(disk, path)
        identity = _parse_id(topic_id) if topic_id else known
        if identity is None:
            raise wrong(
                f"{name} does not say which topic it is of: give --topic-id, as `insync topic describe` shows it"
            )
        if known is not None and known != identity:
            raise wrong(f"{name} is of topic {known}, not {identity}")
        target = disks.join(BROKER, _partition(name))
        if disk.exists(target):
            typer.echo(f"set aside {strays.set_aside(disk, target, opening.read_topic_id(disk, target))}")
        data = checkpoints.encode_partition_metadata(identity)
        disks.write_atomically(disk, disks.join(path, checkpoints.PARTITION_METADATA), data)
        # It is derived from the batches again; an old one may say that the log starts earlier than it does.
        disks.remove_if_exists(disk, disks.join(path, checkpoints.LEADER_EPOCHS))
        disk.rename(path, target)
        disk.sync_dir(BROKER)
    typer.echo(f"restored {target}")


def _open(directory: Path) -> PosixDisk:
    if not (directory / BROKER).is_dir():
        raise wrong(f"{directory} has no directory {BROKER!r}: give what log.dirs names in the node's properties")
    return PosixDisk(str(directory))


def _stopped(directory: Path) -> DirectoryLock:
    """Holds the lock of the directory, so that no node starts meanwhile."""
    try:
        return DirectoryLock(str(directory))
    except StartupError as error:
        raise wrong(str(error)) from error


def _names(disk: PosixDisk) -> list[str]:
    return [name for name in disk.listdir(BROKER) if strays.is_stray(name)]


def _checked(disk: PosixDisk, name: str) -> str:
    if name not in _names(disk):
        raise wrong(f"there is no stray {name!r}: `insync strays list` shows them")
    return name


def _partition(name: str) -> str:
    """What the directory was called; a topic of more than 210 characters is cut short in it."""
    return name.removesuffix(strays.STRAY).rpartition(".")[0]


def _topic_id(disk: PosixDisk, name: str) -> str:
    identity = opening.read_topic_id(disk, disks.join(BROKER, name))
    return "" if identity is None else str(identity)


def _parse_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        found = checkpoints.decode_uuid(text)
        if found is None:
            raise wrong(f"{text!r} is no topic id") from None
        return found
