"""Batches and segments that are missing, repeated, cut off, or in the wrong order."""

from __future__ import annotations

import random

from insync.wire import batch
from insync.wire.batch import NewRecord
from tests.pipeline.cluster_directories import NODES, ClusterDirectories, overwrite, read_batches
from tests.pipeline.planted_damage.damage import TOPICS, DamageTable, Expected, Place, choose_batch

DAMAGES = DamageTable()


@DAMAGES.add("a removed batch, indexes rebuilt")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    place.write([*place.batches[: place.index], *place.batches[place.index + 1 :]])
    return place.expect("gap")


@DAMAGES.add("a removed batch, indexes as before")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    place.write([*place.batches[: place.index], *place.batches[place.index + 1 :]], indexes=False)
    return place.expect("gap")


@DAMAGES.add("a removed batch at the beginning of a segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    base = batch.read_header(place.batches[0]).base_offset
    place.write(place.batches[1:])
    return place.expect("gap", base)


@DAMAGES.add("a batch that overlaps the one before it")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    header = batch.read_header(place.data)
    records = [NewRecord(b"k", b"v") for _ in range(header.base_offset - 1, header.last_offset + 1)]
    wider = batch.build(
        records,
        base_offset=header.base_offset - 1,
        leader_epoch=header.leader_epoch,
        timestamp_ms=header.max_timestamp,
    )
    place.write([*place.batches[: place.index], wider, *place.batches[place.index + 1 :]])
    return place.expect("order", header.base_offset - 1)


@DAMAGES.add("a batch twice, one after the other")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    place.write([*place.batches[: place.index + 1], *place.batches[place.index :]], indexes=rng.random() < 0.5)
    return place.expect("duplicated")


@DAMAGES.add("three batches twice")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segment = cluster.segments(node, topic)[0]
    batches = read_batches(segment)
    place = Place(node, topic, segment, batches, 0)
    place.write([*batches[:3], *batches])
    return place.expect("duplicated", 0)


@DAMAGES.add("two batches in the wrong order")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    i, batches = place.index, place.batches
    place.write([*batches[: i - 1], batches[i], batches[i - 1], *batches[i + 1 :]], indexes=False)
    return place.expect("order", batch.read_header(batches[i - 1]).base_offset)


@DAMAGES.add("two segments swapped")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    one, other = rng.sample(cluster.segments(node, topic)[:-1], 2)
    contents = one.read_bytes(), other.read_bytes()
    overwrite(one, contents[1])
    overwrite(other, contents[0])
    return Expected("order", node, topic, 0)


@DAMAGES.add("a segment renamed")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, closed=True)
    base = int(place.segment.stem)
    renamed = place.segment.with_name(f"{base + 1:020d}.log")
    place.segment.rename(renamed)
    return place.expect("order", base, renamed)


@DAMAGES.add("a removed segment in the middle")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segment = rng.choice(cluster.segments(node, topic)[1:-1])
    segment.unlink()
    return Expected("gap", node, topic, 0, int(segment.stem))


@DAMAGES.add("a removed first segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    for file in cluster.directory(node, topic).glob(f"{0:020d}.*"):
        file.unlink()
    return Expected("gap", node, topic, 0, 0)


@DAMAGES.add("a removed last segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segment = cluster.segments(node, topic)[-1]
    segment.unlink()
    return Expected("short", node, topic, 0, int(segment.stem))


def _choose_newest_batch(cluster: ClusterDirectories, rng: random.Random) -> Place:
    """A batch of the newest segment."""
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segment = cluster.segments(node, topic)[-1]
    batches = read_batches(segment)
    return Place(node, topic, segment, batches, rng.randrange(len(batches)))


@DAMAGES.add("a log cut off within a batch")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = _choose_newest_batch(cluster, rng)
    torn = place.data[: rng.randrange(1, len(place.data))]
    overwrite(place.segment, b"".join([*place.batches[: place.index], torn]))
    return place.expect("short")


@DAMAGES.add("a log cut off between batches")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = _choose_newest_batch(cluster, rng)
    overwrite(place.segment, b"".join(place.batches[: place.index]))
    return place.expect("short")


@DAMAGES.add("a closed segment cut off within a batch")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, closed=True)
    torn = place.data[: rng.randrange(1, len(place.data))]
    base = place.base
    overwrite(place.segment, b"".join([*place.batches[: place.index], torn]))
    return place.expect("gap", base)


@DAMAGES.add("a closed segment cut off between batches")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, closed=True)
    overwrite(place.segment, b"".join(place.batches[: place.index]))
    return Expected("gap", place.node, place.topic, 0, place.base)


@DAMAGES.add("bytes after the last batch of a closed segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, closed=True)
    end = batch.read_header(place.batches[-1]).last_offset + 1
    overwrite(place.segment, place.segment.read_bytes() + b"\xff" * rng.randint(1, 100))
    return place.expect("unreadable", end)
