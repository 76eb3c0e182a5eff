"""Damaged bytes within a batch."""

from __future__ import annotations

import random

from insync.wire import batch
from tests.pipeline.cluster_directories import ClusterDirectories
from tests.pipeline.planted_damage.damage import DamageTable, Expected, choose_batch, flip

DAMAGES = DamageTable()


@DAMAGES.add("a flipped bit in a record")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    flip(place.data, rng.randrange(61, len(place.data)), rng)
    place.write(place.batches, indexes=False)
    return place.expect("crc")


@DAMAGES.add("a flipped bit in a header, where the checksum covers it")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    base = place.base
    flip(place.data, rng.randrange(17, 61), rng)
    place.write(place.batches, indexes=False)
    return place.expect("crc", base)


@DAMAGES.add("a flipped bit in a batch length")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    flip(place.data, rng.randrange(8, 12), rng)
    place.write(place.batches, indexes=False)
    return place.expect("unreadable")


@DAMAGES.add("a flipped bit in a format number")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    flip(place.data, 16, rng)
    place.write(place.batches, indexes=False)
    return place.expect("unreadable")


@DAMAGES.add("bytes of something else in the middle of a segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    noise = bytearray(rng.randbytes(len(place.data)))
    base = place.base
    place.write([*place.batches[: place.index], noise, *place.batches[place.index + 1 :]], indexes=False)
    return place.expect("unreadable", base) if base >= 0 else place.expect("unreadable")


@DAMAGES.add("a wrong offset in a batch, too high")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    header = batch.read_header(place.data)
    batch.stamp(place.data, header.base_offset + rng.randint(1, 1_000), header.leader_epoch)
    place.write(place.batches, indexes=False)
    return place.expect("order", header.base_offset)


@DAMAGES.add("a wrong offset in a batch, too low")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    header = batch.read_header(place.data)
    batch.stamp(place.data, rng.randrange(header.base_offset), header.leader_epoch)
    place.write(place.batches, indexes=False)
    return place.expect("order", header.base_offset)


@DAMAGES.add("a wrong leader epoch in a batch")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    """If it fits the epochs around it, the epoch checkpoint may as well be wrong. Above the recovery point that one may
    lack epochs, and only the other replicas tell."""
    place = choose_batch(cluster, rng, inner=True)
    header = batch.read_header(place.data)
    epoch = header.leader_epoch + rng.choice((-1, 5))
    batch.stamp(place.data, header.base_offset, epoch)
    place.write(place.batches, indexes=False)
    is_synced = header.base_offset < cluster.replicas[place.node, place.topic, 0].recovery_point
    kind = "epoch" if is_synced or epoch < header.leader_epoch else "diverged"
    return Expected(kind, place.node, place.topic, 0, header.base_offset)
