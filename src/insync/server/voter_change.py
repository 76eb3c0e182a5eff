"""Changes the voters of a cluster whose nodes are all stopped (B9), without losing committed metadata.

Every committed entry is on a majority of the old voters, so the most up-to-date of their logs has all of
them (the rule by which votes are given, Q4). Every new voter gets that log, and then any majority of new voters has it.

A change is made in this order, with all directories locked:

1. Every old voter's log is read to its end; a damaged or missing one is an error. The log to copy is chosen.
2. Every node's directory gets `voter-change.json`, the plan. A node that finds it refuses to start.
3. The metadata log of each new voter is replaced by the copy.
4. Every node's `quorum-state` gets the new voters, and an epoch above all earlier ones: no old vote counts in it. The
   new voters' `quorum-offset-checkpoint` records what they hold now (Q8).
5. `cluster.json` gets the new voters.
6. The plans are removed.

An interruption before 3 has changed nothing: not all directories have a plan, and `cluster.json` names the old voters.
From 3 to 5 all have one, so no node can run, and the same command continues the plan. In 6 `cluster.json` names the
new voters, and the remaining plans are removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from insync.quorum import damage, offset_checkpoint, snapshot_store, state_file, voter_set
from insync.quorum.config import METADATA_DIRECTORY
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.offset_checkpoint import DAMAGED, INTACT, CheckpointFile, QuorumCheckpoint
from insync.quorum.state_file import ElectionState
from insync.server import cluster_layout
from insync.server.cluster_layout import Layout, data_directory
from insync.server.directory_lock import DirectoryLock
from insync.server.ownership import VOTER_CHANGE, format_ids
from insync.server.startup_error import StartupError
from insync.server.storage_format import REBUILDING, check_identity, format_directory, is_formatted
from insync.storage import disk as disks
from insync.storage.checkpoints import MAX_EPOCH
from insync.storage.posix import PosixDisk
from insync.wire import batch

Say = Callable[[str], None]

_NEW = f"{METADATA_DIRECTORY}.new"
_OLD = f"{METADATA_DIRECTORY}.old"


class VoterChangeError(StartupError):
    """The voters cannot be changed."""


@dataclass(frozen=True, slots=True)
class Change:
    """The content of `voter-change.json`."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    source: int
    """The node whose log the new voters get."""
    epoch: int


@dataclass(frozen=True, slots=True)
class Replica:
    """The quorum files of one node, read without opening its log."""

    node_id: int
    epoch: int
    """The highest epoch that it has seen."""
    end: OffsetAndEpoch

    @property
    def up_to_date(self) -> tuple[int, int]:
        return (self.end.epoch, self.end.offset)


def set_voters(directory: Path, voters: Sequence[int], say: Say = print) -> None:
    """Make `voters` the voters of the cluster in this directory, or complete a change to them that was interrupted."""
    wanted = tuple(sorted(set(voters)))
    if not directory.is_dir():
        raise VoterChangeError(f"There is no directory {directory}. Name the directory of the cluster with --data.")
    with ExitStack() as locks:
        locks.enter_context(DirectoryLock(str(directory)))
        layout = cluster_layout.load(directory)
        if layout is None:
            raise VoterChangeError(f"{directory} holds no cluster. Name the directory of `insync up --data`.")
        for node in layout.nodes:
            data = data_directory(directory, node.id)
            if data.is_dir():
                locks.enter_context(DirectoryLock(str(data)))
        layout = _finish_interrupted(directory, layout, wanted, say)
        if layout.voters == wanted:
            say(f"the voters are {format_ids(wanted)}")
            return
        _check_wanted(directory, layout, wanted)
        change = _plan(directory, layout, wanted)
        say(f"node {change.source} has the most up-to-date metadata log; the other voters get a copy")
        for member in _members(directory, layout):
            _write_plan(directory, member, change)
        _carry_out(directory, layout, change)
        say(f"the voters are {format_ids(wanted)}; they were {format_ids(layout.voters)}")


def rebuild_voter(directory: Path, layout: Layout, node_id: int) -> int | None:
    """Format the empty directory of a voter, with the metadata log of another; returns the node it was copied from.

    A voter without its log could elect a leader that lacks committed entries. The others must be a majority of all
    voters, and intact: then one of them has everything. None if they hold nothing yet either.
    """
    others = [voter for voter in layout.voters if voter != node_id]
    replicas = [inspect(data_directory(directory, voter), voter) for voter in others if _is_formatted(directory, voter)]
    if len(replicas) <= len(layout.voters) // 2:
        raise VoterChangeError(
            f"{data_directory(directory, node_id)} is empty, and so are those of other voters: only {len(replicas)} of "
            f"{len(layout.voters)} are left, not a majority. Restore the directories of the voters "
            f"{format_ids(layout.voters)}; without them the cluster's topics are lost."
        )
    source = max(replicas, key=lambda replica: (replica.up_to_date, -replica.node_id))
    ran = any(replica.epoch for replica in replicas)
    disk = PosixDisk(str(data_directory(directory, node_id)))
    disks.write_atomically(disk, REBUILDING, b"")
    if ran:
        _copy_log(directory, source.node_id, node_id)
        epoch = max(replica.epoch for replica in replicas) + 1
        _write_quorum_state(Path(disk.root), epoch, layout.voters, holds=source.end)
    format_directory(disk.root, cluster_id=layout.cluster_id, node_id=node_id)
    disk.remove(REBUILDING)
    return source.node_id if ran else None


def inspect(data: Path, node_id: int) -> Replica:
    """Read a node's quorum files; VoterChangeError if anything is damaged. Nothing is repaired here."""
    disk = PosixDisk(str(data))
    if not disk.exists(METADATA_DIRECTORY):
        return Replica(node_id, 0, OffsetAndEpoch(0, 0))
    where = data / METADATA_DIRECTORY
    start = OffsetAndEpoch(0, 0)
    for name in disk.listdir(METADATA_DIRECTORY):
        if name.endswith(snapshot_store.SUFFIX):
            if snapshot_store.decode((where / name).read_bytes()) is None:
                raise VoterChangeError(f"{where / name} is damaged. Start and stop the cluster once to repair it.")
            start = max(start, snapshot_store.parse_name(name))
    end = max(_log_end(where, start), start, key=lambda end: (end.epoch, end.offset))
    checkpoint = CheckpointFile(disk, offset_checkpoint.FILE_NAME).load()
    if checkpoint is not None and (checkpoint.condition == DAMAGED or damage.is_shorter(end, checkpoint.log_end)):
        raise VoterChangeError(
            f"{where} has lost metadata: it ends at offset {end.offset}, but offset {checkpoint.log_end.offset} was "
            "acknowledged. Start the cluster once; the other voters restore it."
        )
    seen = 0 if checkpoint is None else checkpoint.epoch
    return Replica(node_id, max(_persisted_epoch(data), seen, end.epoch), end)


def _log_end(where: Path, start: OffsetAndEpoch) -> OffsetAndEpoch:
    """The end of an intact log: every byte belongs to a sound batch, and no offset is missing."""
    offset, epoch = -1, 0
    for name in sorted(name for name in os.listdir(where) if name.endswith(voter_set.SEGMENT)):
        data, consumed = (where / name).read_bytes(), 0
        for pos, header in batch.iter_headers(data):
            follows = offset < 0 or header.base_offset == offset
            if not follows or header.leader_epoch < epoch or not batch.crc_ok(data, pos, header):
                raise VoterChangeError(
                    f"{where / name} is damaged at byte {pos}. Start the cluster once; the other voters restore it."
                )
            if offset < 0 and header.base_offset > start.offset:
                raise VoterChangeError(
                    f"{where} begins at {header.base_offset}, and there is no snapshot of what was before. Start the "
                    "cluster once; the other voters restore it."
                )
            offset, epoch, consumed = header.next_offset, header.leader_epoch, pos + header.length
        if consumed != len(data):
            raise VoterChangeError(
                f"{where / name} is damaged at byte {consumed}, or the node was killed during a write. "
                "Start and stop the cluster once, and try again."
            )
    return OffsetAndEpoch(max(offset, 0), epoch)


# --- the plan --------------------------------------------------------------------------------------------------------


def _check_wanted(directory: Path, layout: Layout, wanted: tuple[int, ...]) -> None:
    known = _members(directory, layout)
    unknown = tuple(voter for voter in wanted if voter not in known)
    if not wanted or unknown:
        raise VoterChangeError(
            f"The cluster in {directory} has the nodes {format_ids(known)}, and no node {format_ids(unknown)}. "
            "`insync up --brokers N` adds brokers."
        )
    idle = [node.id for node in layout.nodes if not node.is_broker and node.id not in wanted]
    if idle:
        raise VoterChangeError(f"Node {idle[0]} is not a broker, so it must remain a voter. Include it.")


def _plan(directory: Path, layout: Layout, wanted: tuple[int, ...]) -> Change:
    members = _members(directory, layout)
    missing = [voter for voter in layout.voters if voter not in members]
    if missing:
        raise VoterChangeError(
            f"{data_directory(directory, missing[0])} is missing or empty. Node {missing[0]} is one of the voters "
            f"{format_ids(layout.voters)}, and all of them are needed. Restore it, or start the cluster once."
        )
    for member in members:
        check_identity(str(data_directory(directory, member)), member, layout.cluster_id)
        _check_stored(directory, member, layout.voters)
    replicas = [inspect(data_directory(directory, voter), voter) for voter in layout.voters]
    others = [_persisted_epoch(data_directory(directory, member)) for member in members]
    source = max(replicas, key=lambda replica: (replica.up_to_date, -replica.node_id))
    epoch = max([*(replica.epoch for replica in replicas), *others]) + 1
    if epoch > MAX_EPOCH:
        raise VoterChangeError(
            f"The quorum in {directory} has reached the last possible epoch, {epoch - 1}; its voters cannot be changed."
        )
    return Change(layout.voters, wanted, source.node_id, epoch)


def _persisted_epoch(data: Path) -> int:
    """The epoch in a node's `quorum-state`, voter or not."""
    path = disks.join(METADATA_DIRECTORY, state_file.FILE_NAME)
    state, error = state_file.load_if_sound(PosixDisk(str(data)), path)
    if error:
        raise VoterChangeError(f"{data / path} is damaged: {error}. Start the cluster once to restore it.")
    return 0 if state is None else state.epoch


def _check_stored(directory: Path, node_id: int, voters: tuple[int, ...]) -> None:
    data = data_directory(directory, node_id)
    stored = voter_set.stored_voters(PosixDisk(str(data)), METADATA_DIRECTORY)
    if stored is not None and voter_set.is_contradiction(stored, voters):
        raise VoterChangeError(
            f"{data} belongs to a quorum of {format_ids(stored)}, not of {format_ids(voters)}. Restore the right one."
        )


def _finish_interrupted(directory: Path, layout: Layout, wanted: tuple[int, ...], say: Say) -> Layout:
    """Complete or drop an interrupted change, and return the layout after it."""
    members = _members(directory, layout)
    plans = {member: plan for member in members if (plan := _read_plan(directory, member)) is not None}
    if not plans:
        return layout
    change = next(iter(plans.values()))
    if layout.voters == change.after:
        _remove_plans(directory, layout)
        return layout
    if len(plans) < len(members):  # it had changed nothing yet, and nodes may have run since
        _remove_plans(directory, layout)
        return layout
    if any(plan != change for plan in plans.values()) or change.before != layout.voters:
        raise VoterChangeError(
            f"The files {VOTER_CHANGE} in {directory} contradict each other. Restore a backup of the cluster."
        )
    if change.after != wanted:
        raise VoterChangeError(
            f"A change to the voters {format_ids(change.after)} was interrupted. Complete it first: "
            f"insync quorum set-voters {format_ids(change.after)} --data {directory}"
        )
    say(f"completing the interrupted change from {format_ids(change.before)} to {format_ids(change.after)}")
    return _carry_out(directory, layout, change)


def _carry_out(directory: Path, layout: Layout, change: Change) -> Layout:
    """Steps 3 to 6. Each can be repeated."""
    for voter in change.after:
        if voter != change.source:
            _copy_log(directory, change.source, voter)
    end = inspect(data_directory(directory, change.source), change.source).end
    for member in _members(directory, layout):
        data = data_directory(directory, member)
        if (data / METADATA_DIRECTORY).is_dir():
            _write_quorum_state(data, change.epoch, change.after, holds=end if member in change.after else None)
    changed = cluster_layout.with_voters(layout, change.after)
    cluster_layout.save(directory, changed)
    _remove_plans(directory, changed)
    return changed


# --- files -----------------------------------------------------------------------------------------------------------


def _members(directory: Path, layout: Layout) -> tuple[int, ...]:
    """The nodes whose directories are formatted."""
    return tuple(node.id for node in layout.nodes if _is_formatted(directory, node.id))


def _is_formatted(directory: Path, node_id: int) -> bool:
    return is_formatted(str(data_directory(directory, node_id)))


def _copy_log(directory: Path, source: int, target: int) -> None:
    """The copy is complete and synced before it replaces the target's log. The caller writes `quorum-state` next."""
    disk = PosixDisk(str(data_directory(directory, target)))
    copy_from = data_directory(directory, source) / METADATA_DIRECTORY
    for leftover in (_NEW, _OLD):
        if disk.exists(leftover):
            disk.rmtree(leftover)
    disk.mkdir(_NEW)
    os.chmod(data_directory(directory, target) / _NEW, 0o700)
    for name in sorted(os.listdir(copy_from)):
        if name != state_file.FILE_NAME and (copy_from / name).is_file():
            disks.write_plainly(disk, f"{_NEW}/{name}", (copy_from / name).read_bytes(), sync=True)
    disk.sync_dir(_NEW)
    if disk.exists(METADATA_DIRECTORY):
        disk.rename(METADATA_DIRECTORY, _OLD)
    disk.rename(_NEW, METADATA_DIRECTORY)
    state_file.make_directory_durable(disk, METADATA_DIRECTORY)
    if disk.exists(_OLD):
        disk.rmtree(_OLD)


def _write_quorum_state(data: Path, epoch: int, voters: tuple[int, ...], holds: OffsetAndEpoch | None) -> None:
    """`holds`: the end of the log that a voter got. Q8: from now on it must not have less."""
    disk = PosixDisk(str(data))
    path = disks.join(METADATA_DIRECTORY, state_file.FILE_NAME)
    state_file.persist(disk, path, ElectionState(epoch=epoch), voters)
    if holds is not None:
        checkpoint = QuorumCheckpoint(condition=INTACT, log_end=holds, epoch=epoch)
        CheckpointFile(disk, offset_checkpoint.FILE_NAME).store(checkpoint)


def _write_plan(directory: Path, node_id: int, change: Change) -> None:
    data = data_directory(directory, node_id)
    disks.write_atomically(PosixDisk(str(data)), VOTER_CHANGE, json.dumps(asdict(change)).encode())


def _read_plan(directory: Path, node_id: int) -> Change | None:
    path = data_directory(directory, node_id) / VOTER_CHANGE
    if not path.exists():
        return None
    try:
        fields: Mapping[str, object] = json.loads(path.read_bytes())
        before, after = (tuple(int(voter) for voter in fields[name]) for name in ("before", "after"))  # type: ignore[attr-defined]
        return Change(before, after, int(fields["source"]), int(fields["epoch"]))  # type: ignore[call-overload]
    except (ValueError, KeyError, TypeError) as error:
        raise VoterChangeError(f"{path} is damaged: {error!r}. Restore a backup of the cluster.") from error


def _remove_plans(directory: Path, layout: Layout) -> None:
    for member in _members(directory, layout):
        disk = PosixDisk(str(data_directory(directory, member)))
        if disk.exists(VOTER_CHANGE):
            disk.remove(VOTER_CHANGE)
            disk.sync_dir("")
