"""What a node thought worth noting, as one line each: `event=became_leader partition=orders-0 epoch=4 ...`."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from insync.escaping import log_value
from insync.sansio import Note

log = logging.getLogger("insync.node")

QUIET = (
    "duplicate_produce",
    "late_fetch_answer_dropped",
    "replica_throttled",
    "hwm_unknown",
    "became_follower",
    "elr_changed",
)
"""Frequent, or only telling for someone who looks into one partition."""

MAX_ITEMS = 100
"""Of a list in a log line."""

LOUD = (
    "batch_suspected",
    "batch_repaired",
    "repair_failed",
    "index_rebuilt",
    "truncated",
    "quorum_truncated",
    "quorum_bad_records",
    "quorum_claim_refused",
    "quorum_state_rebuilt",
    "quorum_loss_accepted",
    "finding",
)
ERRORS = ("quorum_no_intact_majority",)


class NoteLog:
    """`counts`: by kind, for the metrics."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.unclean = 0
        """Unclean elections that this node decided."""

    def note(self, note: Note) -> None:
        self.counts[note.kind] += 1
        if note.kind == "leader_elected" and note.fields["how"] == "unclean":
            self.unclean += 1
        level = _level(note.kind)
        if log.isEnabledFor(level):
            log.log(level, "%s", line(note.kind, note.fields))


def _level(kind: str) -> int:
    if kind in QUIET:
        return logging.DEBUG
    if kind in LOUD:
        return logging.WARNING
    return logging.ERROR if kind in ERRORS else logging.INFO


def line(kind: str, fields: dict[str, Any]) -> str:
    return " ".join([f"event={kind}", *(f"{name}={_text(value)}" for name, value in fields.items())])


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        shown = [_text(item) for item in value[:MAX_ITEMS]]
        if len(value) > MAX_ITEMS:
            shown.append(f"...({len(value)} in all)")
        return "[" + ",".join(shown) + "]"
    return log_value(value)
