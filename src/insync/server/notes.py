"""Writes the notes of a node to its log, one line each: `event=became_leader partition=orders-0 epoch=4 ...`."""

from __future__ import annotations

import logging
from collections import Counter
from typing import Any

from insync.escaping import log_value
from insync.sansio import Note

log = logging.getLogger("insync.node")

DEBUG_KINDS = (
    "duplicate_produce",
    "late_fetch_answer_dropped",
    "replica_throttled",
    "hwm_unknown",
    "became_follower",
    "elr_changed",
    "authorization_allowed",
)
"""Frequent, or useful only to examine one partition."""

MAX_ITEMS = 100
"""Items of a list in a log line."""

WARNING_KINDS = (
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
    "forwarding_refused",
)
ERROR_KINDS = ("quorum_no_intact_majority",)


class NoteLog:
    """`counts`: by kind, for the metrics."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.unclean_elections = 0
        """Unclean elections that this node decided."""

    def note(self, note: Note) -> None:
        self.counts[note.kind] += 1
        if note.kind == "leader_elected" and note.fields["how"] == "unclean":
            self.unclean_elections += 1
        level = _level(note.kind)
        if log.isEnabledFor(level):
            log.log(level, "%s", format_line(note.kind, note.fields))


def _level(kind: str) -> int:
    if kind in DEBUG_KINDS:
        return logging.DEBUG
    if kind in WARNING_KINDS:
        return logging.WARNING
    return logging.ERROR if kind in ERROR_KINDS else logging.INFO


def format_line(kind: str, fields: dict[str, Any]) -> str:
    return " ".join([f"event={kind}", *(f"{name}={_format_value(value)}" for name, value in fields.items())])


def _format_value(value: Any) -> str:
    if isinstance(value, tuple | list):
        shown = [_format_value(item) for item in value[:MAX_ITEMS]]
        if len(value) > MAX_ITEMS:
            shown.append(f"...({len(value)} in all)")
        return "[" + ",".join(shown) + "]"
    return log_value(value)
