"""Offsets that should be there and are not: what happened to them, and what shows it.

A reader remembers more than an offset: the id of the topic, and the leader epoch under which it saw that offset. That
tells the causes apart.

- deleted: the topic is gone; recreated: it has another id, so its offsets are those of other records.
- truncation: the leader's log ends the remembered epoch below the remembered offset. Records that had been readable
  were cut off by an unclean election, and what is at these offsets now, if anything, is something else. That is found
  even after the log has grown past the offset again.
- retention: the log begins after the offset (retention by time or size, or DeleteRecords).
- markers: nothing is missing; the offsets are those of transaction markers, which are no records.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from insync.client.errors import ClientError
from insync.client.model import Offset, Topic
from insync.spark.cluster_view import ClusterView
from insync.spark.planning import Key, OffsetRange
from insync.wire.types import ZERO_UUID

log = logging.getLogger("insync.spark")


class Cause(StrEnum):
    RETENTION = "retention"
    TRUNCATION = "truncation"
    RECREATED = "recreated"
    DELETED = "deleted"
    MARKERS = "markers"


@dataclass(frozen=True, slots=True)
class Loss:
    """The offsets from `first` up to, not including, `end` are missing; reading can go on at `resume`, if anywhere."""

    cause: Cause
    topic: str
    partition: int
    first: int
    end: int
    resume: int | None
    evidence: str

    def __str__(self) -> str:
        if self.cause is Cause.DELETED:
            return (
                f"{self.topic}-{self.partition} cannot be read on from offset {self.first} (deleted): {self.evidence}"
            )
        lost = f"offsets {self.first} to {self.end - 1}" if self.end - self.first > 1 else f"offset {self.first}"
        return f"{self.topic}-{self.partition}: {lost} missing ({self.cause}): {self.evidence}"


class DataLoss(ClientError):  # noqa: N818  says what happened
    def __init__(self, losses: tuple[Loss, ...]) -> None:
        super().__init__(
            f"{'; '.join(sentences(losses))}. Set the option failOnDataLoss to false to go on with what is left"
        )
        self.losses = losses

    def __reduce__(self) -> tuple[type[DataLoss], tuple[tuple[Loss, ...]]]:
        return DataLoss, (self.losses,)


@dataclass(frozen=True, slots=True)
class Expected:
    """What a reader believes: that the offsets of the partition go on at `start`."""

    start: int
    end: int
    """One past the last that it wants; missing offsets are counted up to here."""
    epoch: int = -1
    topic_id: str = ""


def report(losses: tuple[Loss, ...], *, fail: bool) -> None:
    """An error, or a warning for each."""
    if losses and fail:
        raise DataLoss(losses)
    for sentence in sentences(losses):
        log.warning("%s", sentence)


def sentences(losses: Sequence[Loss]) -> list[str]:
    """One for each loss, and one for all partitions of a topic that is gone."""
    gone: dict[tuple[str, str], list[Loss]] = {}
    for each in losses:
        if each.cause is Cause.DELETED:
            gone.setdefault((each.topic, each.evidence), []).append(each)
    return [str(each) for each in losses if each.cause is not Cause.DELETED] + [
        str(each[0]) + (f" (and {len(each) - 1} more of its partitions)" if each[1:] else "") for each in gone.values()
    ]


def examine(
    view: ClusterView,
    key: Key,
    expected: Expected,
    *,
    topics: Mapping[str, Topic],
    earliest: Offset | None,
    latest: Offset | None,
) -> Loss | None:
    """None if nothing is missing. `topics`, `earliest` and `latest` are what the cluster says now."""
    topic = topics.get(key[0])
    if topic is None or latest is None or topic.partition(key[1]) is None:
        return _gone(key, expected, topic)
    return (
        recreated(key, expected, topic, earliest, latest)
        or truncated(view, key, expected, topic, earliest, latest)
        or retained(key, expected, earliest, latest)
    )


def recreated(key: Key, expected: Expected, topic: Topic, earliest: Offset | None, latest: Offset) -> Loss | None:
    if not expected.topic_id or topic.id == ZERO_UUID or str(topic.id) == expected.topic_id:
        return None
    begins = earliest.offset if earliest is not None else 0
    evidence = (
        f"the topic was deleted and made anew: its id was {expected.topic_id} and is {topic.id}, "
        f"and it has offsets {begins} to {latest.offset}"
    )
    return Loss(Cause.RECREATED, *key, expected.start, max(expected.end, expected.start + 1), begins, evidence)


def truncated(
    view: ClusterView, key: Key, expected: Expected, topic: Topic, earliest: Offset | None, latest: Offset
) -> Loss | None:
    """Only a leader in another epoch than the remembered one, or with too short a log, can have lost records."""
    short = latest.offset < expected.start
    known = expected.epoch >= 0 and latest.leader_epoch >= 0
    if not short and (not known or latest.leader_epoch == expected.epoch):
        return None
    epoch, end = view.epoch_ends(key, expected.epoch) if known else (-1, -1)
    if end >= expected.start or (end < 0 and not short):
        return None
    common = latest.offset if end < 0 else end
    partition = topic.partition(key[1])
    leader = f"broker {partition.leader} leads in epoch {latest.leader_epoch}" if partition else "nobody leads"
    seen = f"they were read under leader epoch {expected.epoch}, which" if known else "the log, which had them,"
    where = f" (as epoch {epoch})" if known and epoch != expected.epoch and epoch >= 0 else ""
    evidence = (
        f"{seen} now ends at offset {common}{where}; {leader}, and the high watermark is {latest.offset}: "
        "an unclean election, or a replica that lost its disk, cut them off"
    )
    resume = max(common, earliest.offset if earliest is not None else 0)
    return Loss(Cause.TRUNCATION, *key, common, expected.start, resume, evidence)


def retained(key: Key, expected: Expected, earliest: Offset | None, latest: Offset) -> Loss | None:
    if earliest is None or earliest.offset <= expected.start or expected.start >= expected.end:
        return None
    evidence = (
        f"the log begins at offset {earliest.offset} now and ends at {latest.offset} (epoch {latest.leader_epoch}): "
        "retention, or a request to delete records, removed what was before"
    )
    end = min(earliest.offset, expected.end)
    return Loss(Cause.RETENTION, *key, expected.start, end, earliest.offset, evidence)


def beyond(key: Key, first: int, end: int, latest: Offset) -> Loss:
    """An offset that a user named, and of which no epoch is known."""
    evidence = (
        f"the log ends at offset {latest.offset} (epoch {latest.leader_epoch}): "
        "either it never had them, or an unclean election cut them off"
    )
    return Loss(Cause.TRUNCATION, *key, first, end, latest.offset, evidence)


def _gone(key: Key, expected: Expected, topic: Topic | None) -> Loss:
    known = f"; its id was {expected.topic_id}" if expected.topic_id else ""
    evidence = f"the topic does not exist any more{known}" if topic is None else "the partition does not exist any more"
    return Loss(Cause.DELETED, *key, expected.start, max(expected.end, expected.start + 1), None, evidence)


def only_markers(each: OffsetRange, markers: int) -> Loss | None:
    """Of a range that held no record: whether transaction markers fill it."""
    if markers <= 0:
        return None
    evidence = f"nothing is lost: transaction markers ({markers}), and no record"
    return Loss(Cause.MARKERS, *each.key, each.start, each.end, each.end, evidence)
