"""B9: directories that hold records and belong to no partition that the metadata names.

They keep Kafka's name for them, `<topic>-<partition>.<id>-stray`, are never opened as logs, and stay until an operator
removes or restores them (`insync strays`). Only a log whose deletion was committed is deleted: its directory is renamed
to `<topic>-<partition>.<id>-delete` first, so that a crash cannot leave half of it under its own name.

Single files are set aside too, next to the log that they were part of: segments that recovery took out of a log
although they had been synced (`-dropped`), and files of the metadata log that cannot be used (`.damaged`).
`list_set_aside` finds all of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from insync.storage import disk as disks
from insync.storage.disk import Disk
from insync.storage.file_names import DROPPED, LOG

DELETE, STRAY = "-delete", "-stray"
DAMAGED = ".damaged"
"""What the name of a file of the metadata log ends with that is of no use any more."""
CAUSE_FILE = "stray.cause"
"""In a stray: why it was set aside, as text."""
MAX_NAME = 255
"""No file system that we know takes longer names; a topic's may have 249 characters."""


def directory_name(partition: str, unique: str, suffix: str) -> str:
    """`partition` is the name of a log's directory, such as orders-0; a long topic is cut short, as Kafka does."""
    topic, _, index = partition.rpartition("-")
    ending = f"-{index}.{unique}{suffix}"
    return topic[: MAX_NAME - len(ending)] + ending


def is_stray(name: str) -> bool:
    return name.endswith(STRAY)


@dataclass(frozen=True, slots=True)
class SetAside:
    """A directory or a file that no log uses any more."""

    path: str
    size: int
    cause: str

    @property
    def is_stray(self) -> bool:
        return is_stray(self.path)


def list_set_aside(disk: Disk, root: str, metadata_directory: str) -> list[SetAside]:
    """Everything that a node has set aside and that an operator may delete."""
    found: list[SetAside] = []
    for name in disk.listdir(root):
        path = disks.join(root, name)
        if is_stray(name):
            found.append(SetAside(path, size_of(disk, path), read_cause(disk, path)))
        else:
            found += dropped_segments(disk, path)
    for name in _names(disk, metadata_directory):
        path = disks.join(metadata_directory, name)
        if name.endswith(DAMAGED):
            found.append(SetAside(path, size_of(disk, path), "a file of the metadata log that was damaged"))
        elif name.endswith(DROPPED):
            found.append(SetAside(path, size_of(disk, path), _DROPPED_CAUSE))
    return found


def dropped_segments(disk: Disk, directory: str) -> list[SetAside]:
    """The segments in a log's directory that recovery took out of the log."""
    paths = [disks.join(directory, name) for name in _names(disk, directory) if name.endswith(DROPPED)]
    return [SetAside(path, _file_size(disk, path), _DROPPED_CAUSE) for path in paths]


_DROPPED_CAUSE = "recovery took it out of the log, which had lost records before it"


def _names(disk: Disk, directory: str) -> list[str]:
    try:
        return disk.listdir(directory)
    except OSError:
        return []


def read_cause(disk: Disk, stray: str) -> str:
    path = disks.join(stray, CAUSE_FILE)
    return disks.read_all(disk, path).decode(errors="replace").strip() if disk.exists(path) else ""


def set_aside(disk: Disk, directory: str, topic_id: UUID | None, cause: str) -> str:
    """Rename the directory of a log to that of a stray; returns its new path. The caller syncs the parent."""
    root, _, name = directory.rpartition("/")
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
            raise  # else it is no directory, or one without permission: the finding tells the cause in this uptime
    return target


def has_records(disk: Disk, directory: str) -> bool:
    """Whether a segment, or one that recovery has taken out of the log, may have bytes in it."""
    try:
        return any(LOG in name and disk.size(disks.join(directory, name)) for name in disk.listdir(directory))
    except OSError:
        return True  # it cannot be listed, or is no directory: there may be some


def size_of(disk: Disk, path: str) -> int:
    """The bytes in a file, or in all files of a directory, as far as they can be seen."""
    try:
        return sum(_file_size(disk, disks.join(path, name)) for name in disk.listdir(path) if name != CAUSE_FILE)
    except OSError:
        return _file_size(disk, path)


def _file_size(disk: Disk, path: str) -> int:
    try:
        return disk.size(path)
    except OSError:
        return 0
