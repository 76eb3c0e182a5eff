"""The topics that a replay writes to: they must exist, have enough partitions, and keep timestamps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from insync.client import topics
from insync.client.errors import UnknownTopicError
from insync.client.model import Topic
from insync.client.offsets import LATEST, list_offsets_with_retry
from insync.client.sync_client import SyncClient
from insync.lake.ledger import Ledger
from insync.pipeline.fenced_sender import init_producer
from insync.pipeline.replay.plan import ReplayError, SourcePartition
from insync.pipeline.replay.state import ReplayJob
from insync.pipeline.text import pluralize

BATCH_BYTES = 512 << 10
_HEADER_BYTES = 1024
"""Reserved in a batch for what is not records."""


class ReplayTarget:
    def __init__(
        self, client: SyncClient, names: Mapping[str, str], plan: Sequence[SourcePartition], *, create: bool
    ) -> None:
        self._client = client
        self.topics = {name: self._prepare_topic(name, plan, create=create) for name in names.values()}
        self.batch_bytes = self._read_batch_limits()

    def make_job(self, request: Mapping[str, object], ledger: Ledger, plan: Sequence[SourcePartition]) -> ReplayJob:
        keys = {(source.target, source.partition): LATEST for source in plan}
        ends = self._client.call(lambda cluster: list_offsets_with_retry(cluster, keys))
        return ReplayJob(
            asked=dict(request),
            ledger_entries=ledger.entries,
            producer=self._client.call(init_producer),
            topic_ids={name: str(topic.id) for name, topic in self.topics.items()},
            starts={source.name: ends[source.target, source.partition].offset for source in plan},
        )

    def _prepare_topic(self, name: str, plan: Sequence[SourcePartition], *, create: bool) -> Topic:
        needed = 1 + max(source.partition for source in plan if source.target == name)
        topic = find_topic(self._client, name, create=create)
        if topic is None:
            self._client.call(lambda cluster: topics.create(cluster, name, partitions=needed))
            topic = self._client.call(lambda cluster: topics.describe_one(cluster, name))
        if len(topic.partitions) < needed:
            partitions = pluralize(len(topic.partitions), "partition")
            raise ReplayError(f"topic '{name}' has {partitions}, but the replay needs {needed}")
        return topic

    def _read_batch_limits(self) -> dict[str, int]:
        """By topic. Raises if a topic does not keep timestamps."""
        names = list(self.topics)
        keys = ["max.message.bytes", "message.timestamp.type"]
        described = self._client.call(lambda cluster: topics.describe_topic_configs(cluster, names, keys))
        for name, configs in described.items():
            if configs.get("message.timestamp.type") == "LogAppendTime":
                raise ReplayError(f"topic '{name}' has message.timestamp.type LogAppendTime: timestamps would be lost")
        limits = {name: int(configs.get("max.message.bytes") or BATCH_BYTES) for name, configs in described.items()}
        return {
            name: max(_HEADER_BYTES, min(BATCH_BYTES, limits.get(name, BATCH_BYTES) - _HEADER_BYTES)) for name in names
        }


def find_topic(client: SyncClient, name: str, *, create: bool) -> Topic | None:
    """None if it has to be created."""
    try:
        return client.call(lambda cluster: topics.describe_one(cluster, name))
    except UnknownTopicError:
        if not create:
            raise ReplayError(f"there is no topic '{name}' to write to; --create creates it") from None
        return None
