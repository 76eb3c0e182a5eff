"""B9: directories that hold records and belong to no partition that the metadata names.

They keep Kafka's name for them, `<topic>-<partition>.<id>-stray`, are never opened as logs, and stay until an operator
removes or restores them (`insync strays`). Only a log whose deletion was committed is deleted: its directory is renamed
to `<topic>-<partition>.<id>-delete` first, so that a crash cannot leave half of it under its own name.
"""

from __future__ import annotations

from uuid import UUID

from insync.storage import disk as disks
from insync.storage.disk import Disk
from insync.storage.segment import LOG

DELETE, STRAY = "-delete", "-stray"
MAX_NAME = 255
"""No file system that we know takes longer names; a topic's may have 249 characters."""


def directory_name(partition: str, unique: str, suffix: str) -> str:
    """`partition` is the name of a log's directory, such as orders-0; a long topic is cut short, as Kafka does."""
    topic, _, index = partition.rpartition("-")
    ending = f"-{index}.{unique}{suffix}"
    return topic[: MAX_NAME - len(ending)] + ending


def is_stray(name: str) -> bool:
    return name.endswith(STRAY)


def set_aside(disk: Disk, directory: str, topic_id: UUID | None) -> str:
    """Rename the directory of a log to that of a stray; returns its new path. The caller syncs the parent."""
    root, _, name = directory.rpartition("/")
    number = 0
    unique = f"{number:032x}" if topic_id is None else topic_id.hex
    while disk.exists(target := disks.join(root, directory_name(name, unique, STRAY))):
        number += 1
        unique = f"{number:032x}"
    disk.rename(directory, target)
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
        return sum(_file_size(disk, disks.join(path, name)) for name in disk.listdir(path))
    except OSError:
        return _file_size(disk, path)


def _file_size(disk: Disk, path: str) -> int:
    try:
        return disk.size(path)
    except OSError:
        return 0
