"""Simulated readers: a consumer that sometimes rereads, and a poller of the latest offset.

They record what they read, with the times of request and response; the properties decide whether it is correct.
"""

from __future__ import annotations

from typing import Any

from insync.metadata.partition import PartitionKey
from insync.properties.history import Fingerprint, History, ListedOffset, Read
from insync.sansio import Message
from insync.sim.plans.plan import ClientPlan
from insync.sim.workload.client import Client, Leader, Worker
from insync.sim.workload.requests import EARLIEST, LATEST, fetch_request, list_offsets_request
from insync.wire import batch
from insync.wire.errors import ErrorCode

REREAD_PROBABILITY = 0.15
"""The probability that a consumer reads again what it has read before."""


class Consumer(Worker):
    def __init__(self, client: Client, plan: ClientPlan, history: History, topics: tuple[str, ...]) -> None:
        super().__init__(client, plan, history, topics)
        self.reads = 0
        self._positions: dict[PartitionKey, int] = {}
        self._busy: dict[PartitionKey, None] = {}

    def _work(self) -> None:
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
        request = fetch_request(
            key, offset, leader_epoch=epoch, max_wait_ms=80, partition_max_bytes=2_000, max_bytes=8_000
        )
        self.client.ask(leader.node, request, on_response)

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

        request = list_offsets_request(leader.topic, key[1], EARLIEST, leader_epoch=-1)
        self.client.ask(leader.node, request, on_response)


class Lister(Worker):
    """Polls the latest offset, which a new leader must not return before it knows it (H4)."""

    def _work(self) -> None:
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

        request = list_offsets_request(leader.topic, key[1], LATEST, leader_epoch=epoch)
        self.client.ask(leader.node, request, on_response)


def _fingerprints(records: Any) -> tuple[Fingerprint, ...]:
    """The batches up to the first with a wrong CRC, where real consumers stop too (D6)."""
    prints: list[Fingerprint] = []
    for at, header in batch.iter_headers(records or b""):
        if not batch.crc_ok(records, at, header):
            break
        prints.append(Fingerprint(header.base_offset, header.last_offset, header.leader_epoch, header.crc))
    return tuple(prints)
