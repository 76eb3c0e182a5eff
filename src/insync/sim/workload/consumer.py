"""Simulated readers: a consumer that sometimes rereads, and a poller of the latest offset.

They record what they read, with the times of request and response; the properties decide whether it is correct.
"""

from __future__ import annotations

from typing import Any

from insync.metadata.partition import PartitionKey
from insync.properties.history import Fingerprint, History, ListedOffset, Read
from insync.sansio import Message
from insync.sim.plans.plan import ClientPlan
from insync.sim.workload.client import Client, Leader, MetadataCache
from insync.wire import batch
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, list_offsets
from insync.wire.types import ms

EARLIEST, LATEST = -2, -1
REREAD_PROBABILITY = 0.15
"""The probability that a consumer reads again what it has read before."""


class Consumer:
    def __init__(self, client: Client, plan: ClientPlan, history: History, topics: tuple[str, ...]) -> None:
        self.client = client
        self.reads = 0
        self._plan = plan
        self._history = history
        self._cache = MetadataCache(client, topics)
        self._positions: dict[PartitionKey, int] = {}
        self._busy: dict[PartitionKey, None] = {}

    def start(self) -> None:
        self._cache.start()
        self._tick()

    def _tick(self) -> None:
        if not self.client.active:
            return
        self.client.later(self._plan.every_ms, self._tick)
        key = self._cache.pick_partition()
        if key is not None and key not in self._busy:
            self._fetch(key, self._cache.leaders[key])

    def _fetch(self, key: PartitionKey, leader: Leader) -> None:
        rng = self.client.rng
        position = self._positions.get(key, 0)
        rereads = position > 0 and rng.random() < REREAD_PROBABILITY
        offset = rng.randrange(position) if rereads else position
        epoch = leader.epoch if rng.random() < 0.8 else -1
        started = self.client.engine.now

        def on_response(response: Message | None, now: int) -> None:
            self._busy.pop(key, None)
            if response is None or response.error_code is not ErrorCode.none or not response.responses:
                self._cache.refresh()
                return
            self._on_fetched(key, leader, response.responses[0].partitions[0], (started, now, offset, epoch))

        self._busy[key] = None
        self.client.ask(leader.node, _fetch_request(key, offset, epoch), on_response)

    def _on_fetched(self, key: PartitionKey, leader: Leader, answer: Any, asked: tuple[int, int, int, int]) -> None:
        started, now, offset, epoch = asked
        if answer.error_code is ErrorCode.offset_out_of_range:
            self._find_earliest(key, leader)
        elif answer.error_code is not ErrorCode.none:
            self._cache.refresh()
        else:
            batches = _fingerprints(answer.records)
            self.reads += len(batches)
            read = Read(started, now, key, offset, answer.high_watermark, batches, epoch, f"consumer {self.client.id}")
            self._history.append(read)
            if batches:
                self._positions[key] = max(self._positions.get(key, 0), batches[-1].last_offset + 1)

    def _find_earliest(self, key: PartitionKey, leader: Leader) -> None:
        """The position is gone, by retention or by an unclean election."""

        def on_response(response: Message | None, _now: int) -> None:
            answer = None if response is None else response.topics[0].partitions[0]
            if answer is not None and answer.error_code is ErrorCode.none:
                self._positions[key] = answer.offset

        self.client.ask(leader.node, _list_request(leader, key, EARLIEST, -1), on_response)


class Lister:
    """Polls the latest offset, which a new leader must not return before it knows it (H4)."""

    def __init__(self, client: Client, plan: ClientPlan, history: History, topics: tuple[str, ...]) -> None:
        self.client = client
        self._plan = plan
        self._history = history
        self._cache = MetadataCache(client, topics)

    def start(self) -> None:
        self._cache.start()
        self._tick()

    def _tick(self) -> None:
        if not self.client.active:
            return
        self.client.later(self._plan.every_ms, self._tick)
        key = self._cache.pick_partition()
        if key is not None:
            self._list(key, self._cache.leaders[key])

    def _list(self, key: PartitionKey, leader: Leader) -> None:
        started = self.client.engine.now
        epoch = leader.epoch if self.client.rng.random() < 0.8 else -1

        def on_response(response: Message | None, now: int) -> None:
            answer = None if response is None else response.topics[0].partitions[0]
            if answer is None or answer.error_code is not ErrorCode.none:
                self._cache.refresh()
                return
            listed = ListedOffset(started, now, key, answer.offset, epoch, f"lister {self.client.id}")
            self._history.append(listed)

        self.client.ask(leader.node, _list_request(leader, key, LATEST, epoch), on_response)


def _fingerprints(records: Any) -> tuple[Fingerprint, ...]:
    """The batches up to the first with a wrong CRC, where real consumers stop too (D6)."""
    prints: list[Fingerprint] = []
    for at, header in batch.iter_headers(records or b""):
        if not batch.crc_ok(records, at, header):
            break
        prints.append(Fingerprint(header.base_offset, header.last_offset, header.leader_epoch, header.crc))
    return tuple(prints)


def _fetch_request(key: PartitionKey, offset: int, epoch: int) -> Message:
    partition = fetch.FetchPartition(
        partition=key[1],
        current_leader_epoch=epoch,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=2_000,
    )
    return fetch.FetchRequest(
        max_wait=ms(80),
        min_bytes=1,
        max_bytes=8_000,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(fetch.FetchTopic(topic_id=key[0], partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def _list_request(leader: Leader, key: PartitionKey, timestamp: int, epoch: int) -> Message:
    partition = list_offsets.ListOffsetsPartition(
        partition_index=key[1], current_leader_epoch=epoch, timestamp=timestamp
    )
    topic = list_offsets.ListOffsetsTopic(name=leader.topic, partitions=(partition,))
    return list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=(topic,), timeout=ms(500))
