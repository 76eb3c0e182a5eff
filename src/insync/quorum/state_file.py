"""What a voter must not forget: its epoch, whom it voted for in it, and who leads it (Q4).

The file is Kafka's `quorum-state`, version 1: one line of JSON. It is written and synced before any answer or request
that tells of the new state leaves the node: a voter that forgot a vote could give it twice.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from uuid import UUID

from insync.errors import InvariantViolation
from insync.quorum.config import NOBODY
from insync.storage.disk import Disk, parent, read_all, write_atomically

FILE_NAME = "quorum-state"
NO_DIRECTORY = UUID(int=0)


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


def load(disk: Disk, path: str) -> ElectionState:
    """The state this replica left; epoch 0, with no leader and no vote, if it never ran."""
    if not disk.exists(path):
        return ElectionState()
    return decode(read_all(disk, path))


def persist(disk: Disk, path: str, state: ElectionState) -> None:
    """Q4: when this returns, a restart finds the vote."""
    write_atomically(disk, path, encode(state))


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
    """Both versions of Kafka's file; a file that is neither means that a vote may be lost, so the node must not run."""
    try:
        fields = json.loads(data)
        if fields["data_version"] not in (0, 1):
            raise InvariantViolation("Q4", f"quorum-state has unknown version {fields['data_version']}")
        numbers = {name: _int32(fields[name]) for name in ("leaderEpoch", "leaderId", "votedId")}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvariantViolation("Q4", f"quorum-state cannot be read: {error!r}") from error
    return ElectionState(epoch=numbers["leaderEpoch"], leader_id=numbers["leaderId"], voted_id=numbers["votedId"])


def _int32(value: object) -> int:
    if type(value) is not int or not -1 <= value < 2**31:
        raise ValueError(f"{value!r} is no epoch and no id")
    return value


def _directory(value: UUID) -> str:
    """Kafka's way to print a uuid: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).rstrip(b"=").decode()
