"""The topics that a mirror writes to: created like the source's, or checked.

A topic is created with the source's number of partitions and with the configs that are set on the source's topic. Left
out are those that name brokers, and message.timestamp.type: the target keeps the source's timestamps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from insync.client import topics
from insync.client.errors import RefusedError, UnknownTopicError
from insync.client.model import Config, Topic
from insync.client.offsets import LATEST, list_offsets_with_retry
from insync.client.sync_client import SyncClient
from insync.pipeline.mirror.batches import BatchLimits
from insync.pipeline.mirror.errors import MirrorError
from insync.pipeline.mirror.state import MirroredTopic, MirrorState
from insync.pipeline.text import pluralize

MERGED_BYTES = 512 << 10
_HEADER_BYTES = 1024
"""Reserved in a batch for what is not records."""
MAX_MESSAGE_BYTES, CLEANUP_POLICY, TIMESTAMP_TYPE = "max.message.bytes", "cleanup.policy", "message.timestamp.type"
NOT_COPIED = (TIMESTAMP_TYPE, "leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
TOPIC_CONFIG = 1
"""Kafka's number for a config that is set on the topic itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSettings:
    """How target topics are made."""

    create: bool = True
    """Create missing topics and partitions."""
    copy_configs: bool = True
    configs: Mapping[str, str] = field(default_factory=dict)
    """Set on the target beside the copied ones."""
    replication_factor: int = -1
    append: bool = False
    """Begin mirroring into topics that have records."""


@dataclass(frozen=True, slots=True)
class TargetTopic:
    topic: Topic
    limits: BatchLimits
    is_compacted: bool


class MirrorTargets:
    def __init__(self, source: SyncClient, target: SyncClient, settings: TopicSettings) -> None:
        self._source = source
        self._target = target
        self._settings = settings
        self.notes: list[str] = []
        self.topics: dict[str, TargetTopic] = {}
        """By the source's name."""

    def prepare(self, topic: Topic, name: str, state: MirrorState) -> dict[int, int]:
        """Make topic `name` ready for the partitions of the source's `topic`, and note it in the state. Returns where
        its partitions end that are new to the mirror."""
        target = self._find_topic(name)
        known = state.topics.get(topic.name)
        if known is not None and target is not None and str(target.id) != known.target_id:
            raise MirrorError(
                f"topic '{name}' of the target was recreated since this mirror began; name another state directory to "
                "mirror it from the beginning"
            )
        if known is not None and target is None:
            raise MirrorError(f"topic '{name}' of the target was deleted since this mirror began")
        target = self._create(topic, name) if target is None else self._check(topic, target)
        self.topics[topic.name] = self._read_settings(target)
        state.topics[topic.name] = known or MirroredTopic(id=str(topic.id), target=name, target_id=str(target.id))
        new = [p.index for p in topic.partitions if (topic.name, p.index) not in state.partitions]
        return self._list_ends(name, new)

    def _find_topic(self, name: str) -> Topic | None:
        try:
            return self._target.call(lambda cluster: topics.describe_one(cluster, name))
        except UnknownTopicError:
            if not self._settings.create:
                raise MirrorError(f"the target has no topic '{name}', and --no-create forbids creating it") from None
            return None

    def _create(self, topic: Topic, name: str) -> Topic:
        configs = self._chosen_configs(topic.name)
        count, factor = len(topic.partitions), self._settings.replication_factor
        try:
            self._target.call(
                lambda cluster: topics.create(
                    cluster, name, partitions=count, replication_factor=factor, configs=configs
                )
            )
        except RefusedError as error:
            given = ", ".join(f"{key}={value}" for key, value in configs.items())
            hint = f" with {given}; --no-copy-configs and --config choose others" if configs else ""
            raise MirrorError(f"the target refused topic '{name}'{hint}: {error}") from None
        return self._target.call(lambda cluster: topics.describe_one(cluster, name))

    def _check(self, topic: Topic, target: Topic) -> Topic:
        needed, existing = len(topic.partitions), len(target.partitions)
        if existing > needed:
            raise MirrorError(
                f"topic '{target.name}' of the target has {pluralize(existing, 'partition')} and '{topic.name}' "
                f"has {needed}: a mirror writes partition to partition"
            )
        if existing < needed:
            if not self._settings.create:
                raise MirrorError(
                    f"topic '{target.name}' of the target has {existing} of {needed} partitions, and --no-create "
                    "forbids adding the others"
                )
            self._target.call(lambda cluster: topics.create_partitions(cluster, target.name, needed))
            self.notes.append(
                f"topic '{target.name}': {pluralize(existing, 'partition')} became {needed}, as in the source"
            )
            target = self._target.call(lambda cluster: topics.describe_one(cluster, target.name))
        if topic.name not in self.topics:
            chosen = self._chosen_configs(topic.name)
            self.notes += find_config_differences(
                target.name, chosen, self._describe_configs(self._target, target.name)
            )
        return target

    def _chosen_configs(self, name: str) -> dict[str, str]:
        copied: dict[str, str] = {}
        if self._settings.copy_configs:
            copied = select_copied(self._describe_configs(self._source, name))
        return copied | dict(self._settings.configs)

    @staticmethod
    def _describe_configs(client: SyncClient, name: str) -> dict[str, Config]:
        return client.call(lambda cluster: topics.describe_configs(cluster, name))

    def _read_settings(self, target: Topic) -> TargetTopic:
        keys = [MAX_MESSAGE_BYTES, CLEANUP_POLICY, TIMESTAMP_TYPE]
        described = self._target.call(lambda cluster: topics.describe_topic_configs(cluster, [target.name], keys))
        configs = described.get(target.name, {})
        if configs.get(TIMESTAMP_TYPE) == "LogAppendTime":
            raise MirrorError(
                f"topic '{target.name}' of the target has {TIMESTAMP_TYPE} LogAppendTime: timestamps would be lost"
            )
        max_bytes = int(configs.get(MAX_MESSAGE_BYTES) or MERGED_BYTES)
        merged = max(_HEADER_BYTES, min(MERGED_BYTES, max_bytes - _HEADER_BYTES))
        is_compacted = "compact" in configs.get(CLEANUP_POLICY, "compact")  # unreadable: it may be
        return TargetTopic(target, BatchLimits(merged_bytes=merged, max_bytes=max_bytes), is_compacted)

    def _list_ends(self, name: str, partitions: list[int]) -> dict[int, int]:
        wanted = {(name, index): LATEST for index in partitions}
        offsets = self._target.call(lambda cluster: list_offsets_with_retry(cluster, wanted))
        ends = {index: offset.offset for (_, index), offset in offsets.items()}
        filled = [index for index, end in ends.items() if end > 0]
        if filled and not self._settings.append:
            raise MirrorError(
                f"{name}-{filled[0]} of the target has records already, and the state knows of no mirror into it: "
                "name the state directory of that mirror with --state, or write behind them with --append"
            )
        return ends


def select_copied(configs: Mapping[str, Config]) -> dict[str, str]:
    """The configs that are set on a topic itself and mean the same in another cluster."""
    return {
        name: config.value or ""
        for name, config in configs.items()
        if config.source == TOPIC_CONFIG and name not in NOT_COPIED and not config.sensitive
    }


def find_config_differences(name: str, chosen: Mapping[str, str], actual: Mapping[str, Config]) -> list[str]:
    """A sentence for each config of target topic `name` that is not as chosen."""
    return [
        f"topic '{name}': {key} is {_quote(value)} in the source and {_quote(_value_of(actual, key))} in the target"
        for key, value in sorted(chosen.items())
        if _value_of(actual, key) != value
    ]


def _value_of(configs: Mapping[str, Config], key: str) -> str | None:
    return configs[key].value if key in configs else None


def _quote(value: str | None) -> str:
    return "not known" if value is None else f"'{value}'"
