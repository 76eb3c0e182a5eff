"""`insync strays`: files and directories that a node has set aside instead of deleting them (B9).

A directory is set aside if the metadata does not contain its partition, or if its partition is unknown; a segment if
recovery removed it from a log; a file of the metadata log if it is damaged. These commands list and remove them, and
restore a directory as the log of its partition.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer

from insync.cli.exits import usage_error
from insync.cli.options import AsJson
from insync.cli.output import print_json, print_table, size
from insync.quorum.config import METADATA_DIRECTORY
from insync.server.directory_lock import DirectoryLock
from insync.server.startup_error import StartupError
from insync.storage import checkpoints, file_names, log_loader, strays
from insync.storage import disk as disks
from insync.storage.posix import PosixDisk
from insync.storage.strays import SetAside

app = typer.Typer(no_args_is_help=True, help="Directories and files that a node has set aside.")

BROKER = "data"

Directory = Annotated[Path, typer.Argument(metavar="DIR", help="The node's log directory, as in log.dirs.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name, as shown by `insync strays list`.")]


@app.command("list")
def list_strays(directory: Directory, as_json: AsJson = False) -> None:
    """List everything that was set aside, with partition, topic id, size and cause."""
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
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Names, as shown by `list`.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Remove all.")] = False,
) -> None:
    """Delete directories and files that were set aside. The node must be stopped."""
    disk = _open(directory)
    with _lock_directory(directory):
        known = _set_aside(disk)
        chosen = list(known) if every else [_check_known(known, name) for name in names or ()]
        if not chosen and not every:
            raise usage_error("give the names of the strays to remove, or --all; `insync strays list` shows them")
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
        str, typer.Option(help="Topic id, as shown by `insync topic describe`; required if the stray has none.")
    ] = "",
) -> None:
    """Restore a stray as the log of its partition; an existing log becomes a stray. The node must be stopped.

    The node starts as after an unclean shutdown: its replica follows the leader, unless the partition has none.
    """
    disk = _open(directory)
    with _lock_directory(directory):
        entry = _set_aside(disk)[_check_known(_set_aside(disk), name)]
        if not entry.is_stray:
            raise usage_error(f"{name} is a single file: only a directory can be restored as the log of its partition")
        path = entry.path
        known = log_loader.read_topic_id(disk, path)
        identity = _parse_id(topic_id) if topic_id else known
        if identity is None:
            raise usage_error(f"{name} has no topic id: give --topic-id, as shown by `insync topic describe`")
        if known is not None and known != identity:
            raise usage_error(f"{name} belongs to topic {known}, not {identity}: leave out --topic-id")
        target = disks.join(BROKER, _partition(name))
        if disk.exists(target):
            cause = f"{name} was restored in its place"
            typer.echo(f"set aside {strays.set_aside(disk, target, log_loader.read_topic_id(disk, target), cause)}")
        partition = file_names.parse_directory(_partition(name))
        data = checkpoints.encode_partition_metadata(identity, None if partition is None else partition[1])
        disks.write_atomically(disk, disks.join(path, checkpoints.PARTITION_METADATA), data)
        # Rebuilt from the batches: an old one may claim that the log starts earlier than it does.
        disks.remove_if_exists(disk, disks.join(path, checkpoints.LEADER_EPOCHS))
        disks.remove_if_exists(disk, disks.join(path, strays.CAUSE_FILE))
        disk.rename(path, target)
        disk.sync_dir(BROKER)
    typer.echo(f"restored {target}")


def _open(directory: Path) -> PosixDisk:
    if not (directory / BROKER).is_dir():
        raise usage_error(
            f"{directory} has no subdirectory {BROKER!r}: give the log.dirs directory of the node's properties"
        )
    return PosixDisk(str(directory))


def _lock_directory(directory: Path) -> DirectoryLock:
    """Locks the directory, so that no node starts meanwhile."""
    try:
        return DirectoryLock(str(directory))
    except StartupError as error:
        raise usage_error(str(error)) from error


def _set_aside(disk: PosixDisk) -> dict[str, SetAside]:
    """By the name that users see: without `data/`, which is the directory of all but metadata files."""
    entries = strays.list_set_aside(disk, BROKER, METADATA_DIRECTORY)
    return {entry.path.removeprefix(f"{BROKER}/"): entry for entry in entries}


def _check_known(known: Mapping[str, SetAside], name: str) -> str:
    if name not in known:
        raise usage_error(f"there is no stray {name!r}: `insync strays list` shows them")
    return name


def _partition(name: str) -> str:
    """The original name of the directory; topics of more than 210 characters are shortened in it."""
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
        topic_id = checkpoints.decode_uuid(text)
        if topic_id is None:
            raise usage_error(f"{text!r} is not a topic id: `insync topic describe` shows it") from None
        return topic_id
