"""What to mirror next: from where each partition stopped to where the source's log ends.

The source is asked each time whether it still has what was mirrored and what comes next: topic ids, leader epochs
(OffsetForLeaderEpoch) and the beginning of the log are compared with those of the state. What is lost is an error,
unless loss is allowed: then the state records it, and the partition continues after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from insync.client.model import Offset, Topic, TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.pipeline.mirror.errors import SourceLossError
from insync.pipeline.mirror.offset_map import Anchor, OffsetMap
from insync.pipeline.mirror.state import MirroredPartition, MirrorPosition, MirrorState
from insync.spark.cluster_view import ClusterView
from insync.spark.data_loss import Cause, Continuation, Loss, find_continuation_loss

TargetEnds = Mapping[TopicPartition, int]
"""Where the target's partitions ended before the mirror, by the source's names."""


@dataclass(slots=True)
class MirrorPlan:
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    """Where the logs of the source end."""
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """Of the leaders that reported the ends."""
    notes: list[str] = field(default_factory=list)

    def limit_to(self, ends: Mapping[TopicPartition, int]) -> None:
        """Go no further than `ends`; partitions that it does not name are left out."""
        self.ends = {key: min(end, ends[key]) for key, end in self.ends.items() if key in ends}

    def backlog(self, state: MirrorState) -> dict[TopicPartition, int]:
        """How many offsets are to be mirrored, of each partition that has some."""
        sizes = {key: end - state.partitions[key].position.source for key, end in self.ends.items()}
        return {key: size for key, size in sizes.items() if size > 0}


def make_plan(
    view: ClusterView, topics: Mapping[str, Topic], state: MirrorState, target_ends: TargetEnds, *, allow_loss: bool
) -> MirrorPlan:
    """Adds partitions that are new to the state, and with `allow_loss` moves others past what is lost."""
    view.remember_epochs(
        (state.topics[topic].id, index, mirrored.position.epoch)
        for (topic, index), mirrored in state.partitions.items()
        if mirrored.position.epoch >= 0
    )
    keys = view.list_partitions(topics)
    earliest = view.list_offsets_and_epochs(dict.fromkeys(keys, EARLIEST), topics)
    latest = view.list_offsets_and_epochs(dict.fromkeys(keys, LATEST), topics)
    plan, losses = MirrorPlan(), dict[TopicPartition, Loss]()
    for key in keys:
        plan.ends[key], plan.epochs[key] = latest[key].offset, latest[key].leader_epoch
        if key not in state.partitions:
            state.partitions[key] = _begin_partition(plan, key, earliest[key], target_ends)
        loss = _find_loss(view, state, key, topics[key[0]], earliest[key], latest[key])
        if loss is not None:
            losses[key] = loss
    if losses and not allow_loss:
        raise SourceLossError(list(losses.values()))
    for key, loss in losses.items():
        plan.notes.append(str(loss))
        _skip_loss(state.partitions[key], loss)
    return plan


def _begin_partition(
    plan: MirrorPlan, key: TopicPartition, earliest: Offset, target_ends: TargetEnds
) -> MirroredPartition:
    start, end = earliest.offset, target_ends.get(key, 0)
    if start > 0:
        plan.notes.append(f"{key[0]}-{key[1]} begins at offset {start}: what was before is no longer in the source")
    return MirroredPartition(MirrorPosition(rows=0, source=start, target=end), OffsetMap([Anchor(start, 0, end)]))


def _find_loss(
    view: ClusterView, state: MirrorState, key: TopicPartition, topic: Topic, earliest: Offset, latest: Offset
) -> Loss | None:
    position = state.partitions[key].position
    done = Continuation(
        offset=position.source, seen=position.seen, epoch=position.epoch, topic_id=state.topics[key[0]].id
    )
    return find_continuation_loss(view, key, done, topic, earliest, latest)


def _skip_loss(mirrored: MirroredPartition, loss: Loss) -> None:
    position = mirrored.position
    resume = position.source if loss.resume is None else loss.resume
    if loss.cause is Cause.RETENTION:
        mirrored.position = replace(position, source=resume, trimmed=position.trimmed + resume - position.source)
    else:  # what was seen under the old epoch is not in this log
        mirrored.position = replace(position, source=resume, epoch=-1, seen=-1)
    mirrored.map.continue_at(resume)
    mirrored.losses.append(str(loss))
