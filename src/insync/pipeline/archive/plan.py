"""What to archive next: from where the ledger ends to where the brokers' logs end.

Where the two contradict each other, `insync.spark.data_loss` explains why. A recreated topic begins a new generation.
Records that are gone before they were archived are an error, unless loss is allowed: then the ledger records what was
lost and why, and a truncated log continues as a new generation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from insync.client.errors import UnknownTopicError
from insync.client.model import Offset, Topic, TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.client.settings import DEFAULT_SETTINGS, ClientSettings
from insync.pipeline.ledger import Ledger, Range
from insync.spark.cluster_view import ClusterView
from insync.spark.data_loss import Cause, Expected, Loss, recreated, removed_by_retention, truncated
from insync.spark.planning import OffsetRange, limit_batch, split_ranges
from insync.spark.source_options import SourceOptions

SMALLEST_CUT = 50_000
"""Offsets: a range is not divided among more cores into pieces smaller than this."""


class Lost(Exception):  # noqa: N818  says what happened
    """Records are gone that were not archived yet."""

    def __init__(self, losses: list[Loss]) -> None:
        told = "; ".join(str(each) for each in losses)
        super().__init__(f"{told}. Nothing was archived of them; with --allow-loss the ledger records it and goes on")
        self.losses = losses


@dataclass(slots=True)
class Plan:
    lost: list[Range] = field(default_factory=list)
    """For the ledger, before anything else: they come first in their partitions."""
    notes: list[str] = field(default_factory=list)
    starts: dict[TopicPartition, Range] = field(default_factory=dict)
    """Where each partition goes on, as a range without an end."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """Of the leaders that told the ends."""

    @property
    def backlog(self) -> int:
        return sum(self.ends[key] - start.start for key, start in self.starts.items())

    def ranges(self, *, most: int, tasks: int, per_file: int) -> list[Range]:
        """About `most` offsets, cut for `tasks` cores."""
        starts = {key: each.start for key, each in self.starts.items()}
        ends = limit_batch(starts, self.ends, most)
        whole = [OffsetRange(*key, start, ends[key]) for key, start in starts.items()]
        size = sum(each.size for each in whole)
        cut = split_ranges(whole, min_partitions=min(tasks, size // SMALLEST_CUT) or None, max_records=per_file)
        first = {(each.topic, each.partition): each.start for each in reversed(cut)}
        return [
            replace(
                self.starts[each.topic, each.partition],
                start=each.start,
                end=each.end,
                why=self.starts[each.topic, each.partition].why
                if first[each.topic, each.partition] == each.start
                else "",
            )
            for each in cut
        ]


def view_of(
    bootstrap: str,
    topics: tuple[str, ...],
    pattern: str = "",
    *,
    isolation: str,
    timeout_s: float,
    client: ClientSettings = DEFAULT_SETTINGS,
) -> ClusterView:
    return ClusterView(
        SourceOptions(
            bootstrap=bootstrap,
            client=client,
            isolation=isolation,
            topics=topics,
            pattern=pattern,
            timeout_s=timeout_s,
        )
    )


def known_topics(view: ClusterView, names: tuple[str, ...]) -> dict[str, Topic]:
    """Those to be archived; all that were named must be there."""
    found = view.describe_topics(must_exist=False)
    for name in names:
        if name not in found:
            raise UnknownTopicError(name)
    return found


def make(view: ClusterView, ledger: Ledger, names: tuple[str, ...], *, allow_loss: bool) -> Plan:
    view.remember_epochs((each.topic_id, each.partition, ledger.last_seen(each.key)[0]) for each in ledger.newest())
    topics = known_topics(view, names)
    keys = view.list_partitions(topics)
    earliest = view.list_offsets_and_epochs(dict.fromkeys(keys, EARLIEST), topics)
    latest = view.list_offsets_and_epochs(dict.fromkeys(keys, LATEST), topics)
    plan, losses = Plan(), []
    for key in keys:
        loss = missing(view, ledger, key, topics, earliest[key], latest[key])
        if loss is not None and loss.cause is not Cause.RECREATED:
            losses.append(loss)
        _continue(plan, ledger, key, topics[key[0]], loss, earliest[key])
        plan.ends[key] = max(latest[key].offset, plan.starts[key].start)
        plan.epochs[key] = latest[key].leader_epoch
    if losses and not allow_loss:
        raise Lost(losses)
    return plan


def missing(
    view: ClusterView,
    ledger: Ledger,
    key: TopicPartition,
    topics: Mapping[str, Topic],
    earliest: Offset,
    latest: Offset,
) -> Loss | None:
    """Why a partition cannot go on where the ledger ends, if it cannot."""
    last = ledger.last(key)
    if last is None:
        return None
    epoch, seen = ledger.last_seen(key)
    topic = topics[key[0]]
    archived = Expected(seen if seen >= 0 else last.end, latest.offset, epoch, last.topic_id)
    going_on = Expected(last.end, max(latest.offset, earliest.offset), epoch, last.topic_id)
    return (
        recreated(key, going_on, topic, earliest, latest)
        or truncated(view, key, archived, topic, earliest, latest)
        or removed_by_retention(key, going_on, earliest, latest)
    )


def _continue(
    plan: Plan, ledger: Ledger, key: TopicPartition, topic: Topic, loss: Loss | None, earliest: Offset
) -> None:
    last = ledger.last(key)
    generation = 0 if last is None else last.generation
    start, why = earliest.offset if last is None else last.end, ""
    if loss is not None:
        plan.notes.append(str(loss))
        resume = earliest.offset if loss.resume is None else loss.resume
        if loss.cause is Cause.RETENTION:
            plan.lost.append(_range(key, topic, generation, start, resume, lost=str(loss)))
        else:
            generation, why = generation + 1, str(loss)
        start = resume
    plan.starts[key] = _range(key, topic, generation, start, start, why=why)


def _range(
    key: TopicPartition, topic: Topic, generation: int, start: int, end: int, *, lost: str = "", why: str = ""
) -> Range:
    return Range(
        topic=key[0],
        topic_id=str(topic.id),
        partition=key[1],
        generation=generation,
        start=start,
        end=end,
        lost=lost,
        why=why,
    )
