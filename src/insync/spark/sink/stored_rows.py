"""What an earlier attempt of a task has stored: asked of the leaders, and read back from the log."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from insync.client import offsets, producer, topics
from insync.client.client import Client
from insync.client.errors import ClientError, raise_for_error
from insync.client.model import Topic
from insync.client.offsets import EARLIEST, LATEST
from insync.client.sync_client import SyncClient
from insync.columnar.columns import to_columns
from insync.columnar.decode import DecodeOptions, decode
from insync.columnar.digest import compute_digests
from insync.columnar.headers import next_offset, scan_headers

FETCH_BYTES = 4 << 20
_POLL_S = 0.05
_COMPARED = ("value", "key", "headers")


class FencedError(ClientError):
    """A later micro-batch has begun, and this task is left over from an earlier one."""


class StoredRows:
    """A producer's rows in one partition, by sequence. Rows that retention or compaction removed are not among them."""

    def __init__(self, last: int, sequences: Any, row_digests: Any) -> None:
        self.end = last + 1
        self._sequences = sequences
        self._digests = row_digests

    def matches(self, first: int, row_digests: Any) -> bool:
        """True if the rows with these digests, numbered from `first`, equal the stored ones, as far as these exist."""
        low, high = np.searchsorted(self._sequences, [first, first + len(row_digests)])
        own = row_digests[self._sequences[low:high] - first]
        return bool((own == self._digests[low:high]).all())


def list_last_sequences(
    client: SyncClient,
    topic: str,
    partitions: list[int],
    producer_id: int,
    epoch: int,
    *,
    known: Topic | None = None,
) -> dict[int, int]:
    """A producer's last sequence in this epoch, by partition; those without one are left out. `known` is the topic, if
    it was described before; leaders that have changed are looked up."""

    async def ask(cluster: Client) -> dict[int, list[producer.ProducerState]]:
        nonlocal known
        described = known or await topics.describe_partitions(cluster, topic, partitions)
        known = None  # leaders may have changed if this attempt fails
        return await producer.describe_producers(cluster, described, partitions)

    by_partition = client.call(ask)
    last: dict[int, int] = {}
    for partition, writers in by_partition.items():
        for writer in writers:
            if writer.producer_id != producer_id or writer.epoch < epoch:
                continue
            if writer.epoch > epoch:
                raise FencedError(
                    f"a later micro-batch of the same query is writing to {topic}-{partition}; aborting this one"
                )
            if writer.last_sequence >= 0:
                last[partition] = writer.last_sequence
    return last


def read_back(
    client: SyncClient, topic: str, partition: int, producer_id: int, epoch: int, last: int
) -> StoredRows | None:
    """The stored rows, once all are committed: those that only the leader has may be lost with it. Rows that retention
    or compaction removed count as stored."""
    deadline = time.monotonic() + client.timeout_s
    while True:
        _wait_until_committed(client, topic, partition, deadline)
        known = list_last_sequences(client, topic, [partition], producer_id, epoch).get(partition)
        if known is None:
            return None
        if known >= last:
            return StoredRows(last, *_search(client, topic, partition, (producer_id, epoch), last))
        last = known  # the leader that had more is gone


def _wait_until_committed(client: SyncClient, topic: str, partition: int, deadline: float) -> None:
    """Wait until the high watermark covers what is in the leader's log now."""
    target = _log_end(client, topic, partition)
    while _offset(client, topic, partition, LATEST) < target:
        if time.monotonic() > deadline:
            raise ClientError(f"timed out: what an earlier attempt wrote to {topic}-{partition} is not committed yet")
        time.sleep(_POLL_S)
        target = min(target, _log_end(client, topic, partition))


def _search(client: SyncClient, topic: str, partition: int, producer: tuple[int, int], last: int) -> tuple[Any, Any]:
    """(sequences, digests) of the producer's rows. Looks further and further back from the end, up to the first row."""
    start, end = _offset(client, topic, partition, EARLIEST), _offset(client, topic, partition, LATEST)
    reach = 4 * (last + 1) + 10_000
    while True:
        begin = max(start, end - reach)
        sequences, row_digests = _read_rows(client, topic, partition, (begin, end), producer)
        if begin == start or (len(sequences) and sequences[0] == 0):
            return sequences, row_digests
        reach *= 8


def _read_rows(
    client: SyncClient, topic: str, partition: int, span: tuple[int, int], producer: tuple[int, int]
) -> tuple[Any, Any]:
    described = client.call(lambda cluster: topics.describe_partitions(cluster, topic, [partition]))
    sequences, row_digests = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    responses = client.fetch_batches(
        *(described, {partition: span[0]}, {partition: span[1]}),
        next_offset_of=next_offset,
        isolation=0,
        partition_bytes=FETCH_BYTES,
    )
    for fetched in responses:
        rows = decode(_select_batches(fetched.data, producer), DecodeOptions(("sequence", *_COMPARED))).batch
        if len(rows):
            sequences.append(rows.column("sequence").to_numpy().astype(np.int64))
            compared = to_columns(*(rows.column(name) for name in _COMPARED))
            row_digests.append(compute_digests(compared, np.arange(len(rows))))
    return np.concatenate(sequences), np.concatenate(row_digests)


def _select_batches(data: bytes | memoryview, producer: tuple[int, int]) -> bytes:
    headers, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    chosen = headers.select((headers.producer_id == producer[0]) & (headers.producer_epoch == producer[1]))
    places = zip(chosen.position.tolist(), chosen.size.tolist(), strict=True)
    return b"".join([data[position : position + size] for position, size in places])


def _offset(client: SyncClient, topic: str, partition: int, timestamp: int) -> int:
    key = (topic, partition)
    return client.call(lambda cluster: offsets.list_offsets_with_retry(cluster, {key: timestamp}))[key].offset


def _log_end(client: SyncClient, topic: str, partition: int) -> int:
    key = (topic, partition)

    async def ask(cluster: Client) -> int:
        _, known = await topics.describe_partition(cluster, topic, partition)
        end = (await offsets.list_log_ends(cluster, known.leader, [key]))[key]
        raise_for_error(end.error, f"asking for the log end of {topic}-{partition}")
        return end.offset

    return client.call(ask)
