"""What a driver asks a cluster: which partitions there are, and where they begin, end, or were at a given time."""

from __future__ import annotations

import re
from collections.abc import Mapping
from uuid import UUID

from insync.client import groups, offsets, topics
from insync.client.blocking import Blocking
from insync.client.cluster import Cluster
from insync.client.errors import UnknownTopic, check
from insync.client.model import Topic
from insync.spark.options import LATEST, OptionError, Position, SourceOptions
from insync.spark.planning import Key, Offsets

READ_COMMITTED = "read_committed"


class ClusterView:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client = Blocking(options.bootstrap, timeout=min(options.timeout_s, 60.0), client_id="insync-spark")
        self._isolation = int(options.isolation == READ_COMMITTED)

    def close(self) -> None:
        self._client.close()

    def topics(self) -> dict[str, Topic]:
        """Those that the options name. What is missing now may come: only `assign` insists on its partitions."""
        names, pattern = self._options.topics, self._options.pattern
        found = {topic.name: topic for topic in self._client.call(topics.describe) if not topic.internal}
        if pattern:
            return {name: topic for name, topic in found.items() if re.fullmatch(pattern, name)}
        wanted = names or tuple(dict.fromkeys(topic for topic, _ in self._options.assigned))
        if missing := [name for name in wanted if name not in found]:
            raise UnknownTopic(f"topic '{missing[0]}' does not exist (option '{self._subscription()}')")
        return {name: found[name] for name in wanted}

    def partitions(self, known: Mapping[str, Topic] | None = None) -> list[Key]:
        known = self.topics() if known is None else known
        existing = [(topic.name, partition.index) for topic in known.values() for partition in topic.partitions]
        if not self._options.assigned:
            return sorted(existing)
        if missing := [key for key in self._options.assigned if key not in existing]:
            raise UnknownTopic(f"partition {missing[0][0]}-{missing[0][1]} does not exist (option 'assign')")
        return sorted(self._options.assigned)

    def topic_ids(self, known: Mapping[str, Topic]) -> dict[str, UUID]:
        return {name: topic.id for name, topic in known.items()}

    def at(self, timestamp: int, keys: list[Key]) -> Offsets:
        """Where each partition is at a time in ms, or at EARLIEST or LATEST; -1 if nothing is that new."""
        return self.at_each(dict.fromkeys(keys, timestamp))

    def at_each(self, wanted: Mapping[Key, int]) -> Offsets:
        if not wanted:
            return {}
        names = sorted({topic for topic, _ in wanted})

        async def ask(cluster: Cluster) -> Offsets:
            described = await topics.describe(cluster, names)
            found = await offsets.of_partitions(cluster, described, wanted, isolation=self._isolation)
            for (topic, index), offset in found.items():
                check(offset.error, f"asking for the offsets of {topic}-{index}")
            return {key: offset.offset for key, offset in found.items()}

        return self._client.call(ask)

    def resolve(self, position: Position, keys: list[Key], *, latest_without_match: bool) -> Offsets:
        """Every partition's offset, as an option names it."""
        if position.timestamp is not None or position.timestamps:
            return self._by_time(position, keys, latest_without_match=latest_without_match)
        if position.offsets:
            self._same_partitions("Offsets", position.offsets, keys)
        named = {key: position.offsets.get(key, position.offset) for key in keys}
        found = {key: offset for key, offset in named.items() if offset >= 0}
        return found | self.at_each({key: offset for key, offset in named.items() if offset < 0})

    def epoch_ends(self, key: Key, epoch: int) -> tuple[int, int]:
        """(epoch, end): of the newest epoch that is not above `epoch`, as the leader knows it."""

        async def ask(cluster: Cluster) -> tuple[int, int]:
            topic, partition = await topics.partition_of(cluster, *key)
            found = await offsets.epoch_end(cluster, partition.leader, key, epoch)
            check(found.error, f"asking for the epochs of {topic.name}-{partition.index}")
            return found.leader_epoch, found.offset

        return self._client.call(ask)

    def commit(self, group: str, committed: Offsets) -> None:
        self._client.call(lambda cluster: groups.commit(cluster, group, committed))

    # --- helpers -----------------------------------------------------------------------------------------------------

    def _by_time(self, position: Position, keys: list[Key], *, latest_without_match: bool) -> Offsets:
        times = dict.fromkeys(keys, position.timestamp) if position.timestamp is not None else position.timestamps
        self._same_partitions("OffsetsByTimestamp", times, keys)
        found = self.at_each({key: int(time) for key, time in times.items() if time is not None})
        unmatched = [key for key, offset in found.items() if offset < 0]
        if unmatched and not latest_without_match:
            topic, index = unmatched[0]
            raise OptionError(
                f"no record of {topic}-{index} is at or after timestamp {times[unmatched[0]]}: choose an earlier one, "
                "or set 'startingOffsetsByTimestampStrategy' to latest"
            )
        return found | self.at_each(dict.fromkeys(unmatched, LATEST))

    def _same_partitions(self, option: str, given: Mapping[Key, object], keys: list[Key]) -> None:
        if sorted(given) != sorted(keys):
            odd = sorted(set(given).symmetric_difference(keys))
            topic, index = odd[0]
            which = "does not exist" if odd[0] in given else "is missing"
            raise OptionError(f"{topic}-{index} {which} in the JSON of the option for starting or ending {option}")

    def _subscription(self) -> str:
        return "subscribe" if self._options.topics else "assign"
