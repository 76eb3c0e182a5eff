"""B9: what a process makes sure of before it opens a log: the directory is its own, and belongs to this node."""

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
"""In a node's directory while `insync quorum set-voters` is at work, or was interrupted."""


class VoterSetError(StartupError):
    """The settings name other voters than the directory."""


def take(properties: Properties) -> tuple[DirectoryLock, Identity]:
    """Lock the directory and check whose it is. It is not created: a directory is made by formatting it."""
    directory = properties.directory
    if not os.path.isdir(directory):
        check_identity(directory, properties.node_id)  # says what is wrong with it
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
            f"{directory}: a change of the voters was interrupted. Run `insync quorum set-voters` again to complete it."
        )
    stored = voter_set.stored_voters(PosixDisk(directory), METADATA_DIRECTORY)
    if stored is not None and voter_set.is_contradiction(stored, configured):
        raise VoterSetError(
            f"controller.quorum.voters names {listed(configured)}, but the quorum in {directory} has the voters "
            f"{listed(stored)}. Name those; `insync quorum set-voters` changes them while all nodes are stopped."
        )


def listed(ids: tuple[int, ...]) -> str:
    return ",".join(str(voter) for voter in sorted(ids))
