"""What a driver sees of the cluster before a batch, and what it makes of the difference to what it saw before."""

from __future__ import annotations

from dataclasses import dataclass

from insync.client.model import Offset, Topic
from insync.spark import triage
from insync.spark.cluster_view import ClusterView
from insync.spark.options import EARLIEST, LATEST
from insync.spark.planning import Key, Offsets
from insync.spark.stream_offsets import StreamOffset
from insync.spark.triage import Expected, Loss
from insync.wire.types import ZERO_UUID


@dataclass(frozen=True, slots=True)
class Seen:
    topics: dict[str, Topic]
    latest: dict[Key, Offset]

    @property
    def offsets(self) -> Offsets:
        return {key: found.offset for key, found in self.latest.items()}

    @property
    def epochs(self) -> dict[Key, int]:
        return {key: found.leader_epoch for key, found in self.latest.items()}

    @property
    def ids(self) -> dict[str, str]:
        return {name: str(topic.id) for name, topic in self.topics.items() if topic.id != ZERO_UUID}


def look(view: ClusterView, *, insist: bool) -> Seen:
    """Topics and their ends; who insists gets an error for what is missing."""
    known = view.topics(insist=insist)
    keys = view.partitions(known, insist=insist)
    return Seen(known, view.find(dict.fromkeys(keys, LATEST), known))


def beginning(view: ClusterView, done: StreamOffset, now: Seen, *, fail: bool) -> Offsets:
    """Where the next batch begins: where the last one ended, the earliest offset of partitions that are new, and for
    those that lost records, unless that is a failure, where there are some again."""
    asked = [key for key in now.latest if _needs_earliest(key, done, now)]
    earliest = view.find(dict.fromkeys(asked, EARLIEST), now.topics)
    losses = _losses(view, done, now, earliest)
    triage.report(tuple(losses.values()), fail=fail)
    found: Offsets = {}
    for key in now.latest:
        loss = losses.get(key)
        if loss is not None and loss.resume is not None:
            found[key] = loss.resume
        else:
            found[key] = done.offsets[key] if key in done.offsets else earliest[key].offset
    return found


def within(view: ClusterView, start: Offsets, end: Offsets, now: Seen, *, fail: bool) -> None:
    """A batch query's range, cut in place to what the log has; a difference is a loss."""
    earliest = view.find(dict.fromkeys(start, EARLIEST), now.topics)
    losses: list[Loss | None] = []
    for key, first in start.items():
        latest, begins = now.latest[key].offset, earliest[key].offset
        if end[key] > latest:
            losses.append(triage.beyond(key, max(first, latest), end[key], now.latest[key]))
        if first < begins and first < end[key]:
            losses.append(triage.retained(key, Expected(first, end[key]), earliest[key], now.latest[key]))
        start[key] = min(max(first, begins), latest)
        end[key] = max(min(end[key], latest), start[key])
    triage.report(tuple(each for each in losses if each is not None), fail=fail)


def _needs_earliest(key: Key, done: StreamOffset, now: Seen) -> bool:
    """Where nothing came since, nothing will be read, and it does not matter where the log begins."""
    return done.offsets.get(key) != now.latest[key].offset or done.id_of(key[0]) != now.ids.get(key[0], "")


def _losses(view: ClusterView, done: StreamOffset, now: Seen, earliest: dict[Key, Offset]) -> dict[Key, Loss]:
    found = {}
    for key, start in done.offsets.items():
        latest = now.latest.get(key)
        end = max(start, latest.offset if latest else 0)
        if done.initial and latest is not None and start > latest.offset:  # an option names it: nobody has seen it
            found[key] = triage.beyond(key, latest.offset, start, latest)
            continue
        expected = Expected(start, end, done.epochs.get(key, -1), done.id_of(key[0]))
        loss = triage.examine(view, key, expected, topics=now.topics, earliest=earliest.get(key), latest=latest)
        if loss is not None:
            found[key] = loss
    return found
