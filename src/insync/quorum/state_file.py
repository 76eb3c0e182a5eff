"""What a voter must not forget: its epoch, whom it voted for in it, and who leads it (Q4).

The file is Kafka's `quorum-state`, version 1: one line of JSON. It is written and synced before any answer or request
that tells of the new state leaves the node: a voter that forgot a vote could give it twice.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from uuid import UUID

from insync.quorum.config import NOBODY
from insync.storage.checkpoints import MAX_EPOCH
from insync.storage.disk import Disk, SyncLater, parent, read_all, write_atomically

FILE_NAME = "quorum-state"
NO_DIRECTORY = UUID(int=0)


class StateFileError(Exception):
    """The file is there, and it does not say which vote was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    epoch: int = 0
    leader_id: int = NOBODY
    voted_id: int = NOBODY


def anchor(disk: Disk, directory: str) -> None:
    """Make the directory and its way down from the root durable: a synced file in a directory that vanishes is lost."""
    disk.mkdir(directory)
    while directory:
        directory = parent(directory)
        disk.sync_dir(directory)


def load_if_sound(disk: Disk, path: str) -> tuple[ElectionState | None, str]:
    """The state this replica left, or None and what is wrong with the file; the text is empty if there is no file."""
    if not disk.exists(path):
        return None, ""
    try:
        return decode(read_all(disk, path)), ""
    except StateFileError as error:
        return None, str(error)


def persist(disk: Disk, path: str, state: ElectionState) -> None:
    """Q4: when this returns, a restart finds the vote."""
    write_atomically(disk, path, encode(state))


class PersistElection:
    """A `FlushJob`: both copies of the vote are durable when it has run."""

    __slots__ = ("_disk", "_path", "_state", "_sync_checkpoint")

    def __init__(self, disk: Disk, path: str, state: ElectionState, sync_checkpoint: SyncLater) -> None:
        self._disk = disk
        self._path = path
        self._state = state
        self._sync_checkpoint = sync_checkpoint

    def run(self) -> None:
        self._sync_checkpoint()
        persist(self._disk, self._path, self._state)


def encode(state: ElectionState) -> bytes:
    fields = {
        "leaderId": state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": state.voted_id,
        "votedDirectoryId": _directory(NO_DIRECTORY),
        "data_version": 1,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(data: bytes) -> ElectionState:
    """Both versions of Kafka's file."""
    try:
        fields = json.loads(data)
        if fields["data_version"] not in (0, 1):
            raise StateFileError(f"unknown version {fields['data_version']}")
        epoch, leader_id, voted_id = (_int32(fields[name]) for name in ("leaderEpoch", "leaderId", "votedId"))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StateFileError(f"the file is unreadable ({type(error).__name__})") from error
    if not 0 <= epoch < MAX_EPOCH:
        raise StateFileError(f"epoch {epoch} is out of range")
    return ElectionState(epoch=epoch, leader_id=leader_id, voted_id=voted_id)


def _int32(value: object) -> int:
    if type(value) is not int or not -1 <= value < 2**31:
        raise ValueError(f"{value!r} is no epoch and no id")
    return value


def _directory(value: UUID) -> str:
    """Kafka's way to print a uuid: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
