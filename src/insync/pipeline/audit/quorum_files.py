"""Checks what a node keeps of the metadata quorum beside the log: votes, progress, snapshots (Q4, Q6, Q8).

`quorum-state` has the newest epoch that a node knew: no batch of its log is of a later one, and no two nodes name
different leaders of one epoch. Ours also have `quorum-offset-checkpoint`: how far the log reached, and the high
watermark. Where there is none, what the newest snapshot covers is known to be committed. Metadata logs are compared as
far as that, like those of any other partition.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from insync.logdir.files import Replica
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import Finding, make_finding
from insync.pipeline.audit.inventory import NodeDirectory, read_if_exists
from insync.pipeline.audit.placement import Placement
from insync.pipeline.health.metadata_log import MetadataLog
from insync.quorum import offset_checkpoint, snapshot_store, state_file
from insync.quorum.offset_checkpoint import QuorumCheckpoint
from insync.quorum.state_file import ElectionState, StateFileError
from insync.storage.strays import DAMAGED
from insync.wire.types import METADATA_TOPIC


@dataclass(frozen=True)
class QuorumReplica:
    """A node's metadata log and the files beside it."""

    broker: int
    log: MetadataLog
    checkpoint_file: str
    checkpoint: QuorumCheckpoint | None
    """None if there is none, as in directories of Apache Kafka, or if it is damaged."""

    @property
    def committed(self) -> int:
        """An offset below which everything is committed."""
        snapshots = [snapshot_store.parse_name(file.name).offset for file in self.log.snapshots]
        known = self.checkpoint.hwm if self.checkpoint is not None else 0
        return max([known, *snapshots])

    @property
    def synced_end(self) -> int:
        """Where the log ended at least; 0 if it is not known."""
        known = self.checkpoint
        return known.log_end.offset if known is not None and known.condition == offset_checkpoint.INTACT else 0

    def to_replica(self) -> Replica:
        return Replica(self.broker, METADATA_TOPIC, 0, str(self.log.path), self.committed, 0)


def list_quorum_replicas(nodes: Sequence[NodeDirectory], placement: Placement) -> list[QuorumReplica]:
    """One for each metadata log, without those of other clusters."""
    replicas: dict[str, QuorumReplica] = {}
    for node in nodes:
        is_foreign = any(root.path in placement.unusable for root in node.roots)
        if node.metadata_log is None or is_foreign:
            continue
        file = os.path.join(node.home, offset_checkpoint.FILE_NAME)
        broker = placement.brokers[node.path]
        replica = QuorumReplica(broker, node.metadata_log, file, _read_checkpoint(file))
        replicas.setdefault(str(node.metadata_log.path), replica)
    return list(replicas.values())


def _read_checkpoint(path: str) -> QuorumCheckpoint | None:
    lines = (read_if_exists(path) or b"").splitlines()
    return next((known for line in reversed(lines) if (known := offset_checkpoint.decode(line)) is not None), None)


def check_quorum_files(
    replicas: Sequence[QuorumReplica], ends: dict[int, int], epochs: dict[int, int]
) -> Iterator[Finding]:
    """`ends` and `epochs`: by broker, the log end and the epoch of the last batch, of those whose logs are intact."""
    leaders: dict[int, tuple[int, int]] = {}
    for replica in replicas:
        state, problem = _read_state(replica, epochs.get(replica.broker, -1))
        path = str(replica.log.path / state_file.FILE_NAME)
        if problem:
            yield _finding(kinds.QUORUM, replica, path, problem)
        elif state is not None and state.leader_id >= 0:
            leader, other = leaders.setdefault(state.epoch, (state.leader_id, replica.broker))
            if leader != state.leader_id:
                detail = f"leader {state.leader_id} of epoch {state.epoch}, by broker {other} it is {leader}"
                yield _finding(kinds.QUORUM, replica, path, detail)
        yield from _check_checkpoint(replica)
        yield from _check_snapshots(replica, ends.get(replica.broker))
        for name in sorted(os.listdir(replica.log.path)):
            if name.endswith(DAMAGED):
                detail = "a damaged file that the node set aside; `insync strays` removes it"
                yield _finding(kinds.STRAY, replica, str(replica.log.path / name), detail)


def _read_state(replica: QuorumReplica, log_epoch: int) -> tuple[ElectionState | None, str]:
    data = read_if_exists(str(replica.log.path / state_file.FILE_NAME))
    if data is None:
        missing = "is missing: the node would not know how it voted"
        return None, missing if log_epoch >= 0 else ""
    try:
        state = state_file.decode(data)
    except StateFileError as error:
        return None, f"cannot be read: {error}"
    newest = max(log_epoch, replica.checkpoint.epoch if replica.checkpoint is not None else -1)
    if state.epoch < newest:
        source = "the log has batches of" if newest == log_epoch else f"{offset_checkpoint.FILE_NAME} has"
        return None, f"epoch {state.epoch}, {source} epoch {newest}: an old copy forgets votes"
    return state, ""


def _check_checkpoint(replica: QuorumReplica) -> Iterator[Finding]:
    if replica.checkpoint is None:
        if os.path.exists(replica.checkpoint_file):
            yield _finding(kinds.QUORUM, replica, replica.checkpoint_file, "no line of it can be read")
    elif replica.checkpoint.condition == offset_checkpoint.DAMAGED:
        detail = "the node lost metadata or its vote, and no leader has restored it yet"
        yield _finding(kinds.QUORUM, replica, replica.checkpoint_file, detail)


def _check_snapshots(replica: QuorumReplica, end: int | None) -> Iterator[Finding]:
    sound = []
    damaged = False
    for file in replica.log.snapshots:
        snapshot = snapshot_store.parse_name(file.name)
        if snapshot_store.decode(read_if_exists(str(file)) or b"") is None:
            yield _finding(kinds.SNAPSHOT, replica, str(file), "is damaged or incomplete", snapshot.offset)
            damaged = True
        elif end is not None and snapshot.offset > end:
            detail = f"covers offsets up to {snapshot.offset}, the log ends at {end}"
            yield _finding(kinds.SNAPSHOT, replica, str(file), detail, snapshot.offset)
        else:
            sound.append(snapshot.offset)
    start = replica.log.start
    if start > 0 and not damaged and not any(offset >= start for offset in sound):
        detail = f"the log starts at offset {start}, and no snapshot covers what was below"
        yield _finding(kinds.SNAPSHOT, replica, str(replica.log.path), detail, start)


def _finding(kind: str, replica: QuorumReplica, file: str, detail: str, offset: int = -1) -> Finding:
    return make_finding(
        kind, broker=replica.broker, topic=METADATA_TOPIC, partition=0, offset=offset, file=file, detail=detail
    )
