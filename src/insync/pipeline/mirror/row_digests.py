"""The records of a partition as offsets and 64-bit digests of key, value, headers and timestamp, to compare them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from insync.client import topics
from insync.client.errors import ClientError
from insync.client.offsets import READ_COMMITTED
from insync.client.sync_client import SyncClient
from insync.columnar.decode import DecodeOptions, decode
from insync.columnar.digest import compute_digests
from insync.columnar.headers import next_offset
from insync.pipeline.fenced_sender import Producer
from insync.pipeline.mirror.batches import RECORD, to_record_columns

FETCH_BYTES = 4 << 20
_TIME_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xFF51AFD7ED558CCD)


@dataclass(frozen=True, slots=True)
class RowDigests:
    offsets: Any
    digests: Any
    sequences: Any
    """Of the records' producers; -1 without one."""

    def __len__(self) -> int:
        return len(self.offsets)

    def select(self, mask: Any) -> RowDigests:
        return RowDigests(self.offsets[mask], self.digests[mask], self.sequences[mask])


NO_ROWS = RowDigests(np.empty(0, np.int64), np.empty(0, np.uint64), np.empty(0, np.int64))


def concatenate(parts: list[RowDigests]) -> RowDigests:
    parts = [NO_ROWS, *parts]
    return RowDigests(
        np.concatenate([part.offsets for part in parts]),
        np.concatenate([part.digests for part in parts]),
        np.concatenate([part.sequences for part in parts]),
    )


def fetch_rows(
    client: SyncClient, topic: str, partition: int, start: int, end: int, columns: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """The committed records at offsets from `start` up to `end`."""
    if start >= end:
        return
    described = client.call(lambda cluster: topics.describe_one(cluster, topic))
    responses = client.fetch_batches(
        described,
        {partition: start},
        {partition: end},
        next_offset_of=next_offset,
        isolation=READ_COMMITTED,
        partition_bytes=FETCH_BYTES,
    )
    position = start
    for fetched in responses:
        options = DecodeOptions(columns, position, end, isolation="read_committed", aborted=fetched.aborted)
        decoded = decode(fetched.data, options)
        if decoded.corrupt:
            damage = decoded.corrupt[0]
            raise ClientError(f"{topic}-{partition} at offset {damage.base_offset} is damaged: {damage.reason}")
        position = max(position, decoded.next_offset)
        if decoded.rows:
            yield decoded.batch


def read_digests(
    client: SyncClient, topic: str, partition: int, start: int, end: int, producer: Producer | None = None
) -> Iterator[RowDigests]:
    """Of the records at offsets from `start` up to `end`; with `producer`, only of its own."""
    columns = (*RECORD, "sequence", "producer_id", "producer_epoch")
    for batch in fetch_rows(client, topic, partition, start, end, columns):
        rows = compute_row_digests(batch)
        if producer is not None:
            ids = batch.column("producer_id").to_numpy()
            rows = rows.select((ids == producer.id) & (batch.column("producer_epoch").to_numpy() == producer.epoch))
        if len(rows):
            yield rows


def compute_row_digests(batch: pa.RecordBatch) -> RowDigests:
    columns = to_record_columns(batch)
    contents = compute_digests(columns, np.arange(batch.num_rows))
    digests = (contents ^ (columns.times.astype(np.uint64) * _TIME_FACTOR)) * _MIX
    sequences = batch.column("sequence").to_numpy().astype(np.int64)
    return RowDigests(batch.column("offset").to_numpy(), digests, sequences)
