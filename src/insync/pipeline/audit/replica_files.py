"""Checks the small files in the directory of one replica, a task of an audit: epoch checkpoint, snapshots of producers.

Both are derived from the batches and are rebuilt if they are lost. A wrong epoch checkpoint is worse: it decides where
a log is truncated (D1).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass

from insync.logdir import indexes
from insync.logdir.chunks import Chunk, read_chunks
from insync.logdir.files import Segment
from insync.logdir.indexes import EMPTY, IndexFileError
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import Finding, ReplicaKey, make_replica_finding
from insync.pipeline.audit.inventory import read_if_exists
from insync.pipeline.audit.segments import read_epochs
from insync.storage.checkpoints import LEADER_EPOCHS
from insync.storage.file_names import SNAPSHOT, parse_file_name
from insync.storage.producer_state import Producer, decode_snapshot

MAX_PRODUCERS = 100
"""That are looked up in the log, of the newest snapshot."""


@dataclass(frozen=True)
class ReplicaTask:
    broker: int
    topic: str
    partition: int
    directory: str
    segments: tuple[Segment, ...]
    start: int
    end: int
    is_intact: bool
    """Whether the log itself has no findings: if it has, these files cannot be compared with it."""
    was_synced: bool
    """Whether a recovery point says that something of it was synced."""
    stopped_cleanly: bool
    compacted: bool

    @property
    def key(self) -> ReplicaKey:
        return self.broker, self.topic, self.partition


def check_replica_files(task: ReplicaTask) -> list[Finding]:
    return [*_check_epochs(task), *_check_producers(task)]


def _check_epochs(task: ReplicaTask) -> Iterator[Finding]:
    path = os.path.join(task.directory, LEADER_EPOCHS)
    entries = read_epochs(path)
    if entries is None:
        if os.path.lexists(path):
            yield make_replica_finding(kinds.EPOCH, task.key, path, "is damaged, or its entries do not rise")
        elif task.was_synced and task.end > task.start:
            yield make_replica_finding(kinds.EPOCH, task.key, path, "is missing")
    elif entries and task.is_intact and task.stopped_cleanly and entries[-1][1] > task.end:
        detail = f"epoch {entries[-1][0]} starts at offset {entries[-1][1]}, the log ends at {task.end}"
        yield make_replica_finding(kinds.EPOCH, task.key, path, detail, offset=entries[-1][1])
    elif not entries and task.was_synced and task.end > task.start:
        yield make_replica_finding(kinds.EPOCH, task.key, path, "has no entries")


def _check_producers(task: ReplicaTask) -> Iterator[Finding]:
    offsets = [parse_file_name(name, SNAPSHOT) for name in sorted(os.listdir(task.directory))]
    known = [offset for offset in offsets if offset is not None]
    for offset in known:
        path = os.path.join(task.directory, f"{offset:020d}{SNAPSHOT}")
        states = decode_snapshot(read_if_exists(path) or b"")
        if states is None:
            yield make_replica_finding(kinds.PRODUCERS, task.key, path, "is damaged", offset=offset)
            continue
        if not task.is_intact:
            continue
        if offset > task.end:
            yield make_replica_finding(
                kinds.PRODUCERS, task.key, path, f"is ahead of the log, which ends at {task.end}", offset=offset
            )
            continue
        late = [key for key, producer in states.producers.items() if producer.last_offset >= offset]
        if late:
            last = states.producers[late[0]].last_offset
            detail = f"has offset {last} of producer {late[0]}, which is not before the snapshot"
            yield make_replica_finding(kinds.PRODUCERS, task.key, path, detail, offset=offset)
        elif offset == known[-1]:
            problem = _compare_with_log(task, states.producers)
            if problem:
                yield make_replica_finding(kinds.PRODUCERS, task.key, path, problem, offset=offset)


def _compare_with_log(task: ReplicaTask, producers: dict[int, Producer]) -> str:
    wanted = sorted((producer.last_offset, key) for key, producer in producers.items())
    for last_offset, key in [(offset, key) for offset, key in wanted if offset >= task.start][-MAX_PRODUCERS:]:
        held = _find_batch(task, last_offset)
        if held is None:
            continue
        producer = producers[key]
        id_, epoch, base_sequence, base, last = held
        sequence = (base_sequence + last - base) & 0x7FFFFFFF
        # a marker of a later transaction epoch may follow, and a compacted batch keeps its last sequence only
        if id_ != key or (epoch != producer.epoch and epoch > producer.epoch):
            return f"says that producer {key} wrote offset {last_offset}, which producer {id_} did"
        if not task.compacted and (last != last_offset or sequence != producer.last_sequence):
            return (
                f"has sequence {producer.last_sequence} for the last batch of producer {key}, at offset {last_offset}: "
                f"the log has {sequence}"
            )
    return ""


def _find_batch(task: ReplicaTask, offset: int) -> tuple[int, int, int, int, int] | None:
    """(producer id, epoch, first sequence, first offset, last offset) of the batch that holds an offset."""
    segment = next((segment for segment in reversed(task.segments) if segment.base <= offset), None)
    if segment is None:
        return None
    try:
        index = indexes.read_offset_index(segment.stem, segment.base)
    except (IndexFileError, OSError):
        index = EMPTY
    for piece in read_chunks(segment.path, index.floor(offset - 1, 0)):
        if not isinstance(piece, Chunk):
            return None
        headers = piece.headers
        for i in ((headers.base_offset <= offset) & (headers.last_offset >= offset)).nonzero()[0]:
            columns = (headers.producer_id, headers.producer_epoch, headers.base_sequence, headers.base_offset)
            id_, epoch, sequence, base = (int(column[i]) for column in columns)
            return id_, epoch, sequence, base, int(headers.last_offset[i])
        if headers.base_offset[-1] > offset:
            return None
    return None
