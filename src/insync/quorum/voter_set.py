"""B9: the voters of a quorum, according to one node's disk.

`quorum-state` names the voters among which the last vote was counted. Files of version 1 do not; then the newest
leader-change record of the metadata log does. Neither requires the log to be opened: a node whose settings contradict
its disk must not run, because a majority of other voters may lack what this quorum has committed.
"""

from __future__ import annotations

from insync.quorum import state_file
from insync.storage.disk import Disk, join, read_all

SEGMENT = ".log"


def stored_voters(disk: Disk, directory: str) -> tuple[int, ...] | None:
    """In ascending order; None if this node has never taken part in a quorum."""
    if not disk.exists(directory):
        return None
    path = join(directory, state_file.FILE_NAME)
    voters = state_file.decode_voters(read_all(disk, path)) if disk.exists(path) else None
    return voters or _voters_in_log(disk, directory)


def is_contradiction(stored: tuple[int, ...] | None, configured: tuple[int, ...]) -> bool:
    """B9: whether the voters differ by id; their addresses may change."""
    return stored is not None and sorted(stored) != sorted(configured)


def _voters_in_log(disk: Disk, directory: str) -> tuple[int, ...] | None:
    for name in sorted((name for name in disk.listdir(directory) if name.endswith(SEGMENT)), reverse=True):
        voters = _last_voters(read_all(disk, join(directory, name)))
        if voters:
            return voters
    return None


def _last_voters(data: bytes) -> tuple[int, ...] | None:
    """The voters in the newest leader-change record of these batches, up to the first damaged one."""
    from insync.wire import batch  # rarely needed, and slow to import

    voters = None
    for pos, header in batch.iter_headers(data):
        if not batch.crc_ok(data, pos, header):
            break
        if header.is_control:
            voters = _voters_of(data, pos) or voters
    return voters


def _voters_of(data: bytes, pos: int) -> tuple[int, ...] | None:
    from insync.wire import batch, control
    from insync.wire.errors import MalformedBatchError, MalformedFrameError

    try:
        record = next(batch.records(data, pos))
        if control.control_type(record) != control.LEADER_CHANGE:
            return None
        message = control.control_message(record)
    except (MalformedBatchError, MalformedFrameError, StopIteration):
        return None
    return None if message is None else tuple(sorted(voter.voter_id for voter in message.voters))
