"""Committed offsets of consumer groups, translated to the target's offsets and committed there.

The mirror changes only offsets that it set itself, or that are not set: a group that has moved on in the target, with
members or by `insync group reset`, is left alone and reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from insync.client import groups
from insync.client.errors import RefusedError, UnknownTopicError
from insync.client.model import TopicPartition
from insync.client.offsets import EARLIEST, list_offsets_with_retry
from insync.client.sync_client import SyncClient
from insync.pipeline.mirror.row_digests import fetch_rows
from insync.pipeline.mirror.state import MirrorState

Count = Callable[[TopicPartition, int, int], int | None]
"""(partition, start, end): how many records the source has there; None if it no longer has all of them."""


class Decision(Enum):
    COMMIT = "commit"
    KEEP = "keep"
    LEAVE = "leave"
    """Something else than the mirror has set it."""


@dataclass(slots=True)
class GroupReport:
    committed: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)
    """New offsets by group and partition of the target."""
    notes: list[str] = field(default_factory=list)


def decide(current: int | None, wanted: int, ours: tuple[int, ...]) -> Decision:
    """`ours` are the offsets that the mirror set last."""
    if current == wanted:
        return Decision.KEEP
    return Decision.COMMIT if current is None or current in ours else Decision.LEAVE


def translate_offsets(
    state: MirrorState, group: str, committed: Mapping[TopicPartition, int], count: Count
) -> tuple[dict[TopicPartition, int], list[str]]:
    """(offsets by the target's partitions, notes on those that are lower than they could be)."""
    translated: dict[TopicPartition, int] = {}
    notes = []
    for key, offset in committed.items():
        mirrored = state.partitions.get(key)
        if mirrored is None:
            continue
        translation = mirrored.map.translate(offset, partial(count, key))
        if translation is None:
            continue
        translated[state.topics[key[0]].target, key[1]] = translation.offset
        if not translation.is_exact and offset < mirrored.position.source:
            notes.append(
                f"group '{group}' on {key[0]}-{key[1]}: offset {offset} is at or after {translation.offset} in the "
                "target; where exactly is no longer known, so some records will be read again"
            )
    return translated, notes


def copy_group_offsets(source: SyncClient, target: SyncClient, state: MirrorState, pattern: str) -> GroupReport:
    """Commit the offsets of all groups whose whole names match."""
    report = GroupReport()
    matches = re.compile(pattern).fullmatch
    count = SourceCounter(source)
    for group in source.call(groups.list_groups):
        if not matches(group.id):
            continue
        committed = list_committed(source, group.id)
        wanted, notes = translate_offsets(state, group.id, committed, count)
        report.notes += notes
        if wanted:
            _commit_group(target, state, group.id, wanted, report)
    return report


def list_committed(client: SyncClient, group: str) -> dict[TopicPartition, int]:
    return client.call(lambda cluster: groups.list_committed_offsets(cluster, group))


def _commit_group(
    target: SyncClient, state: MirrorState, group: str, wanted: Mapping[TopicPartition, int], report: GroupReport
) -> None:
    current = list_committed(target, group)
    ours = state.committed.setdefault(group, {})
    changes: dict[TopicPartition, int] = {}
    for key, offset in wanted.items():
        decision = decide(current.get(key), offset, ours.get(key, ()))
        if decision is Decision.COMMIT:
            changes[key] = offset
        elif decision is Decision.LEAVE:
            report.notes.append(
                f"group '{group}' on {key[0]}-{key[1]} is at {current[key]} in the target, which this mirror did not "
                f"set: left alone, where the source's offset would be {offset}"
            )
    if not changes:
        return
    for key, offset in changes.items():
        ours[key] = (*ours.get(key, ())[-1:], offset)
    state.save()
    try:
        target.call(lambda cluster: groups.commit_offsets(cluster, group, changes))
    except (RefusedError, UnknownTopicError) as error:
        report.notes.append(f"the offsets of group '{group}' were not committed: {error}")
        return
    report.committed[group] = changes


class SourceCounter:
    """Counts records of the source by reading them."""

    def __init__(self, source: SyncClient) -> None:
        self._source = source

    def __call__(self, key: TopicPartition, start: int, end: int) -> int | None:
        offsets = self._source.call(lambda cluster: list_offsets_with_retry(cluster, {key: EARLIEST}))
        if offsets[key].offset > start:
            return None
        rows = 0
        for batch in fetch_rows(self._source, *key, start, end, ("offset",)):
            rows += int(batch.num_rows)
        return rows
