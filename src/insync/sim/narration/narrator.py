"""A run told to people: what was done to the cluster, and what its nodes made of it.

It listens where the checker listens, and tells a step only if a node noted something in it. After each line about a
partition comes where that partition's replicas stand, if that has changed since it was last told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.metadata.partition import Partition
from insync.sansio import Effect, Event, Note
from insync.sim.engine.trace import describe_effect, describe_event
from insync.sim.narration import picture

QUIET = frozenset(
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
"""Kinds of notes that are told only to those who want everything."""

CAUSES = frozenset(
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
"""A node notes these when it is done with what follows from them; told to people, they come first."""


class Story:
    """An observer of a cluster. `tell` gets one line at a time."""

    def __init__(self, tell: Callable[[str], None], *, verbose: bool = False, numbered: bool = False) -> None:
        self._tell = tell
        self._verbose = verbose
        self._numbered = numbered
        self._count = 0
        self._cluster: Any = None
        self._told: dict[str, list[str]] = {}

    def begin(self, cluster: Any) -> None:
        self._cluster = cluster

    def mark(self, time_us: int, text: str) -> None:
        """Something was done to the cluster from outside."""
        self._line(time_us, f"** {text}")

    def after_step(self, node_id: int, event: Event, effects: list[Effect]) -> None:
        now = self._cluster.engine.now
        if self._verbose:
            self._line(now, f"node {node_id}: {describe_event(event)}")
            for effect in effects:
                self._tell(f"        {describe_effect(effect)}")
            return
        for note in notes_in_order(effects):
            if note.kind not in QUIET:
                self._line(now, f"node {node_id}: {sentence(note)}")
                self._show(note)

    def node_started(self, node_id: int) -> None:
        """Told by its mark."""

    def node_ends(self, node_id: int) -> None:
        """Told by its mark."""

    def node_crashed(self, node_id: int, lost: dict[str, tuple[int, int]] | None) -> None:
        for path, (before, after) in sorted((lost or {}).items()):
            if path.endswith(".log"):
                self._tell(f"        {path} of node {node_id} lost {before - after} bytes")

    def _line(self, time_us: int, text: str) -> None:
        self._count += 1
        number = f"{self._count:>4}. " if self._numbered else ""
        self._tell(f"{number}{time_us / 1_000_000:8.3f}s  {text}")

    def _show(self, note: Note) -> None:
        partition = self._partition_of(note)
        if partition is None:
            return
        lines = picture.partition_lines(self._cluster, partition)
        if self._told.get(partition.name) != lines:
            self._told[partition.name] = lines
            for line in lines:
                self._tell(f"               {line}")

    def _partition_of(self, note: Note) -> Partition | None:
        name = partition_name(note.fields)
        return None if name is None else newest(self._cluster, name)


def notes_in_order(effects: list[Effect]) -> list[Note]:
    """What a node noted in one step, each cause before what it brought about."""
    told: list[Note] = []
    brought_about: list[Note] = []
    for effect in effects:
        if isinstance(effect, Note) and effect.kind in CAUSES:
            told += [effect, *brought_about]
            brought_about = []
        elif isinstance(effect, Note):
            brought_about.append(effect)
    return told + brought_about


def partition_name(fields: dict[str, Any]) -> str | None:
    partition = fields.get("partition")
    if isinstance(partition, int):
        return f"{fields.get('topic')}-{partition}"
    return partition if isinstance(partition, str) else None


def newest(cluster: Any, name: str) -> Partition | None:
    """The partition as the node that knows most of it has it."""
    topic, _, index = name.rpartition("-")
    known = [node.image.find(topic, int(index)) for node in cluster.nodes()]
    return max((p for p in known if p is not None), key=lambda p: p.partition_epoch, default=None)


def sentence(note: Note) -> str:
    fields = dict(note.fields)
    name = partition_name(fields)
    if name is not None:
        fields.pop("topic", None)
        fields.pop("partition", None)
    told = ", ".join(f"{key.replace('_', ' ')} {_value(value)}" for key, value in fields.items() if value != "")
    return f"{note.kind.replace('_', ' ')}{f' {name}' if name else ''}{': ' + told if told else ''}"


def _value(value: Any) -> str:
    return "[" + ", ".join(map(str, value)) + "]" if isinstance(value, tuple) else str(value)
