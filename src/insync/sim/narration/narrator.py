"""Describes a run as text: what was done to the cluster, and what its nodes did.

A step gets a line only if a node noted something in it. After a line about a partition comes the state of its replicas,
if that has changed since it was last shown.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.metadata.partition import Partition
from insync.sansio import Effect, Event, Note
from insync.sim.engine.trace import describe_effect, describe_event
from insync.sim.narration import picture

MINOR_NOTES = frozenset(
    {
        "quorum_vote_granted",
        "quorum_vote_refused",
        "quorum_election_started",
        "quorum_leader",
        "quorum_snapshot_written",
        "fetch_refused",
        "late_fetch_answer_dropped",
        "fetch_session_opened",
        "fetch_session_lost",
        "segments_deleted",
    }
)
"""Kinds of notes that appear only in verbose output."""

CAUSE_NOTES = frozenset(
    {
        "broker_fenced",
        "broker_registered",
        "broker_unfenced",
        "broker_unregistered",
        "controlled_shutdown",
        "reassignment_started",
        "reassignment_replaced",
        "unclean_recovery_finished",
    }
)
"""A node notes these after what follows from them; in the text they come first."""


class TextNarrator:
    """An observer of a cluster that writes one line at a time with `write`."""

    def __init__(self, write: Callable[[str], None], *, verbose: bool = False, numbered: bool = False) -> None:
        self._write = write
        self._verbose = verbose
        self._numbered = numbered
        self._count = 0
        self._cluster: Any = None
        self._shown: dict[str, list[str]] = {}

    def attach(self, cluster: Any) -> None:
        self._cluster = cluster

    def mark(self, time_us: int, text: str) -> None:
        """A fault, a start or another action from outside."""
        self._line(time_us, f"** {text}")

    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None:
        now = self._cluster.engine.now
        if self._verbose:
            self._line(now, f"node {node_id}: {describe_event(event)}")
            for effect in effects:
                self._write(f"        {describe_effect(effect)}")
            return
        for note in notes_in_order(effects):
            if note.kind not in MINOR_NOTES:
                self._line(now, f"node {node_id}: {describe_note(note)}")
                self._show(note)

    def node_started(self, node_id: int) -> None:
        """Its mark has a line already."""

    def node_ends(self, node_id: int) -> None:
        """Its mark has a line already."""

    def node_crashed(self, node_id: int, lost: dict[str, tuple[int, int]] | None) -> None:
        for path, (before, after) in sorted((lost or {}).items()):
            if path.endswith(".log"):
                self._write(f"        {path} of node {node_id} lost {before - after} bytes")

    def _line(self, time_us: int, text: str) -> None:
        self._count += 1
        number = f"{self._count:>4}. " if self._numbered else ""
        self._write(f"{number}{time_us / 1_000_000:8.3f}s  {text}")

    def _show(self, note: Note) -> None:
        partition = self._partition_of(note)
        if partition is None:
            return
        lines = picture.partition_lines(self._cluster, partition)
        if self._shown.get(partition.name) != lines:
            self._shown[partition.name] = lines
            for line in lines:
                self._write(f"               {line}")

    def _partition_of(self, note: Note) -> Partition | None:
        name = partition_name(note.fields)
        return None if name is None else newest_partition(self._cluster, name)


def notes_in_order(effects: list[Effect]) -> list[Note]:
    """The notes of one step, each cause before its consequences."""
    notes: list[Note] = []
    consequences: list[Note] = []
    for effect in effects:
        if isinstance(effect, Note) and effect.kind in CAUSE_NOTES:
            notes += [effect, *consequences]
            consequences = []
        elif isinstance(effect, Note):
            consequences.append(effect)
    return notes + consequences


def partition_name(fields: dict[str, Any]) -> str | None:
    partition = fields.get("partition")
    if isinstance(partition, int):
        return f"{fields.get('topic')}-{partition}"
    return partition if isinstance(partition, str) else None


def newest_partition(cluster: Any, name: str) -> Partition | None:
    """The newest metadata of the partition that a running node has."""
    topic, _, index = name.rpartition("-")
    known = [node.image.find(topic, int(index)) for node in cluster.nodes()]
    return max((p for p in known if p is not None), key=lambda p: p.partition_epoch, default=None)


def describe_note(note: Note) -> str:
    fields = dict(note.fields)
    name = partition_name(fields)
    if name is not None:
        fields.pop("topic", None)
        fields.pop("partition", None)
    details = ", ".join(
        f"{key.replace('_', ' ')} {_format_value(value)}" for key, value in fields.items() if value != ""
    )
    return f"{note.kind.replace('_', ' ')}{f' {name}' if name else ''}{': ' + details if details else ''}"


def _format_value(value: Any) -> str:
    return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, tuple) else str(value)
