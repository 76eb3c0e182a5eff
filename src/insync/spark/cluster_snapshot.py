"""The cluster as the driver sees it before a batch, and what has changed since the batch before."""

from __future__ import annotations

from dataclasses import dataclass

from insync.client.errors import UnknownTopicError
from insync.client.model import Offset, Topic, TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.spark.cluster_view import ClusterView
from insync.spark.data_loss import (
    Expected,
    Loss,
    find_loss,
    past_log_end,
    removed_by_retention,
    report_losses,
)
from insync.spark.planning import Offsets
from insync.spark.stream_offsets import StreamOffset
from insync.wire.types import ZERO_UUID


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The topics to read, and the end of each partition."""

    topics: dict[str, Topic]
    latest: dict[TopicPartition, Offset]

    @property
    def offsets(self) -> Offsets:
        return {key: end.offset for key, end in self.latest.items()}

    @property
    def epochs(self) -> dict[TopicPartition, int]:
        return {key: end.leader_epoch for key, end in self.latest.items()}

    @property
    def ids(self) -> dict[str, str]:
        return {name: str(topic.id) for name, topic in self.topics.items() if topic.id != ZERO_UUID}


def snapshot_cluster(view: ClusterView, *, must_exist: bool) -> ClusterSnapshot:
    """With `must_exist`, a topic that the options name and that does not exist is an error."""
    topics = view.describe_topics(must_exist=must_exist)
    while True:
        keys = view.list_partitions(topics)
        try:
            return ClusterSnapshot(topics, view.list_offsets_and_epochs(dict.fromkeys(keys, LATEST), topics))
        except UnknownTopicError as error:  # it was deleted after it was described
            if must_exist or error.topic not in topics:
                raise
            del topics[error.topic]


def find_batch_start(view: ClusterView, done: StreamOffset, now: ClusterSnapshot, *, fail: bool) -> Offsets:
    """Where the next batch begins: where the last one ended, or at the earliest offset of a new partition. A partition
    that lost records resumes after the loss, or with `fail` raises `DataLossError`."""
    ids = now.ids
    keys = [
        key
        for key, latest in now.latest.items()  # without new records, it does not matter where a log begins
        if done.offsets.get(key) != latest.offset or done.id_of(key[0]) != ids.get(key[0], "")
    ]
    earliest = view.list_offsets_and_epochs(dict.fromkeys(keys, EARLIEST), now.topics)
    losses = _find_losses(view, done, now, earliest)
    report_losses(tuple(losses.values()), fail=fail)
    start: Offsets = {}
    for key in now.latest:
        loss = losses.get(key)
        if loss is not None and loss.resume is not None:
            start[key] = loss.resume
        else:
            start[key] = done.offsets[key] if key in done.offsets else earliest[key].offset
    return start


def clamp_to_log(
    view: ClusterView, start: Offsets, end: Offsets, now: ClusterSnapshot, *, fail: bool
) -> tuple[Offsets, Offsets]:
    """The part of a batch query's range that the log has, as (start, end). The rest is reported as lost."""
    earliest = view.list_offsets_and_epochs(dict.fromkeys(start, EARLIEST), now.topics)
    losses: list[Loss | None] = []
    clamped_start: Offsets = {}
    clamped_end: Offsets = {}
    for key, first in start.items():
        latest, log_start = now.latest[key].offset, earliest[key].offset
        if end[key] > latest:
            losses.append(past_log_end(key, max(first, latest), end[key], now.latest[key]))
        if first < log_start and first < end[key]:
            expected = Expected(first, end[key])
            losses.append(removed_by_retention(key, expected, earliest[key], now.latest[key]))
        clamped_start[key] = min(max(first, log_start), latest)
        clamped_end[key] = max(min(end[key], latest), clamped_start[key])
    report_losses(tuple(loss for loss in losses if loss is not None), fail=fail)
    return clamped_start, clamped_end


def _find_losses(
    view: ClusterView, done: StreamOffset, now: ClusterSnapshot, earliest: dict[TopicPartition, Offset]
) -> dict[TopicPartition, Loss]:
    losses = {}
    for key, start in done.offsets.items():
        latest = now.latest.get(key)
        end = max(start, latest.offset if latest else 0)
        if done.initial and latest is not None and start > latest.offset:  # named by an option: no epoch is known
            losses[key] = past_log_end(key, latest.offset, start, latest)
            continue
        expected = Expected(start, end, done.epochs.get(key, -1), done.id_of(key[0]))
        loss = find_loss(view, key, expected, topics=now.topics, earliest=earliest.get(key), latest=latest)
        if loss is not None:
            losses[key] = loss
    return losses
