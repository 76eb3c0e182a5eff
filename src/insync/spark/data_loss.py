"""Why offsets that should be in a log are missing, and the evidence.

A reader remembers more than an offset: the topic's id, and the leader epoch under which it saw the offset. That tells
the causes apart.

- deleted: the topic is gone; recreated: it has another id, so its offsets belong to other records.
- truncation: the leader's log ends the remembered epoch below the remembered offset. An unclean election cut off
  records that had been readable; whatever is at these offsets now is something else. This is detected even after the
  log has grown past the offset again.
- retention: the log begins after the offset (retention by time or size, or DeleteRecords).
- markers: nothing is missing; the offsets are those of transaction markers, which are not records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from insync.client.errors import ClientError
from insync.client.model import Offset, Topic, TopicPartition
from insync.spark.cluster_view import ClusterView
from insync.spark.planning import OffsetRange
from insync.wire.types import ZERO_UUID

log = logging.getLogger("insync.spark")


class Cause(StrEnum):
    """Why offsets are missing."""

    RETENTION = "retention"
    TRUNCATION = "truncation"
    RECREATED = "recreated"
    DELETED = "deleted"
    MARKERS = "markers"


@dataclass(frozen=True, slots=True)
class Loss:
    """The offsets from `first` up to, but not including, `end` are missing."""

    cause: Cause
    topic: str
    partition: int
    first: int
    end: int
    resume: int | None
    """Where reading can go on; None if the partition is gone."""
    evidence: str

    def __str__(self) -> str:
        if self.cause is Cause.DELETED:
            return f"cannot continue {self.topic}-{self.partition} from offset {self.first} (deleted): {self.evidence}"
        lost = f"offsets {self.first} to {self.end - 1}" if self.end - self.first > 1 else f"offset {self.first}"
        return f"{self.topic}-{self.partition}: {lost} missing ({self.cause}): {self.evidence}"


class DataLossError(ClientError):
    """Records that a query was to read are gone, and `failOnDataLoss` is true."""

    def __init__(self, losses: tuple[Loss, ...]) -> None:
        super().__init__(
            f"{'; '.join(describe_losses(losses))}. Set option 'failOnDataLoss' to false to read on without them"
        )
        self.losses = losses

    def __reduce__(self) -> tuple[type[DataLossError], tuple[tuple[Loss, ...]]]:
        return DataLossError, (self.losses,)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a reader expects of a partition: records from `start` up to, but not including, `end`."""

    start: int
    end: int
    epoch: int = -1
    """The leader epoch under which `start` was seen; -1 if unknown."""
    topic_id: str = ""


def report_losses(losses: tuple[Loss, ...], *, fail: bool) -> None:
    """Raise one error for all losses, or log a warning for each."""
    if losses and fail:
        raise DataLossError(losses)
    for sentence in describe_losses(losses):
        log.warning("%s", sentence)


def describe_losses(losses: Sequence[Loss]) -> list[str]:
    """A sentence per loss; the partitions of a deleted topic share one."""
    deleted: dict[tuple[str, str], list[Loss]] = {}
    for loss in losses:
        if loss.cause is Cause.DELETED:
            deleted.setdefault((loss.topic, loss.evidence), []).append(loss)
    return [str(loss) for loss in losses if loss.cause is not Cause.DELETED] + [
        str(first) + (f" (and {len(others)} more of its partitions)" if others else "")
        for first, *others in deleted.values()
    ]


def find_loss(
    view: ClusterView,
    key: TopicPartition,
    expected: Expected,
    *,
    topics: Mapping[str, Topic],
    earliest: Offset | None,
    latest: Offset | None,
) -> Loss | None:
    """None if nothing is missing. `topics`, `earliest` and `latest` describe the cluster as it is now."""
    topic = topics.get(key[0])
    if topic is None or latest is None or topic.partition(key[1]) is None:
        return _deleted(key, expected, topic)
    return (
        recreated(key, expected, topic, earliest, latest)
        or truncated(view, key, expected, topic, earliest, latest)
        or removed_by_retention(key, expected, earliest, latest)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Continuation:
    """Where a job that copies a partition has stopped."""

    offset: int
    """The next one to read."""
    seen: int
    """One past the last batch that was read, or -1: in a log with gaps, `offset` may be further."""
    epoch: int
    """The leader epoch of that batch; -1 if unknown."""
    topic_id: str


def find_continuation_loss(
    view: ClusterView, key: TopicPartition, done: Continuation, topic: Topic, earliest: Offset, latest: Offset
) -> Loss | None:
    """Why a job cannot continue where it stopped; None if it can."""
    reached = Expected(done.seen if done.seen >= 0 else done.offset, latest.offset, done.epoch, done.topic_id)
    following = Expected(done.offset, max(latest.offset, earliest.offset), done.epoch, done.topic_id)
    return (
        recreated(key, following, topic, earliest, latest)
        or truncated(view, key, reached, topic, earliest, latest)
        or removed_by_retention(key, following, earliest, latest)
    )


def _deleted(key: TopicPartition, expected: Expected, topic: Topic | None) -> Loss:
    known = f"; its id was {expected.topic_id}" if expected.topic_id else ""
    evidence = f"the topic no longer exists{known}" if topic is None else "the partition no longer exists"
    return Loss(Cause.DELETED, *key, expected.start, max(expected.end, expected.start + 1), None, evidence)


def recreated(
    key: TopicPartition, expected: Expected, topic: Topic, earliest: Offset | None, latest: Offset
) -> Loss | None:
    if not expected.topic_id or topic.id == ZERO_UUID or str(topic.id) == expected.topic_id:
        return None
    log_start = earliest.offset if earliest is not None else 0
    evidence = (
        f"the topic was deleted and recreated: its id was {expected.topic_id} and is {topic.id}, "
        f"and it has offsets {log_start} to {latest.offset}"
    )
    return Loss(Cause.RECREATED, *key, expected.start, max(expected.end, expected.start + 1), log_start, evidence)


def truncated(
    view: ClusterView, key: TopicPartition, expected: Expected, topic: Topic, earliest: Offset | None, latest: Offset
) -> Loss | None:
    """Only a leader of another epoch than the remembered one, or with too short a log, can have lost records."""
    short = latest.offset < expected.start
    known = expected.epoch >= 0 and latest.leader_epoch >= 0
    if not short and (not known or latest.leader_epoch == expected.epoch):
        return None
    epoch, end = view.find_epoch_end(key, expected.epoch) if known else (-1, -1)
    if end >= expected.start or (end < 0 and not short):
        return None
    common = latest.offset if end < 0 else end
    partition = topic.partition(key[1])
    leader = (
        f"broker {partition.leader} leads in epoch {latest.leader_epoch}"
        if partition
        else "the partition has no leader"
    )
    seen = f"they were read under leader epoch {expected.epoch}, which" if known else "the log, which had them,"
    where = f" (as epoch {epoch})" if known and epoch != expected.epoch and epoch >= 0 else ""
    evidence = (
        f"{seen} now ends at offset {common}{where}; {leader}, and the high watermark is {latest.offset}: "
        "an unclean election, or a replica that lost its disk, cut them off"
    )
    resume = max(common, earliest.offset if earliest is not None else 0)
    return Loss(Cause.TRUNCATION, *key, common, expected.start, resume, evidence)


def removed_by_retention(
    key: TopicPartition, expected: Expected, earliest: Offset | None, latest: Offset
) -> Loss | None:
    if earliest is None or earliest.offset <= expected.start or expected.start >= expected.end:
        return None
    evidence = (
        f"the log now begins at offset {earliest.offset} and ends at {latest.offset} (epoch {latest.leader_epoch}): "
        "retention, or a request to delete records, removed the records before"
    )
    end = min(earliest.offset, expected.end)
    return Loss(Cause.RETENTION, *key, expected.start, end, earliest.offset, evidence)


def past_log_end(key: TopicPartition, first: int, end: int, latest: Offset) -> Loss:
    """The loss for an offset that a user named: no epoch of it is known."""
    evidence = (
        f"the log ends at offset {latest.offset} (epoch {latest.leader_epoch}): "
        "either it never had them, or an unclean election cut them off"
    )
    return Loss(Cause.TRUNCATION, *key, first, end, latest.offset, evidence)


def only_markers(offsets: OffsetRange, markers: int) -> Loss:
    """The explanation for a range without a record: transaction markers fill it."""
    evidence = f"nothing is lost: the range holds transaction markers ({markers}) and no record"
    return Loss(Cause.MARKERS, *offsets.key, offsets.start, offsets.end, offsets.end, evidence)
