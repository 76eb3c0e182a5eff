"""The topics that a replay writes to: that they are there, are wide enough, and keep timestamps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from insync.client import apis, topics
from insync.client.client import Client
from insync.client.errors import UnknownTopicError, raise_for_error
from insync.client.model import Topic
from insync.client.offsets import LATEST, list_offsets_with_retry
from insync.client.sync_client import SyncClient
from insync.pipeline.ledger import Ledger
from insync.pipeline.replay.plan import ReplayError, Source
from insync.pipeline.replay.sender import Producer
from insync.pipeline.replay.state import Job
from insync.pipeline.wording import counted
from insync.wire.types import ms

BATCH_BYTES = 512 << 10
_ROOM = 1024
"""Of a batch, for what is not records."""


class Target:
    """The topics that are written to."""

    def __init__(self, client: SyncClient, names: Mapping[str, str], plan: Sequence[Source], *, create: bool) -> None:
        self._client = client
        self.topics = {name: self._topic(name, plan, create=create) for name in names.values()}
        self.batch_bytes = self._configs()

    def job(self, asked: Mapping[str, object], ledger: Ledger, plan: Sequence[Source]) -> Job:
        wanted = {(source.target, source.partition): LATEST for source in plan}
        ends = self._client.call(lambda cluster: list_offsets_with_retry(cluster, wanted))
        return Job(
            asked=dict(asked),
            ledger_entries=ledger.entries,
            producer=self._client.call(_producer),
            topic_ids={name: str(topic.id) for name, topic in self.topics.items()},
            starts={source.name: ends[source.target, source.partition].offset for source in plan},
        )

    def _topic(self, name: str, plan: Sequence[Source], *, create: bool) -> Topic:
        wanted = 1 + max(source.partition for source in plan if source.target == name)
        topic = find(self._client, name, create=create)
        if topic is None:
            self._client.call(lambda cluster: topics.create(cluster, name, partitions=wanted))
            topic = self._client.call(lambda cluster: topics.describe_one(cluster, name))
        if len(topic.partitions) < wanted:
            has = counted(len(topic.partitions), "partition")
            raise ReplayError(f"topic '{name}' has {has}, the lake has {wanted} to replay")
        return topic

    def _configs(self) -> dict[str, int]:
        names = list(self.topics)
        keys = ["max.message.bytes", "message.timestamp.type"]
        found = self._client.call(lambda cluster: topics.describe_topic_configs(cluster, names, keys))
        for name, configs in found.items():
            if configs.get("message.timestamp.type") == "LogAppendTime":
                raise ReplayError(f"topic '{name}' has message.timestamp.type LogAppendTime: timestamps would be lost")
        most = {name: int(configs.get("max.message.bytes") or BATCH_BYTES) for name, configs in found.items()}
        return {name: max(_ROOM, min(BATCH_BYTES, most.get(name, BATCH_BYTES) - _ROOM)) for name in names}


def find(client: SyncClient, name: str, *, create: bool) -> Topic | None:
    """None if it is still to be made."""
    try:
        return client.call(lambda cluster: topics.describe_one(cluster, name))
    except UnknownTopicError:
        if not create:
            raise ReplayError(f"there is no topic '{name}' to write to; --create makes it") from None
        return None


async def _producer(cluster: Client) -> Producer:
    values = {"transactional_id": None, "transaction_timeout": ms(60_000), "producer_id": -1, "producer_epoch": -1}
    answer = await cluster.call_any(apis.INIT_PRODUCER_ID, values)
    raise_for_error(answer.error_code, "asking for a producer id")
    return Producer(answer.producer_id, answer.producer_epoch)
