"""Replicas that are intact on their own, but differ from the others."""

from __future__ import annotations

import random

from insync.storage import checkpoints
from insync.wire import batch
from insync.wire.batch import NewRecord
from tests.pipeline.cluster_directories import NODES, ClusterDirectories, read_batches, write_segment
from tests.pipeline.planted_damage.checkpoints import set_checkpoint
from tests.pipeline.planted_damage.damage import DamageTable, Expected, choose_batch

DAMAGES = DamageTable()
KEPT_FIELDS = ("base_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")


def make_other_records(data: bytearray) -> bytearray:
    """A batch that differs from `data` in its records only."""
    header = batch.read_header(data)
    return batch.build(
        [NewRecord(b"k", b"other") for _ in range(header.last_offset - header.base_offset + 1)],
        timestamp_ms=header.max_timestamp,
        **{name: getattr(header, name) for name in KEPT_FIELDS},
    )


@DAMAGES.add("a replica with other records")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    other = make_other_records(place.data)
    place.write([*place.batches[: place.index], other, *place.batches[place.index + 1 :]])
    return place.expect("diverged")


@DAMAGES.add("a replica of a compacted topic with another record")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    segment = cluster.segments(node, "compacted")[-1]
    batches = read_batches(segment)
    batches[-1] = make_other_records(batches[-1])
    write_segment(segment.parent, batches, int(segment.stem))
    return Expected("diverged", node, "compacted", 0, batch.read_header(batches[-1]).base_offset, segment)


@DAMAGES.add("a member of the ISR below the high watermark of the others")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    segment = cluster.segments(3, "orders")[-1]
    batches = read_batches(segment)
    end = batch.read_header(batches[-1]).base_offset
    write_segment(segment.parent, batches[:-1], int(segment.stem))
    for name in (checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS):
        set_checkpoint(cluster, 3, name, ("orders", 0), end // 2)
    return Expected("short", 3, "orders", 0, end, segment)
