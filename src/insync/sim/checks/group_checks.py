"""S18: reports what members of groups saw, and compares the memory of coordinators with their logs (G2).

Offsets are records of `__consumer_offsets`. Where an unclean election has lost committed records of it, nothing is
promised to the groups of that partition any more.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from insync.groups.config import OFFSETS_TOPIC
from insync.groups.coordinator import Coordinator, partition_for
from insync.groups.shard import Shard
from insync.properties.group_offsets import GroupHistory
from insync.sansio import Outbox
from insync.sim.checks.ghost_image import GhostImage
from insync.wire import batch


class GroupChecks:
    def __init__(self, truth: GhostImage, report_violation: Callable[[str, str, str], None]) -> None:
        self._truth = truth
        self._report_violation = report_violation

    def report(self, history: GroupHistory) -> None:
        problems, history.problems = history.problems, []
        for group, problem in problems:
            if not self._is_forgiven(group):
                self._report_violation("S18", problem, "")

    def _is_forgiven(self, group: str) -> bool:
        topic_id = self._truth.image.topic_ids.get(OFFSETS_TOPIC)
        if topic_id is None:
            return True
        index = partition_for(group, len(self._truth.image.partitions[topic_id]))
        ghost = self._truth.ghosts.get((topic_id, index))
        return ghost is None or ghost.forgive_epoch >= 0

    def check_memory(self, node: Any) -> None:
        """G2: every loaded shard has what a coordinator that loads the committed log now would have."""
        topic_id = node.image.topic_ids.get(OFFSETS_TOPIC)
        if node.broker_role is None or topic_id is None:
            return
        for index, shard in node.broker_role.groups.coordinator.shards.items():
            replica = node.replicas.replicas.get((topic_id, index))
            if replica is None or not shard.is_loaded:
                continue
            expected, actual = _offsets(_load(shard, replica.log)), _offsets(shard)
            if expected != actual:
                differing = sorted(key for key in {**expected, **actual} if expected.get(key) != actual.get(key))
                detail = [(key, actual.get(key), expected.get(key)) for key in differing[:3]]
                self._report_violation(
                    "S18", f"coordinator {node.id} differs from its log: (where, memory, log) {detail}", ""
                )


def _offsets(shard: Shard) -> dict[tuple[str, str, int], int]:
    groups = shard.groups.values()
    return {(group.id, *place): offset.offset for group in groups for place, offset in group.offsets.items()}


def _load(shard: Shard, log: Any) -> Shard:
    coordinator = Coordinator(
        config=shard.config,
        log=shard.log,
        out=Outbox(),
        rng=random.Random(0),
        wall_offset_ms=0,
        has_partition=lambda _topic, _index: True,
        now=0,
    )
    fresh = coordinator.begin_load(shard.index, shard.epoch)
    data = log.read(log.log_start, 1 << 30, limit_offset=log.hwm) if log.hwm > log.log_start else b""
    for position, header in batch.iter_headers(data):
        for record in () if header.is_control else batch.records(data, position):
            if record.offset < log.hwm:
                fresh.replay(record)
    return fresh
