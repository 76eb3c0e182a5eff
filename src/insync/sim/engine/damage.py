"""Damage at rest: changes to the files of a partition while its node is down (B5, B9).

Damage to segments loses records of one replica, and its broker must register as unclean. Damage to the small files
loses nothing after a clean stop, because they are rebuilt; after an unclean stop a directory without identity is set
aside, and with it its records.
"""

from __future__ import annotations

from insync.sim.engine.disk import SimDisk
from insync.storage import checkpoints, clean_shutdown

Lost = dict[str, tuple[int, int]]


def damage_partition(disk: SimDisk, root: str, partition: str, kind: str) -> Lost:
    """The sizes before and after of each segment whose records the replica may lose; after is -1 if it is gone."""
    directory = f"{root}/{partition}"
    if not disk.exists(directory):
        return {}
    segments = [f"{directory}/{name}" for name in disk.listdir(directory) if name.endswith(".log")]
    before = {path: disk.size(path) for path in segments}
    clean = disk.exists(f"{root}/{clean_shutdown.FILE}")
    if kind == "directory_removed":
        disk.rmtree(directory)
    elif kind in ("last_segment_emptied", "last_segment_cut") and segments:
        size = before[segments[-1]]
        disk.open(segments[-1]).truncate(0 if kind == "last_segment_emptied" else size - size // 3)
    elif kind == "middle_segment_removed" and len(segments) > 2:
        disk.remove(segments[1])
    elif kind == "identity_removed":
        _remove(disk, f"{directory}/{checkpoints.PARTITION_METADATA}")
    elif kind == "epochs_removed":
        _remove(disk, f"{directory}/{checkpoints.LEADER_EPOCHS}")
    elif kind == "checkpoints_removed":
        for name in (checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS, checkpoints.HIGH_WATERMARKS):
            _remove(disk, f"{root}/{name}")
    elif kind == "clean_file_removed":
        _remove(disk, f"{root}/{clean_shutdown.FILE}")
    disk.sync_all()
    if kind == "identity_removed" and not clean:
        return {path: (size, -1) for path, size in before.items() if size}
    after = {path: disk.size(path) if disk.exists(path) else -1 for path in segments}
    return {path: (size, after[path]) for path, size in before.items() if size and after[path] != size}


def _remove(disk: SimDisk, path: str) -> None:
    if disk.exists(path):
        disk.remove(path)
