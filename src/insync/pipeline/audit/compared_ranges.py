"""From where to where each replica is held against the others: from where its log begins, to its high watermark.

Both are in small files beside the logs. A log begins where its first segment does, or later if the file says so. A
broker whose high watermarks cannot be read is no reason to look away: its replicas are compared as far as they reach
below the lowest high watermark of the others, who know that much to be committed. One who has not written any down yet
is compared to nothing, because what it holds may still be taken back.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from insync.logdir.files import Replica, Segment
from insync.pipeline.audit import findings as kinds
from insync.pipeline.audit.findings import Finding
from insync.storage.checkpoints import HIGH_WATERMARKS, LOG_STARTS, decode_offsets

_CONSEQUENCES = {
    HIGH_WATERMARKS: "its replicas are compared as far as they reach below the lowest high watermark of the others",
    LOG_STARTS: "its logs are taken to begin with their first segments",
}


@dataclass(frozen=True, slots=True)
class Compared:
    """A replica as far as it must hold what the others hold."""

    broker: int
    topic: str
    partition: int
    start: int
    hwm: int
    marked: bool
    """Whether the high watermark is its own; else it is the others', and the log may be shorter."""


def damaged(replicas: Sequence[Replica]) -> list[Finding]:
    """Checkpoint files that are there and cannot be read."""
    roots = dict.fromkeys((each.broker, os.path.dirname(each.directory)) for each in replicas)
    return [
        Finding(kinds.CHECKPOINT, "", broker, "", -1, -1, os.path.join(root, name), None, f"cannot be read: {told}")
        for broker, root in roots
        for name, told in _CONSEQUENCES.items()
        if _is_damaged(os.path.join(root, name))
    ]


def compared(replicas: Sequence[Replica], segments: Sequence[Segment]) -> list[Compared]:
    unreadable = {os.path.dirname(each.file) for each in damaged(replicas) if each.file.endswith(HIGH_WATERMARKS)}
    begins: dict[tuple[int, str, int], int] = {}
    for segment in segments:
        begins.setdefault((segment.broker, segment.topic, segment.partition), segment.base)
    marks: dict[tuple[str, int], list[int]] = {}
    for each in replicas:
        if each.hwm:
            marks.setdefault((each.topic, each.partition), []).append(each.hwm)
    found = []
    for each in replicas:
        lost = os.path.dirname(each.directory) in unreadable
        others = min(marks.get((each.topic, each.partition), ()), default=0)
        start = max(each.log_start, begins.get((each.broker, each.topic, each.partition), 0))
        hwm = others if lost else each.hwm or 0
        found.append(Compared(each.broker, each.topic, each.partition, start, hwm, not lost))
    return found


def without_marks(replicas: Sequence[Replica]) -> frozenset[str]:
    """Directories that have no file with high watermarks, or none that can be read."""
    roots = dict.fromkeys(os.path.dirname(each.directory) for each in replicas)
    return frozenset(root for root in roots if _offsets(os.path.join(root, HIGH_WATERMARKS)) is None)


def _is_damaged(path: str) -> bool:
    return os.path.lexists(path) and _offsets(path) is None


def _offsets(path: str) -> dict[tuple[str, int], int] | None:
    try:
        with open(path, "rb") as file:
            return decode_offsets(file.read())
    except OSError:
        return None
