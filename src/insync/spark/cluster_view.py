"""What a driver asks a cluster: which partitions exist, and where they begin, end, or were at a given time.

Leaders are asked all at once. A view that is asked again, as a stream's is before each batch, remembers the topics: it
asks only whether they are still the same and have no more partitions, and describes the partitions whose leaders answer
that they have changed.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from uuid import UUID

from insync.client import apis, groups, offsets, topics
from insync.client.client import Client
from insync.client.errors import NoBrokerError, UnknownTopicError, raise_for_error
from insync.client.model import Broker, Offset, Topic, TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.client.sync_client import SyncClient
from insync.spark.option_values import OptionError, log
from insync.spark.planning import Offsets
from insync.spark.read_task import PlannedLeader
from insync.spark.source_options import CLIENT_ID, READ_COMMITTED, Position, SourceOptions
from insync.wire.types import ZERO_UUID

PROPAGATION_TIMEOUT_S = 1.0
"""A broker may learn of a new topic this much later than another."""
TIMEOUT_S = 60.0
"""For a request with its retries, an election included."""
METADATA_MAX_AGE_S = 60.0
"""After this time topics are described again, whatever is known of them: a leader that is cut off from the others goes
on answering, and does not say that it was replaced."""
MAX_PROBED = 50
"""Topics that are asked one by one whether they have changed; more are described."""
FETCH_BY_ID = 13
"""The first version of Fetch in which brokers compare the topic's id."""


class ClusterView:
    """The cluster of a source's options, seen through a client of its own or the one it is given."""

    def __init__(self, options: SourceOptions, client: SyncClient | None = None) -> None:
        self._options = options
        self._client = client or _connect(options)
        self._isolation = int(options.isolation == READ_COMMITTED)
        self._reported_missing: set[TopicPartition] = set()
        self._topics: dict[str, Topic] = {}
        """As they were described last."""
        self._described_s = 0.0

    def close(self) -> None:
        self._client.close()

    def describe_topics(self, *, must_exist: bool = True) -> dict[str, Topic]:
        """The topics that the options select. A missing one is an error, or is left out."""
        if not self._has_current_topics():
            self._topics = self._describe_topics(must_exist=must_exist)
            self._described_s = time.monotonic()
        return dict(self._topics)

    def _has_current_topics(self) -> bool:
        """Whether the topics that were described last have the same ids and partitions now."""
        known = self._topics
        is_old = time.monotonic() - self._described_s > METADATA_MAX_AGE_S
        if is_old or self._options.pattern or len(known) != len(self._named_topics) or len(known) > MAX_PROBED:
            return False

        async def probe(client: Client) -> dict[str, Topic]:
            """The topics with the partition after their last one, if there is one."""
            asked = (topics.describe_partitions(client, name, [len(known[name].partitions)]) for name in known)
            for topic in await asyncio.gather(*asked):
                if topic.partitions or topic.id == ZERO_UUID or topic.id != known[topic.name].id:
                    return {}
            return {name: client.leaders.with_newest_leaders(topic) for name, topic in known.items()}

        try:
            self._topics = self._client.call(probe)
        except UnknownTopicError:
            return False
        return bool(self._topics)

    def _describe_topics(self, *, must_exist: bool) -> dict[str, Topic]:
        options = self._options
        if options.pattern:
            candidates = (topic for topic in self._client.call(topics.describe) if not topic.internal)
            pattern = re.compile(options.pattern, re.ASCII)
            matches = pattern.fullmatch if options.whole_name else pattern.search
            return {topic.name: topic for topic in candidates if matches(topic.name)}
        names = self._named_topics
        existing = {topic.name: topic for topic in self._describe_existing(names)}
        missing = [name for name in names if name not in existing]
        if missing and must_exist:
            raise OptionError(f"option {options.subscription}: there is no topic '{missing[0]}'")
        return {name: existing[name] for name in names if name in existing}

    @property
    def _named_topics(self) -> tuple[str, ...]:
        return self._options.topics or tuple(dict.fromkeys(topic for topic, _ in self._options.assigned))

    def list_partitions(self, described: Mapping[str, Topic]) -> list[TopicPartition]:
        """The partitions of these topics that the options select. A missing one is left out, as the connector does."""
        existing = {
            (topic.name, partition.index): None for topic in described.values() for partition in topic.partitions
        }
        assigned = self._options.assigned
        if not assigned:
            return sorted(existing)
        missing = [key for key in assigned if key not in existing and key not in self._reported_missing]
        self._reported_missing.update(missing)
        for topic, index in missing:
            log.warning("Option %s: there is no partition %s-%d.", self._options.subscription, topic, index)
        return sorted(key for key in assigned if key in existing)

    def list_offsets_and_epochs(
        self, times: Mapping[TopicPartition, int], described: Mapping[str, Topic] | None = None
    ) -> dict[TopicPartition, Offset]:
        """Each partition's offset at a time in ms, or at EARLIEST or LATEST; -1 if no record is that new. Leaders that
        have changed since the topics were `described` are looked up."""
        known = tuple((described or self._topics).values())
        if not {topic for topic, _ in times} <= {topic.name for topic in known}:
            known = ()
        return self._client.call(
            lambda cluster: offsets.list_offsets_with_retry(cluster, times, known=known, isolation=self._isolation)
        )

    def list_offsets(self, times: Mapping[TopicPartition, int]) -> Offsets:
        return {key: at.offset for key, at in self.list_offsets_and_epochs(times).items()}

    def resolve_position(
        self, position: Position, keys: list[TopicPartition], *, latest_without_match: bool
    ) -> Offsets:
        """The offset of each partition that an option describes."""
        if position.is_time:
            return self._resolve_time(position, keys, latest_without_match=latest_without_match)
        if position.offsets:
            _check_same_partitions(position, position.offsets, keys)
        named = {key: position.offsets.get(key, position.offset) for key in keys}
        absolute = {key: offset for key, offset in named.items() if offset >= 0}
        return absolute | self.list_offsets({key: offset for key, offset in named.items() if offset < 0})

    def find_epoch_end(self, key: TopicPartition, epoch: int) -> tuple[int, int]:
        """(epoch, end) of the newest epoch that is not above `epoch`, in the leader's log."""

        async def ask(client: Client) -> tuple[int, int]:
            topic, partition = await topics.describe_partition(client, *key)
            end = await offsets.find_epoch_end(client, topic.name, partition, epoch, timeout_s=client.attempt_timeout_s)
            raise_for_error(end.error, f"asking for the epochs of {topic.name}-{partition.index}")
            return end.leader_epoch, end.offset

        return self._client.call(ask)

    def find_leaders(
        self, described: Mapping[str, Topic], keys: Collection[TopicPartition]
    ) -> dict[TopicPartition, PlannedLeader]:
        """Of the partitions that have one. None at all if brokers do not compare topic ids: a task that relied on its
        leader would not notice that the topic was recreated."""

        async def ask(client: Client) -> tuple[int, dict[int, Broker]]:
            connection = await client.any_connection()
            return connection.version(apis.FETCH) or 0, dict(client.brokers)

        if not described or not keys:
            return {}
        version, brokers = self._client.call(ask)
        return {
            (topic.name, partition.index): PlannedLeader(brokers[partition.leader], partition.leader_epoch)
            for topic in described.values()
            if version >= FETCH_BY_ID and topic.id != ZERO_UUID
            for partition in topic.partitions
            if partition.leader in brokers and (topic.name, partition.index) in keys
        }

    def describe_partition(self, key: TopicPartition) -> Topic | None:
        """The topic with this partition only; None if the topic does not exist."""
        deadline = time.monotonic() + PROPAGATION_TIMEOUT_S
        while True:
            try:
                return self._client.call(lambda cluster: topics.describe_partitions(cluster, key[0], [key[1]]))
            except UnknownTopicError:
                if time.monotonic() > deadline:
                    return None
            time.sleep(PROPAGATION_TIMEOUT_S / 10)

    def describe_configs(self, names: Sequence[str], keys: Sequence[str]) -> dict[str, dict[str, str]]:
        """Settings of topics; a topic whose settings cannot be read is left out."""
        return self._client.call(lambda cluster: topics.describe_topic_configs(cluster, names, keys))

    def measure_bytes_per_offset(
        self, described: Mapping[str, Topic], latest: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, float]:
        """On the leaders' disks; without empty partitions, and those whose leader does not tell."""
        leaders = {
            (topic.name, partition.index): partition.leader
            for topic in described.values()
            for partition in topic.partitions
            if (topic.name, partition.index) in latest
        }
        brokers = sorted({leader for leader in leaders.values() if leader >= 0})
        logs = self._client.call(
            lambda cluster: offsets.describe_replica_logs(cluster, brokers, tuple(described.values()))
        )
        earliest = ClusterView.list_offsets_and_epochs(self, dict.fromkeys(latest, EARLIEST), described)  # not a lake's
        return {
            key: logs[leader][key].size / (latest[key] - earliest[key].offset)
            for key, leader in leaders.items()
            if key in logs.get(leader, {}) and latest[key] > earliest[key].offset
        }

    def remember_epochs(self, epochs: Iterable[tuple[str, int, int]]) -> None:
        """Ignore from now on leaders of older epochs than these (topic id, partition, leader epoch)."""
        self._client.note_leader_epochs((UUID(topic_id), index, epoch) for topic_id, index, epoch in epochs if topic_id)

    def commit_offsets(self, group: str, committed: Offsets) -> None:
        self._client.call(lambda cluster: groups.commit_offsets(cluster, group, committed))

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _describe_existing(self, names: Sequence[str]) -> list[Topic]:
        deadline = time.monotonic() + PROPAGATION_TIMEOUT_S
        while True:
            try:
                return self._client.call(lambda cluster: topics.describe(cluster, names))
            except UnknownTopicError:
                if time.monotonic() > deadline:
                    return [topic for topic in self._client.call(topics.describe) if topic.name in names]
            time.sleep(PROPAGATION_TIMEOUT_S / 10)

    def _resolve_time(self, position: Position, keys: list[TopicPartition], *, latest_without_match: bool) -> Offsets:
        times = position.timestamps
        if position.timestamp is not None:
            times = dict.fromkeys(keys, position.timestamp)
        _check_same_partitions(position, times, keys)
        matches = self.list_offsets(times)
        unmatched = [key for key, offset in matches.items() if offset < 0]
        if unmatched and not latest_without_match:
            topic, index = unmatched[0]
            raise OptionError(
                f"option {position.option}: no record of {topic}-{index} is at or after {times[unmatched[0]]} ms: "
                "name an earlier time, or set 'startingOffsetsByTimestampStrategy' to latest"
            )
        return matches | self.list_offsets(dict.fromkeys(unmatched, LATEST))


def _connect(options: SourceOptions) -> SyncClient:
    try:
        return SyncClient(
            options.bootstrap,
            timeout_s=min(options.timeout_s, TIMEOUT_S),
            client_id=CLIENT_ID,
            settings=options.client,
        )
    except NoBrokerError as error:
        raise NoBrokerError(f"option 'kafka.bootstrap.servers' is {options.bootstrap!r}: {error}") from None


def _check_same_partitions(
    position: Position, given: Mapping[TopicPartition, object], keys: list[TopicPartition]
) -> None:
    if differing := sorted(set(given).symmetric_difference(keys)):
        topic, index = differing[0]
        problem = "is not among the partitions to read" if differing[0] in given else "is to be read but not named"
        raise OptionError(f"option {position.option}: {topic}-{index} {problem}")
