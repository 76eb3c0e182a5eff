"""S19: compares queries of offsets with the committed log, in the step that answers them.

Only the current leader is held to it: a replaced one answers for a log that others have left behind. And only below the
high watermark: above it, records may still be truncated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from insync.properties import offset_queries
from insync.properties.ghost import PartitionGhost
from insync.sansio import Effect, Message, Reply
from insync.sim.checks.ghost_image import GhostImage
from insync.wire.errors import ErrorCode
from insync.wire.messages import list_offsets, offset_for_leader_epoch

_FIRST_TIME = 0


class QueryChecks:
    def __init__(self, truth: GhostImage, report_violation: Callable[[str, str, str], None]) -> None:
        self._truth = truth
        self._report_violation = report_violation

    def after_query(self, node: Any, request: Message, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is not Reply:
                continue
            kind = type(effect.response)
            if kind is offset_for_leader_epoch.OffsetForLeaderEpochResponse:
                self._check_epoch_ends(node, request, effect.response)
            elif kind is list_offsets.ListOffsetsResponse:
                self._check_times(node, request, effect.response)

    def _check_epoch_ends(self, node: Any, request: Message, response: Message) -> None:
        asked = {(t.topic, p.partition): p.leader_epoch for t in request.topics for p in t.partitions}
        for topic in response.topics:
            for answer in topic.partitions:
                ghost = self._led_by(node, topic.topic, answer.partition)
                if ghost is None or answer.error_code is not ErrorCode.none or answer.end_offset < 0:
                    continue
                wrong = offset_queries.check_epoch_end(
                    node.id,
                    asked[topic.topic, answer.partition],
                    answer.leader_epoch,
                    answer.end_offset,
                    [b for b in ghost.committed.batches if b.base_offset >= self._log(node, ghost).log_start],
                )
                self._report(ghost, wrong)

    def _check_times(self, node: Any, request: Message, response: Message) -> None:
        asked = {(t.name, p.partition_index): p.timestamp for t in request.topics for p in t.partitions}
        for topic in response.topics:
            for answer in topic.partitions:
                ghost = self._led_by(node, topic.name, answer.partition_index)
                timestamp = asked[topic.name, answer.partition_index]
                if ghost is None or answer.error_code is not ErrorCode.none or timestamp < _FIRST_TIME:
                    continue
                log = self._log(node, ghost)
                headers = log.iter_headers(log.log_start, log.hwm) if log.hwm > log.log_start else ()
                self._report(
                    ghost, offset_queries.check_offset_by_time(node.id, timestamp, answer.offset, list(headers))
                )

    def _led_by(self, node: Any, topic: str, index: int) -> PartitionGhost | None:
        """The partition if the node leads it in the newest epoch, and no unclean election is under way."""
        partition = self._truth.image.find(topic, index)
        ghost = None if partition is None else self._truth.ghosts.get(partition.key)
        tracked = None if ghost is None else ghost.tracked.get(node.id)
        if ghost is None or tracked is None or ghost.unclean is not None:
            return None
        return ghost if tracked.leader_epoch == ghost.partition.leader_epoch else None

    def _log(self, node: Any, ghost: PartitionGhost) -> Any:
        return node.replicas.replicas[ghost.partition.key].log

    def _report(self, ghost: PartitionGhost, wrong: str | None) -> None:
        if wrong:
            self._report_violation("S19", wrong, ghost.partition.name)
