"""Reading partitions of a topic from given offsets, without a group: up to given ends, or indefinitely.

Each round sends one Fetch to every leader, all at the same time. After a retriable error the partitions that
are read are described again before the next round. The CRC of a batch is checked before its records are returned.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from insync.client import apis, topics
from insync.client.client import Client
from insync.client.errors import RETRIABLE, ClientError, ErrorCode, NoAnswerError, RefusedError
from insync.client.model import NO_NODE, Topic
from insync.client.offsets import READ_COMMITTED, READ_UNCOMMITTED
from insync.wire import batch
from insync.wire.errors import MalformedBatchError
from insync.wire.types import ms

PARTITION_BYTES = 1 << 20
_ABORT = 0


@dataclass(frozen=True, slots=True)
class ConsumedRecord:
    partition: int
    record: batch.Record


@dataclass(frozen=True, slots=True)
class FetchedBatches:
    """Batches as a broker sent them: the first may begin before the fetch offset, the last may be incomplete. `data` is
    bytes, or a read-only view of the answer."""

    partition: int
    data: bytes | memoryview
    aborted: tuple[tuple[int, int], ...]
    """(producer id, first offset) of aborted transactions, by offset; only with READ_COMMITTED."""


class Reader:
    """Reads one topic. `positions` are the next offsets to read; `stops`, if given, are the offsets at which to end."""

    __slots__ = (
        "_answer_s",
        "_failed_rounds",
        "_failing_since",
        "_isolation",
        "_partition_bytes",
        "client",
        "positions",
        "stops",
        "topic",
    )

    def __init__(
        self,
        client: Client,
        topic: Topic,
        positions: Mapping[int, int],
        stops: Mapping[int, int] | None = None,
        *,
        isolation: int = READ_UNCOMMITTED,
        partition_bytes: int = PARTITION_BYTES,
    ) -> None:
        self.client = client
        self.topic = topic
        self.positions = dict(positions)
        self.stops = stops
        self._isolation = isolation
        self._partition_bytes = client.settings.partition_bytes or partition_bytes
        self._answer_s = client.attempt_timeout_s + client.settings.max_wait_ms / 1000
        self._failing_since: float | None = None
        self._failed_rounds = 0

    async def records(self) -> AsyncIterator[ConsumedRecord]:
        """All records, in order within each partition; ends when every partition has reached its stop."""
        async for fetched in self.fetch_batches():
            for consumed in self._take_records(fetched):
                yield consumed

    async def fetch_batches(self) -> AsyncIterator[FetchedBatches]:
        """The answers of the leaders. The caller has to advance `positions` before it requests more."""
        while wanted := self._unfinished():
            by_leader: dict[int, dict[int, int]] = {}
            for partition in wanted:
                leader, epoch = self._leader(partition)
                by_leader.setdefault(leader, {})[partition] = epoch
            has_errors = NO_NODE in by_leader
            fetches = [self._fetch(leader, epochs) for leader, epochs in by_leader.items() if leader != NO_NODE]
            for answer in await asyncio.gather(*fetches):
                has_errors |= answer is None
                for data in answer or ():
                    if self._has_retriable_error(data):
                        has_errors = True
                    elif data.records:
                        yield FetchedBatches(data.partition_index, data.records, _aborted(data, self._isolation))
            await self._after_round(has_errors)

    def _unfinished(self) -> list[int]:
        stops = self.stops
        return [p for p, at in self.positions.items() if stops is None or at < stops.get(p, at)]

    def _leader(self, partition: int) -> tuple[int, int]:
        """(leader, leader epoch)"""
        known = self.topic.partition(partition)
        return (NO_NODE, -1) if known is None else (known.leader, known.leader_epoch)

    async def _fetch(self, leader: int, partitions: Mapping[int, int]) -> list[Any] | None:
        """The leader's answer for each partition; None if there was none. F3: only from the leader of that epoch."""
        try:
            answer = await self.client.call_broker(
                leader, apis.FETCH, self._request(partitions), timeout_s=self._answer_s
            )
        except NoAnswerError:
            return None
        if getattr(answer, "error_code", ErrorCode.none) is not ErrorCode.none:
            return None
        return [data for topic in answer.responses for data in topic.partitions]

    def _request(self, partitions: Mapping[int, int]) -> dict[str, Any]:
        entries = [
            {
                "partition": partition,
                "current_leader_epoch": epoch,
                "fetch_offset": self.positions[partition],
                "partition_max_bytes": self._partition_bytes,
            }
            for partition, epoch in partitions.items()
        ]
        settings = self.client.settings
        return {
            "replica_id": -1,
            "max_wait": ms(settings.max_wait_ms),
            "min_bytes": settings.min_bytes,
            "max_bytes": settings.max_bytes,
            "isolation_level": self._isolation,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": self.topic.name, "topic_id": self.topic.id, "partitions": entries}],
            "forgotten_topics_data": (),
        }

    def _has_retriable_error(self, data: Any) -> bool:
        """True if the request has to be repeated; raises an error that is not retriable."""
        if data.error_code is ErrorCode.none:
            return False
        if data.error_code in RETRIABLE:
            return True
        at = self.positions[data.partition_index]
        hint = f"offset {at} is not in the log" if data.error_code is ErrorCode.offset_out_of_range else None
        raise RefusedError(data.error_code, f"reading {self.topic.name}-{data.partition_index}", hint)

    def _take_records(self, fetched: FetchedBatches) -> Iterator[ConsumedRecord]:
        partition = fetched.partition
        for header, records in visible_records(bytes(fetched.data), fetched.aborted, f"{self.topic.name}-{partition}"):
            for record in records:
                if record.offset >= self.positions[partition] and not self._past_stop(partition, record.offset):
                    yield ConsumedRecord(partition, record)
            self.positions[partition] = max(self.positions[partition], header.next_offset)

    def _past_stop(self, partition: int, offset: int) -> bool:
        return self.stops is not None and offset >= self.stops.get(partition, offset + 1)

    async def _after_round(self, has_errors: bool) -> None:
        now = asyncio.get_running_loop().time()
        if not has_errors:
            self._failing_since = None
            self._failed_rounds = 0
            return
        self._failing_since = self._failing_since or now
        if now - self._failing_since > self.client.timeout_s:
            raise ClientError(
                f"topic '{self.topic.name}' could not be read for {self.client.timeout_s:g} s: "
                "`insync health` and `insync explain` show why"
            )
        self._failed_rounds += 1
        await asyncio.sleep(self.client.settings.backoff_s(self._failed_rounds))
        await self.client.switch_broker()
        wanted = self._unfinished()
        self.topic = await self.client.retry(lambda: topics.describe_partitions(self.client, self.topic.name, wanted))


def visible_records(
    data: bytes, aborted: Sequence[tuple[int, int]], partition: str
) -> Iterator[tuple[batch.BatchHeader, list[batch.Record]]]:
    """Each complete batch with its visible records: none of control batches and aborted transactions.

    `partition`: its name, for errors.
    """
    dropping: set[int] = set()
    first: dict[int, list[int]] = {}
    for producer, offset in aborted:
        first.setdefault(producer, []).append(offset)
    for pos, header in batch.iter_headers(data):
        if not batch.crc_ok(data, pos, header):
            raise ClientError(
                f"{partition}: the batch at offset {header.base_offset} is corrupt. "
                f"Try again: a cluster repairs it from another replica. Or read on from offset {header.next_offset}"
            )
        starts = first.get(header.producer_id, [])
        if starts and starts[0] <= header.base_offset:
            starts.pop(0)
            dropping.add(header.producer_id)
        try:
            records = list(batch.records(data, pos))
        except MalformedBatchError as error:
            raise ClientError(
                f"{partition}: the batch at offset {header.base_offset} cannot be read: {error}. "
                f"Read on from offset {header.next_offset}"
            ) from None
        if header.is_control:
            if _is_abort(records):
                dropping.discard(header.producer_id)
            records = []
        elif header.is_transactional and header.producer_id in dropping:
            records = []
        yield header, records


def _is_abort(records: list[batch.Record]) -> bool:
    """The key of a control record is its version and its type, two bytes each."""
    return any(len(record.key or b"") >= 4 and int.from_bytes((record.key or b"")[2:4]) == _ABORT for record in records)


def _aborted(data: Any, isolation: int) -> tuple[tuple[int, int], ...]:
    if isolation != READ_COMMITTED:
        return ()
    entries = sorted(data.aborted_transactions or (), key=lambda entry: entry.first_offset)
    return tuple((entry.producer_id, entry.first_offset) for entry in entries)
