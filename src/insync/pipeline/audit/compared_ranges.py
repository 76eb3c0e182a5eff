"""The range in which each replica is compared with the others: from its log start to its high watermark.

Both are in checkpoint files beside the logs. A log begins at its first segment, or later if the checkpoint says so. If
a broker's high watermarks cannot be read, its replicas are compared as far as they reach below the lowest high
watermark of the others, which is known to be committed. A replica without a checkpointed high watermark is not
compared, because all it holds may still be truncated.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from insync.logdir.files import Replica, Segment
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import Finding, make_finding
from insync.pipeline.audit.inventory import CLEANER_OFFSETS
from insync.storage.checkpoints import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, decode_offsets

_CONSEQUENCES = {
    HIGH_WATERMARKS: "its replicas are compared as far as they reach below the lowest high watermark of the others",
    LOG_STARTS: "its logs are taken to begin with their first segments",
    RECOVERY_POINTS: "how much of its logs was synced is not known",
    CLEANER_OFFSETS: "which of its topics are compacted is known only from the metadata",
}


@dataclass(frozen=True, slots=True)
class ComparedRange:
    """The offsets of a replica that must equal those of the others."""

    broker: int
    topic: str
    partition: int
    start: int
    hwm: int
    own_hwm: bool
    """Whether `hwm` is the replica's own; if it is the others', the log may be shorter."""


def find_damaged_checkpoints(replicas: Sequence[Replica]) -> list[Finding]:
    """Checkpoint files that exist and cannot be read."""
    roots = dict.fromkeys((replica.broker, os.path.dirname(replica.directory)) for replica in replicas)
    return [
        make_finding(
            kinds.CHECKPOINT, broker=broker, file=os.path.join(root, name), detail=f"cannot be read: {consequence}"
        )
        for broker, root in roots
        for name, consequence in _CONSEQUENCES.items()
        if _is_damaged(os.path.join(root, name))
    ]


def list_compared_ranges(replicas: Sequence[Replica], segments: Sequence[Segment]) -> list[ComparedRange]:
    damaged = [finding.file for finding in find_damaged_checkpoints(replicas)]
    unreadable = {os.path.dirname(file) for file in damaged if file.endswith(HIGH_WATERMARKS)}
    log_starts: dict[tuple[int, str, int], int] = {}
    for segment in segments:
        log_starts.setdefault((segment.broker, segment.topic, segment.partition), segment.base)
    hwms: dict[tuple[str, int], list[int]] = {}
    for replica in replicas:
        if replica.hwm:
            hwms.setdefault((replica.topic, replica.partition), []).append(replica.hwm)
    ranges = []
    for replica in replicas:
        where = (replica.broker, replica.topic, replica.partition)
        own_hwm = os.path.dirname(replica.directory) not in unreadable
        lowest = min(hwms.get((replica.topic, replica.partition), ()), default=0)
        start = max(replica.log_start, log_starts.get(where, 0))
        ranges.append(ComparedRange(*where, start, (replica.hwm or 0) if own_hwm else lowest, own_hwm))
    return ranges


def list_directories_without_hwm(replicas: Sequence[Replica]) -> frozenset[str]:
    """Directories without a readable checkpoint of high watermarks."""
    roots = dict.fromkeys(os.path.dirname(replica.directory) for replica in replicas)
    return frozenset(root for root in roots if _read_offsets(os.path.join(root, HIGH_WATERMARKS)) is None)


def _is_damaged(path: str) -> bool:
    return os.path.lexists(path) and _read_offsets(path) is None


def _read_offsets(path: str) -> dict[tuple[str, int], int] | None:
    try:
        with open(path, "rb") as file:
            return decode_offsets(file.read())
    except OSError:
        return None
