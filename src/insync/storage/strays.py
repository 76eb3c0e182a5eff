"""B9: directories that hold records and belong to no partition that the metadata names.

They have Kafka's name for them, `<topic>-<partition>.<id>-stray`, are never opened as logs, and stay until an operator
removes or restores them (`insync strays`). Only a log whose deletion was committed is deleted. Its directory is first
renamed to `<topic>-<partition>.<id>-delete`, so that a crash cannot leave half of it under its own name.

Single files are set aside too, next to the log that they were part of: segments that had been synced and that recovery
took out of a log (`-dropped`), and unusable files of the metadata log (`.damaged`). `list_set_aside` lists all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from insync.storage import disk as disks
from insync.storage.disk import Disk
from insync.storage.file_names import DROPPED, LOG

DELETE, STRAY = "-delete", "-stray"
DAMAGED = ".damaged"
"""Suffix of an unusable file of the metadata log."""
CAUSE_FILE = "stray.cause"
"""In a stray directory: why it was set aside, as text."""
MAX_NAME = 255
"""The longest file name of common file systems; a topic's name may have 249 characters."""


def directory_name(partition: str, unique: str, suffix: str) -> str:
    """`partition` is the name of a log's directory, such as orders-0. A long topic name is shortened, as in Kafka."""
    topic, _, index = partition.rpartition("-")
    ending = f"-{index}.{unique}{suffix}"
    return topic[: MAX_NAME - len(ending)] + ending


def is_stray(name: str) -> bool:
    return name.endswith(STRAY)


@dataclass(frozen=True, slots=True)
class SetAside:
    """A directory or a file that no log uses."""

    path: str
    size: int
    cause: str

    @property
    def is_stray(self) -> bool:
        return is_stray(self.path)


def list_set_aside(disk: Disk, root: str, metadata_directory: str) -> list[SetAside]:
    """Everything that a node has set aside and that an operator may delete."""
    items: list[SetAside] = []
    for name in disk.listdir(root):
        path = disks.join(root, name)
        if is_stray(name):
            items.append(SetAside(path, measure_size(disk, path), read_cause(disk, path)))
        else:
            items += list_dropped_segments(disk, path)
    for name in _list_names(disk, metadata_directory):
        path = disks.join(metadata_directory, name)
        if name.endswith(DAMAGED):
            items.append(SetAside(path, measure_size(disk, path), "a damaged file of the metadata log"))
        elif name.endswith(DROPPED):
            items.append(SetAside(path, measure_size(disk, path), _DROPPED_CAUSE))
    return items


def list_dropped_segments(disk: Disk, directory: str) -> list[SetAside]:
    """The segments in a log's directory that recovery took out of the log."""
    paths = [disks.join(directory, name) for name in _list_names(disk, directory) if name.endswith(DROPPED)]
    return [SetAside(path, _file_size(disk, path), _DROPPED_CAUSE) for path in paths]


_DROPPED_CAUSE = "recovery took it out of the log, which had lost records before it"


def _list_names(disk: Disk, directory: str) -> list[str]:
    try:
        return disk.listdir(directory)
    except OSError:
        return []


def read_cause(disk: Disk, stray: str) -> str:
    path = disks.join(stray, CAUSE_FILE)
    return disks.read_all(disk, path).decode(errors="replace").strip() if disk.exists(path) else ""


def set_aside(disk: Disk, directory: str, topic_id: UUID | None, cause: str, owner: str = "") -> str:
    """Rename the directory of a log to that of a stray; returns its new path. The caller syncs the parent.

    `owner`: the partition whose log it is, such as orders-0, if the directory has the name of another one.
    """
    root, _, name = directory.rpartition("/")
    name = owner or name
    number = 0
    unique = f"{number:032x}" if topic_id is None else topic_id.hex
    while disk.exists(target := disks.join(root, directory_name(name, unique, STRAY))):
        number += 1
        unique = f"{number:032x}"
    disk.rename(directory, target)
    try:
        disks.write_plainly(disk, disks.join(target, CAUSE_FILE), cause.encode())
    except OSError as error:
        if not disks.is_read_error(error) and not isinstance(error, FileNotFoundError):
            raise  # else it is not a directory, or there is no permission: only the finding has the cause
    return target


def has_records(disk: Disk, directory: str) -> bool:
    """Whether a segment, or one that recovery took out of the log, may have bytes in it."""
    try:
        return any(LOG in name and disk.size(disks.join(directory, name)) for name in disk.listdir(directory))
    except OSError:
        return True  # it cannot be listed, so there may be some


def measure_size(disk: Disk, path: str) -> int:
    """The bytes in a file, or in all files of a directory, as far as they are accessible."""
    try:
        return sum(_file_size(disk, disks.join(path, name)) for name in disk.listdir(path) if name != CAUSE_FILE)
    except OSError:
        return _file_size(disk, path)


def _file_size(disk: Disk, path: str) -> int:
    try:
        return disk.size(path)
    except OSError:
        return 0
