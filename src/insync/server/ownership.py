"""B9: before a process opens a log, it locks the directory and checks that it belongs to this node."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from insync.quorum import voter_set
from insync.quorum.config import METADATA_DIRECTORY
from insync.server.directory_lock import DirectoryLock
from insync.server.startup_error import StartupError
from insync.server.storage_format import Identity, check_identity
from insync.storage.posix import PosixDisk

if TYPE_CHECKING:
    from insync.server.properties import Properties

VOTER_CHANGE = "voter-change.json"
"""In a node's directory while `insync quorum set-voters` is running, or after it was interrupted."""


class VoterSetError(StartupError):
    """The settings and the directory name different voters."""


def lock_and_check(properties: Properties) -> tuple[DirectoryLock, Identity]:
    """Lock the directory and check its identity and voters. It must exist: `insync format` creates it."""
    directory = properties.directory
    if not os.path.isdir(directory):
        check_identity(directory, properties.node_id)  # raises with what is wrong
    lock = DirectoryLock(directory)
    try:
        identity = check_identity(directory, properties.node_id)
        check_voters(directory, tuple(sorted(properties.voters)))
    except BaseException:
        lock.release()
        raise
    return lock, identity


def check_voters(directory: str, configured: tuple[int, ...]) -> None:
    """B9: a majority of other voters may lack what this quorum has committed."""
    if os.path.exists(os.path.join(directory, VOTER_CHANGE)):
        raise VoterSetError(
            f"A change of the voters was interrupted in {directory}. Complete it: run `insync quorum set-voters` again."
        )
    stored = voter_set.stored_voters(PosixDisk(directory), METADATA_DIRECTORY)
    if stored is not None and voter_set.is_contradiction(stored, configured):
        raise VoterSetError(
            f"controller.quorum.voters names {format_ids(configured)}, but the quorum in {directory} has the voters "
            f"{format_ids(stored)}. Correct the setting, or stop all nodes and use `insync quorum set-voters`."
        )


def format_ids(ids: tuple[int, ...]) -> str:
    return ",".join(str(voter) for voter in sorted(ids))
