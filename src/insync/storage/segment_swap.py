"""Replacing a run of closed segments by one new file, so that a crash leaves the old segments or the new one.

The new content is written to `<base>.log.cleaned` and synced. Renaming it to `<base>-<end>.log.swap` commits the swap:
before that, a log that is opened removes the file; after it, a log that is opened completes the swap, which removes the
old segments with a base in [base, end) and gives the file its final name. Each step is durable before the next one, so
whatever a crash keeps, the old segments are either all there or all superseded.

The indexes of the new segment stay in memory until the log is closed; if they are lost they are rebuilt.
"""

from __future__ import annotations

import re

from insync.storage import disk as disks
from insync.storage.disk import Disk
from insync.storage.file_names import INDEX, LOG, TIME_INDEX, file_name, parse_file_name

CLEANED, SWAP = ".cleaned", ".swap"
_SWAP_NAME = re.compile(r"[0-9]{20}-[0-9]{20}\.log\.swap")


def cleaned_path(directory: str, base: int) -> str:
    return disks.join(directory, file_name(base, LOG) + CLEANED)


def swap(disk: Disk, directory: str, base: int, end: int, path: str) -> None:
    """Put the synced file at `path` in the place of the segments with a base in [base, end)."""
    name = f"{base:020d}-{end:020d}{LOG}{SWAP}"
    commit(disk, directory, path, name)
    complete(disk, directory, name)


def commit(disk: Disk, directory: str, path: str, name: str) -> None:
    """Safeguard: from here on the new content counts, and no old file is removed before that is durable."""
    disk.rename(path, disks.join(directory, name))
    disk.sync_dir(directory)


def complete(disk: Disk, directory: str, name: str) -> None:
    """Remove the segments that the swap file replaces, then give it its final name. Can be repeated after a crash."""
    base, end = int(name[:20]), int(name[21:41])
    for old in disk.listdir(directory):
        offsets = [parse_file_name(old, suffix) for suffix in (LOG, INDEX, TIME_INDEX)]
        superseded = any(offset is not None and base <= offset < end for offset in offsets)
        if superseded and old != file_name(base, LOG):  # the final rename replaces that one
            disk.remove(disks.join(directory, old))
    disk.sync_dir(directory)
    disk.rename(disks.join(directory, name), disks.join(directory, file_name(base, LOG)))
    disk.sync_dir(directory)


def resume(disk: Disk, directory: str) -> None:
    """On opening: complete the swaps that were committed, remove the files of those that were not."""
    names = disk.listdir(directory)
    for name in names:
        if name.endswith(CLEANED):
            disk.remove(disks.join(directory, name))
    for name in names:
        if _SWAP_NAME.fullmatch(name):
            complete(disk, directory, name)
