"""`quorum-state`: what a voter must not forget, its epoch, its vote in it, and the leader of it (Q4).

The file is Kafka's: one line of JSON. It has version 0, as in a Kafka cluster with static voters, because that version
also names the voters: `voter_set` compares them with those in a node's settings.

It is written and synced before any request or answer that reveals the new state leaves the node: a voter that forgot a
vote could give it twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from insync.quorum.config import NO_NODE
from insync.storage.checkpoints import MAX_EPOCH
from insync.storage.disk import Disk, parent, read_all, write_atomically

FILE_NAME = "quorum-state"


class StateFileError(Exception):
    """The file exists but cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionState:
    epoch: int = 0
    leader_id: int = NO_NODE
    voted_id: int = NO_NODE


def make_directory_durable(disk: Disk, directory: str) -> None:
    """Create the directory and sync its parents up to the root: a synced file in a directory that vanishes is lost."""
    disk.mkdir(directory)
    while directory:
        directory = parent(directory)
        disk.sync_dir(directory)


def load_if_sound(disk: Disk, path: str) -> tuple[ElectionState | None, str]:
    """The stored state, or None and what is wrong with the file; the text is empty if there is no file."""
    if not disk.exists(path):
        return None, ""
    try:
        return decode(read_all(disk, path)), ""
    except StateFileError as error:
        return None, str(error)


def persist(disk: Disk, path: str, state: ElectionState, voters: Sequence[int]) -> None:
    """Q4: durable on return: the vote, and the voters among which it was counted."""
    write_atomically(disk, path, encode(state, voters))


@dataclass(slots=True, eq=False)
class PersistElection:
    """Writes the state off the event loop: a `FlushJob`."""

    disk: Disk
    path: str
    state: ElectionState
    voters: Sequence[int]
    version: int
    began_ms: int

    def run(self) -> None:
        persist(self.disk, self.path, self.state, self.voters)


def encode(state: ElectionState, voters: Sequence[int]) -> bytes:
    fields = {
        "clusterId": "",
        "leaderId": state.leader_id,
        "leaderEpoch": state.epoch,
        "votedId": state.voted_id,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": voter} for voter in voters],
        "data_version": 0,
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def decode(data: bytes) -> ElectionState:
    """Reads both versions of Kafka's file."""
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


def decode_voters(data: bytes) -> tuple[int, ...] | None:
    """The voters that the file names; None if it names none, as version 1 does, or cannot be read."""
    try:
        listed = json.loads(data).get("currentVoters") or ()
        return tuple(sorted(_int32(voter["voterId"]) for voter in listed)) or None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _int32(value: object) -> int:
    if type(value) is not int or not -1 <= value < 2**31:
        raise ValueError(f"{value!r} is neither an epoch nor an id")
    return value
