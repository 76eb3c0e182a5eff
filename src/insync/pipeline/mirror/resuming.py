"""Where a mirror continues whose state lags behind what it has written.

The target has `extra` records that the state does not count. As a rule they are the next ones of the source, which are
skipped then. They are compared first, because the source may have changed while the mirror was stopped: if it was
truncated, its next records are other ones, and skipping them would lose them; if it was trimmed, some of the records
that the target has are no longer there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from insync.pipeline.fenced_sender import SEQUENCES
from insync.pipeline.mirror.row_digests import RowDigests


@dataclass(frozen=True, slots=True)
class Overlap:
    """The target's last records are the source's next `skip` ones; `diverged` are those that the source does not
    have."""

    skip: int
    diverged: int = 0


def find_overlap(rows: int, extra: int, target: RowDigests, source: RowDigests, *, start: int, trimmed: int) -> Overlap:
    """`rows` is the number of the first extra record, `target` are those that the target still has of them, and
    `source` the source's next records from offset `start` on, up to `extra`. The source lost `trimmed` offsets before
    these: as many of the extra records at most are no longer there."""
    numbers = (target.sequences - rows) % SEQUENCES
    for first in _list_candidates(numbers, extra, target, source, start, trimmed):
        if extra - first <= len(source) and _matches(numbers, target, source, first):
            return Overlap(extra - first)
    if trimmed:
        return Overlap(0, extra)
    inside = numbers < len(source)
    differing = np.flatnonzero(target.digests[inside] != source.digests[numbers[inside]])
    common = int(numbers[inside][differing[0]]) if len(differing) else min(len(source), extra)
    return Overlap(common, extra - common)


def _list_candidates(
    numbers: Any, extra: int, target: RowDigests, source: RowDigests, start: int, trimmed: int
) -> list[int]:
    """How many of the extra records may have been trimmed: as many as offsets, unless the source has gaps."""
    has_gaps = bool(len(source)) and int(source.offsets[-1]) - start + 1 != len(source)
    if not trimmed or not has_gaps:
        return [min(trimmed, extra)]
    alike = numbers[target.digests == source.digests[0]]
    return [*alike[alike <= trimmed].tolist(), extra]


def _matches(numbers: Any, target: RowDigests, source: RowDigests, first: int) -> bool:
    remaining = numbers >= first
    return bool((target.digests[remaining] == source.digests[numbers[remaining] - first]).all())
