"""What a driver asks a cluster: which partitions there are, and where they begin, end, or were at a given time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from insync.client import groups, offsets, topics
from insync.client.client import Client
from insync.client.errors import NoBrokerError, UnknownTopicError, raise_for_error
from insync.client.model import Offset, Topic
from insync.client.sync_client import SyncClient
from insync.spark.options import CLIENT_ID, LATEST, READ_COMMITTED, OptionError, Position, SourceOptions
from insync.spark.planning import Key, Offsets

SETTLE_S = 1.0
LONGEST_S = 60.0
"""That a question may take, leaders dying included."""


class ClusterView:
    def __init__(self, options: SourceOptions, client: SyncClient | None = None) -> None:
        self._options = options
        self._client = client or SyncClient(
            options.bootstrap,
            timeout_s=min(options.timeout_s, LONGEST_S),
            client_id=CLIENT_ID,
            settings=options.client,
        )
        self._isolation = int(options.isolation == READ_COMMITTED)

    @staticmethod
    def of_source(options: SourceOptions) -> ClusterView:
        try:
            return ClusterView(options)
        except NoBrokerError as error:
            raise NoBrokerError(f"option 'kafka.bootstrap.servers' is {options.bootstrap!r}: {error}") from None

    def close(self) -> None:
        self._client.close()

    def topics(self, *, insist: bool = True) -> dict[str, Topic]:
        """Those that the options name; unless one insists, without those that do not exist."""
        options = self._options
        if options.pattern:
            found = (topic for topic in self._client.call(topics.describe) if not topic.internal)
            return {topic.name: topic for topic in found if re.fullmatch(options.pattern, topic.name)}
        wanted = options.topics or tuple(dict.fromkeys(topic for topic, _ in options.assigned))
        known = {topic.name: topic for topic in self._described(wanted)}
        missing = [name for name in wanted if name not in known]
        if missing and insist:
            raise OptionError(f"option {options.subscription}: there is no topic '{missing[0]}'")
        return {name: known[name] for name in wanted if name in known}

    def partitions(self, known: Mapping[str, Topic], *, insist: bool = True) -> list[Key]:
        existing = {(topic.name, partition.index): None for topic in known.values() for partition in topic.partitions}
        assigned = self._options.assigned
        if not assigned:
            return sorted(existing)
        missing = [key for key in assigned if key not in existing]
        if missing and insist:
            topic, index = missing[0]
            raise OptionError(f"option {self._options.subscription}: there is no partition {topic}-{index}")
        return sorted(key for key in assigned if key in existing)

    def find(self, wanted: Mapping[Key, int], known: Mapping[str, Topic] | None = None) -> dict[Key, Offset]:
        """Where each partition is at a time in ms, or at EARLIEST or LATEST: the offset, -1 if nothing is that new, and
        the epoch that goes with it."""
        described = tuple(known.values()) if known else ()
        return self._client.call(
            lambda cluster: offsets.list_offsets_with_retry(cluster, wanted, known=described, isolation=self._isolation)
        )

    def at_each(self, wanted: Mapping[Key, int], known: Mapping[str, Topic] | None = None) -> Offsets:
        return {key: found.offset for key, found in self.find(wanted, known).items()}

    def resolve(self, position: Position, keys: list[Key], *, latest_without_match: bool) -> Offsets:
        """Every partition's offset, as an option names it."""
        if position.timestamp is not None or position.timestamps:
            return self._by_time(position, keys, latest_without_match=latest_without_match)
        if position.offsets:
            self._same_partitions(position, position.offsets, keys)
        named = {key: position.offsets.get(key, position.offset) for key in keys}
        found = {key: offset for key, offset in named.items() if offset >= 0}
        return found | self.at_each({key: offset for key, offset in named.items() if offset < 0})

    def epoch_ends(self, key: Key, epoch: int) -> tuple[int, int]:
        """(epoch, end): of the newest epoch that is not above `epoch`, as the leader knows it."""

        async def ask(cluster: Client) -> tuple[int, int]:
            topic, partition = await topics.describe_partition(cluster, *key)
            found = await offsets.find_epoch_end(
                cluster, topic.name, partition, epoch, timeout_s=cluster.attempt_timeout_s
            )
            raise_for_error(found.error, f"asking for the epochs of {topic.name}-{partition.index}")
            return found.leader_epoch, found.offset

        return self._client.call(ask)

    def remember(self, heard: Iterable[tuple[str, int, int]]) -> None:
        """(topic id, partition, leader epoch): who leads in an older epoch is not listened to any more."""
        self._client.note_leader_epochs((UUID(topic_id), index, epoch) for topic_id, index, epoch in heard if topic_id)

    def commit(self, group: str, committed: Offsets) -> None:
        self._client.call(lambda cluster: groups.commit_offsets(cluster, group, committed))

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _described(self, names: Sequence[str]) -> list[Topic]:
        """Without those that are missing. A broker may hear of a new topic a moment later than others."""
        until = time.monotonic() + SETTLE_S
        while True:
            try:
                return self._client.call(lambda cluster: topics.describe(cluster, names))
            except UnknownTopicError:
                if time.monotonic() > until:
                    return [topic for topic in self._client.call(topics.describe) if topic.name in names]
            time.sleep(SETTLE_S / 10)

    def _by_time(self, position: Position, keys: list[Key], *, latest_without_match: bool) -> Offsets:
        times = position.timestamps
        if position.timestamp is not None:
            times = dict.fromkeys(keys, position.timestamp)
        self._same_partitions(position, times, keys)
        found = self.at_each(times)
        unmatched = [key for key, offset in found.items() if offset < 0]
        if unmatched and not latest_without_match:
            topic, index = unmatched[0]
            raise OptionError(
                f"option {position.option}: no record of {topic}-{index} is at or after {times[unmatched[0]]} ms: "
                "name an earlier time, or set 'startingOffsetsByTimestampStrategy' to latest"
            )
        return found | self.at_each(dict.fromkeys(unmatched, LATEST))

    def _same_partitions(self, position: Position, given: Mapping[Key, object], keys: list[Key]) -> None:
        if odd := sorted(set(given).symmetric_difference(keys)):
            topic, index = odd[0]
            which = "is not among the partitions to be read" if odd[0] in given else "is to be read and is not named"
            raise OptionError(f"option {position.option}: {topic}-{index} {which}")
