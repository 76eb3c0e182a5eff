"""What to archive next: from where the ledger ends to where the brokers' logs end.

Where the two contradict each other, `insync.spark.data_loss` explains why. A recreated topic begins a new generation.
Records that are gone before they were archived are an error, unless loss is allowed: then the ledger records what was
lost and why, and a truncated log continues as a new generation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from insync.client.errors import UnknownTopicError
from insync.client.model import Offset, Topic, TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.lake.ledger import Ledger, Range
from insync.pipeline.rounds import ClusterOptions
from insync.spark.cluster_view import ClusterView
from insync.spark.data_loss import Cause, Continuation, Loss, find_continuation_loss
from insync.spark.planning import OffsetRange, limit_batch, split_ranges
from insync.spark.source_options import SourceOptions

MIN_TASK_OFFSETS = 50_000
"""Ranges are not split into smaller ones for the sake of more tasks."""


class UnarchivedLossError(Exception):
    """Records are gone that were not archived yet."""

    def __init__(self, losses: list[Loss]) -> None:
        super().__init__(
            f"{'; '.join(map(str, losses))}. They were not archived; --allow-loss records the loss and continues"
        )
        self.losses = losses


@dataclass(slots=True)
class Plan:
    lost: list[Range] = field(default_factory=list)
    """Ranges to commit as lost before the others: they come first in their partitions."""
    notes: list[str] = field(default_factory=list)
    starts: dict[TopicPartition, Range] = field(default_factory=dict)
    """Where each partition continues, as an empty range."""
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    epochs: dict[TopicPartition, int] = field(default_factory=dict)
    """Of the leaders that reported the ends."""

    @property
    def backlog(self) -> int:
        return sum(self.ends[key] - start.start for key, start in self.starts.items())

    def limit_to(self, keys: Iterable[TopicPartition]) -> None:
        """Leave the other partitions for a later plan."""
        wanted = set(keys)
        self.ends = {key: end if key in wanted else self.starts[key].start for key, end in self.ends.items()}

    def split(self, *, max_offsets: int, tasks: int, rows_per_file: int) -> list[Range]:
        """Ranges of about `max_offsets` offsets in all, enough for `tasks` cores if they do not get too small."""
        starts = {key: planned.start for key, planned in self.starts.items()}
        ends = limit_batch(starts, self.ends, max_offsets)
        whole = [OffsetRange(*key, start, ends[key]) for key, start in starts.items()]
        size = sum(offsets.size for offsets in whole)
        min_tasks = min(tasks, size // MIN_TASK_OFFSETS) or None
        return [
            replace(
                self.starts[part.key],
                start=part.start,
                end=part.end,
                why=self.starts[part.key].why if part.start == starts[part.key] else "",
            )
            for part in split_ranges(whole, min_partitions=min_tasks, max_records=rows_per_file)
        ]


def open_view(cluster: ClusterOptions, topics: tuple[str, ...], pattern: str = "", *, isolation: str) -> ClusterView:
    return ClusterView(
        SourceOptions(
            bootstrap=cluster.bootstrap,
            client=cluster.client,
            isolation=isolation,
            topics=topics,
            pattern=pattern,
            whole_name=True,
            timeout_s=cluster.timeout_s,
        )
    )


def find_topics(view: ClusterView, names: tuple[str, ...]) -> dict[str, Topic]:
    """The topics to archive. Raises if one of `names` does not exist."""
    topics = view.describe_topics(must_exist=False)
    for name in names:
        if name not in topics:
            raise UnknownTopicError(name)
    return topics


def make_plan(view: ClusterView, ledger: Ledger, names: tuple[str, ...], *, allow_loss: bool) -> Plan:
    view.remember_epochs(
        (last.topic_id, last.partition, ledger.last_seen(last.key)[0]) for last in ledger.last_ranges()
    )
    topics = find_topics(view, names)
    keys = view.list_partitions(topics)
    earliest = view.list_offsets_and_epochs(dict.fromkeys(keys, EARLIEST), topics)
    latest = view.list_offsets_and_epochs(dict.fromkeys(keys, LATEST), topics)
    plan, losses = Plan(), []
    for key in keys:
        loss = find_archive_loss(view, ledger, key, topics, earliest[key], latest[key])
        if loss is not None and loss.cause is not Cause.RECREATED:
            losses.append(loss)
        _plan_partition(plan, ledger, key, topics[key[0]], loss, earliest[key])
        plan.ends[key] = max(latest[key].offset, plan.starts[key].start)
        plan.epochs[key] = latest[key].leader_epoch
    if losses and not allow_loss:
        raise UnarchivedLossError(losses)
    return plan


def find_archive_loss(
    view: ClusterView,
    ledger: Ledger,
    key: TopicPartition,
    topics: Mapping[str, Topic],
    earliest: Offset,
    latest: Offset,
) -> Loss | None:
    """Why a partition cannot continue where the ledger ends; None if it can."""
    last = ledger.last(key)
    if last is None:
        return None
    epoch, seen = ledger.last_seen(key)
    done = Continuation(offset=last.end, seen=seen, epoch=epoch, topic_id=last.topic_id)
    return find_continuation_loss(view, key, done, topics[key[0]], earliest, latest)


def _plan_partition(
    plan: Plan, ledger: Ledger, key: TopicPartition, topic: Topic, loss: Loss | None, earliest: Offset
) -> None:
    last = ledger.last(key)
    generation = 0 if last is None else last.generation
    start, why = earliest.offset if last is None else last.end, ""
    if loss is not None:
        plan.notes.append(str(loss))
        resume = earliest.offset if loss.resume is None else loss.resume
        if loss.cause is Cause.RETENTION:
            plan.lost.append(_make_range(key, topic, generation, start, resume, lost=str(loss)))
        else:
            generation, why = generation + 1, str(loss)
        start = resume
    plan.starts[key] = _make_range(key, topic, generation, start, start, why=why)


def _make_range(
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
