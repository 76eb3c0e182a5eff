"""Replacing a run of closed segments by one compacted file, so that a crash leaves the old ones or the new one.

The new content is written to `<base>.log.cleaned` and synced. Renaming it to `<base>-<end>.log.swap` is the moment of
decision: before it, an opening log throws the file away; after it, an opening log finishes the job, which takes the old
segments with a base in [base, end) out of the way and gives the file its final name. Each step is durable before the
next one, so that whatever a crash keeps, the old segments are either all there or all superseded.

The indexes of the new segment stay in memory until the log is closed; if they are lost they are built again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from insync.storage import disk as disks
from insync.storage.disk import Disk
from insync.storage.file_names import INDEX, LOG, TIME_INDEX, file_name, parse_file_name
from insync.storage.segment import Segment

if TYPE_CHECKING:
    from insync.storage.log import Log

CLEANED, SWAP = ".cleaned", ".swap"
_SWAP_NAME = re.compile(r"[0-9]{20}-[0-9]{20}\.log\.swap")


def cleaned_path(directory: str, base: int) -> str:
    return disks.join(directory, file_name(base, LOG) + CLEANED)


def swap(log: Log, sources: list[Segment], new: Segment, path: str = "") -> None:
    """Put `new`, whose synced bytes are in the cleaned file at `path`, in the place of `sources`."""
    disk, directory = log.disk, log.directory
    first = log.segments.index(sources[0])
    part = slice(first, first + len(sources))
    name = f"{new.base:020d}-{log.segments[part.stop].base:020d}{LOG}{SWAP}"
    for segment in log.forget_segments(part, (new,)):
        segment.close()
    decide(disk, directory, path or cleaned_path(directory, new.base), name)
    finish(disk, directory, name)


def decide(disk: Disk, directory: str, path: str, name: str) -> None:
    """Safeguard: from here on the new content counts, and nothing old goes before that is durable."""
    disk.rename(path, disks.join(directory, name))
    disk.sync_dir(directory)


def finish(disk: Disk, directory: str, name: str) -> None:
    """Remove what the swap file stands for, then give it its place. Done again from the start after a crash."""
    base, end = int(name[:20]), int(name[21:41])
    for old in disk.listdir(directory):
        offsets = [parse_file_name(old, suffix) for suffix in (LOG, INDEX, TIME_INDEX)]
        superseded = any(offset is not None and base <= offset < end for offset in offsets)
        if superseded and old != file_name(base, LOG):  # that one goes when the new one takes its name
            disk.remove(disks.join(directory, old))
    disk.sync_dir(directory)
    disk.rename(disks.join(directory, name), disks.join(directory, file_name(base, LOG)))
    disk.sync_dir(directory)


def settle(disk: Disk, directory: str) -> None:
    """On opening: finish the swaps that were decided, forget the files that were not."""
    names = disk.listdir(directory)
    for name in names:
        if name.endswith(CLEANED):
            disk.remove(disks.join(directory, name))
    for name in names:
        if _SWAP_NAME.fullmatch(name):
            finish(disk, directory, name)
