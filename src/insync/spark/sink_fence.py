"""The fence: what one run of a task has written, another run of the same task does not write again.

Every row has a number: the query, the micro-batch, the task, the partition it goes to, and how many rows went there
before. All of that fits into what brokers check of an idempotent producer anyway. The producer id is a hash of query
and task, the epoch is the micro-batch, and the sequence counts the rows. So a broker stores each row once at most, and
refuses those of earlier micro-batches once a later one has begun, whoever sends them.

A task begins by asking the leaders how far its producer has come. What is there it reads back, compares with its own
rows and passes over. Rows that differ come of a query that is not deterministic: from there on they are written under
another producer id (the next `level`). Then rows may be there twice, but none is lost.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from insync.client import offsets, producers, topics
from insync.client.client import Client
from insync.client.errors import ClientError, raise_for_error
from insync.client.offsets import EARLIEST, LATEST
from insync.client.sync_client import SyncClient
from insync.columnar.columns import columns
from insync.columnar.decode import Wanted, decode
from insync.columnar.digest import digests
from insync.columnar.headers import scan
from insync.spark.rows import FETCH_BYTES, next_of

_POLL_S = 0.05
_COMPARED = ("value", "key", "headers")


class Fenced(ClientError):  # noqa: N818  says what happened
    """A later micro-batch has begun: this task is a remnant."""


class Stored:
    """The rows of a producer that are in a partition, by sequence. What retention or compaction took is not here."""

    def __init__(self, last: int, sequences: Any, digests: Any) -> None:
        self.end = last + 1
        self._sequences = sequences
        self._digests = digests

    def same(self, first: int, digests: Any) -> bool:
        """Whether the rows with these digests, numbered from `first` on, are what is stored, as far as it is there."""
        low, high = np.searchsorted(self._sequences, [first, first + len(digests)])
        mine = digests[self._sequences[low:high] - first]
        return bool((mine == self._digests[low:high]).all())


def last_sequences(
    client: SyncClient, topic: str, partitions: list[int], producer_id: int, epoch: int
) -> dict[int, int]:
    """How far a producer has come in this epoch, by partition; those where it has not written are left out."""
    answer = client.call(lambda cluster: producers.describe_producers(cluster, topic, partitions))
    found: dict[int, int] = {}
    for partition, writers in answer.items():
        for writer in writers:
            if writer.producer_id != producer_id or writer.epoch < epoch:
                continue
            if writer.epoch > epoch:
                raise Fenced(f"a later micro-batch of the same query writes to {topic}-{partition}: this one is over")
            if writer.last_sequence >= 0:
                found[partition] = writer.last_sequence
    return found


def read_back(client: SyncClient, topic: str, partition: int, producer_id: int, epoch: int, last: int) -> Stored | None:
    """What is stored, once all of it is committed: what only the leader has may still be lost with it. Rows that
    retention or compaction took were there, and count as such."""
    deadline = time.monotonic() + client.timeout
    while True:
        _wait_until_committed(client, topic, partition, deadline)
        known = last_sequences(client, topic, [partition], producer_id, epoch).get(partition)
        if known is None:
            return None
        if known >= last:
            return Stored(last, *_search(client, topic, partition, (producer_id, epoch), last))
        last = known  # the leader that had more is gone


def _wait_until_committed(client: SyncClient, topic: str, partition: int, deadline: float) -> None:
    """Everything that is in the leader's log now."""
    target = _log_end(client, topic, partition)
    while _offset(client, topic, partition, LATEST) < target:
        if time.monotonic() > deadline:
            raise ClientError(f"what an earlier attempt wrote to {topic}-{partition} is not committed yet")
        time.sleep(_POLL_S)
        target = min(target, _log_end(client, topic, partition))


def _search(client: SyncClient, topic: str, partition: int, producer: tuple[int, int], last: int) -> tuple[Any, Any]:
    """(sequences, digests) of the producer's rows: backwards from the end, further and further, up to the first."""
    start, end = _offset(client, topic, partition, EARLIEST), _offset(client, topic, partition, LATEST)
    reach = 4 * (last + 1) + 10_000
    while True:
        begin = max(start, end - reach)
        sequences, found = _rows_of(client, topic, partition, (begin, end), producer)
        if begin == start or (len(sequences) and sequences[0] == 0):
            return sequences, found
        reach *= 8


def _rows_of(
    client: SyncClient, topic: str, partition: int, span: tuple[int, int], producer: tuple[int, int]
) -> tuple[Any, Any]:
    described = client.call(lambda cluster: topics.describe_one(cluster, topic))
    sequences, found = [np.empty(0, np.int64)], [np.empty(0, np.uint64)]
    answers = client.fetch_batches(
        *(described, {partition: span[0]}, {partition: span[1]}),
        next_offset_of=next_of,
        isolation=0,
        partition_bytes=FETCH_BYTES,
    )
    for fetched in answers:
        mine = decode(_batches_of(fetched.data, producer), Wanted(("sequence", *_COMPARED))).batch
        if len(mine):
            sequences.append(mine.column("sequence").to_numpy().astype(np.int64))
            made = columns(*(mine.column(name) for name in _COMPARED))
            found.append(digests(made, np.arange(len(mine))))
    return np.concatenate(sequences), np.concatenate(found)


def _batches_of(data: bytes, producer: tuple[int, int]) -> bytes:
    headers, _, _ = scan(np.frombuffer(data, np.uint8))
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
        found = (await offsets.list_log_ends(cluster, known.leader, [key]))[key]
        raise_for_error(found.error, f"asking for the log end of {topic}-{partition}")
        return found.offset

    return client.call(ask)
