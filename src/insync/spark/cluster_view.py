"""What a driver asks a cluster: which partitions exist, and where they begin, end, or were at a given time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from insync.client import groups, offsets, topics
from insync.client.client import Client
from insync.client.errors import NoBrokerError, UnknownTopicError, raise_for_error
from insync.client.model import Offset, Topic, TopicPartition
from insync.client.offsets import EARLIEST, LATEST
from insync.client.sync_client import SyncClient
from insync.spark.option_values import OptionError, log
from insync.spark.planning import Offsets
from insync.spark.source_options import CLIENT_ID, READ_COMMITTED, Position, SourceOptions

PROPAGATION_TIMEOUT_S = 1.0
"""A broker may learn of a new topic this much later than another."""
TIMEOUT_S = 60.0
"""For a request with its retries, an election included."""


class ClusterView:
    """The cluster of a source's options, seen through a client of its own or the one it is given."""

    def __init__(self, options: SourceOptions, client: SyncClient | None = None) -> None:
        self._options = options
        self._client = client or _connect(options)
        self._isolation = int(options.isolation == READ_COMMITTED)
        self._reported_missing: set[TopicPartition] = set()

    def close(self) -> None:
        self._client.close()

    def describe_topics(self, *, must_exist: bool = True) -> dict[str, Topic]:
        """The topics that the options select. A missing one is an error, or is left out."""
        options = self._options
        if options.pattern:
            candidates = (topic for topic in self._client.call(topics.describe) if not topic.internal)
            pattern = re.compile(options.pattern, re.ASCII)
            matches = pattern.fullmatch if options.whole_name else pattern.search
            return {topic.name: topic for topic in candidates if matches(topic.name)}
        names = options.topics or tuple(dict.fromkeys(topic for topic, _ in options.assigned))
        existing = {topic.name: topic for topic in self._describe_existing(names)}
        missing = [name for name in names if name not in existing]
        if missing and must_exist:
            raise OptionError(f"option {options.subscription}: there is no topic '{missing[0]}'")
        return {name: existing[name] for name in names if name in existing}

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
        """Each partition's offset at a time in ms, or at EARLIEST or LATEST; -1 if no record is that new. `described`
        saves looking the leaders up."""
        known = tuple(described.values()) if described else ()
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
