"""Every kind of damage that an audit of log directories should name: how to plant it, and what the audit should say.

`DAMAGES` is the table. A function damages one place of a cluster's directories, which `rng` chooses, and returns what
is expected: the kind, the node, the partition, and where it is known the offset and the file.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from insync.quorum import offset_checkpoint, state_file
from insync.quorum.state_file import ElectionState
from insync.storage import checkpoints, clean_shutdown
from insync.storage.producer_state import ProducerStates
from insync.wire import batch
from insync.wire.batch import NewRecord
from tests.pipeline.cluster_directories import (
    CLEAN_NODES,
    NODES,
    NOW,
    OURS,
    Batches,
    ClusterDirectories,
    list_epochs,
    overwrite,
    read_batches,
    write_segment,
)

METADATA = "__cluster_metadata"
TOPICS = ("orders", "payments")
"""Not compacted, complete on all nodes."""


class Expected(NamedTuple):
    kind: str
    node: int
    topic: str = ""
    partition: int = -1
    offset: int | None = None
    file: Path | None = None


@dataclass(frozen=True)
class Place:
    """A batch of a replica."""

    node: int
    topic: str
    segment: Path
    batches: Batches
    index: int

    @property
    def data(self) -> bytearray:
        return self.batches[self.index]

    @property
    def base(self) -> int:
        return batch.read_header(self.data).base_offset

    @property
    def last(self) -> int:
        return batch.read_header(self.data).last_offset

    def expect(self, kind: str, offset: int | None = None, file: Path | None = None) -> Expected:
        at = self.base if offset is None else offset
        return Expected(kind, self.node, self.topic, 0, at, self.segment if file is None else file)

    def write(self, batches: Batches, *, indexes: bool = True) -> None:
        """Replace the segment's batches; its indexes are made to match, or stay as they were."""
        base = int(self.segment.stem)
        if indexes:
            write_segment(self.segment.parent, batches, base)
        else:
            overwrite(self.segment, b"".join(batches))


Damage = Callable[[ClusterDirectories, random.Random], Expected]
DAMAGES: dict[str, Damage] = {}


def planted(name: str) -> Callable[[Damage], Damage]:
    def register(damage: Damage) -> Damage:
        DAMAGES[name] = damage
        return damage

    return register


def choose_batch(
    cluster: ClusterDirectories, rng: random.Random, *, closed: bool = False, inner: bool = False
) -> Place:
    """`closed`: not in the newest segment. `inner`: neither the first nor the last batch of its segment."""
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segments = cluster.segments(node, topic)
    segment = rng.choice(segments[:-1] if closed else segments)
    batches = read_batches(segment)
    if inner and len(batches) < 3:
        segment = segments[0]
        batches = read_batches(segment)
    low, high = (1, len(batches) - 1) if inner else (0, len(batches))
    return Place(node, topic, segment, batches, rng.randrange(low, high))


def flip(data: bytearray, position: int, rng: random.Random) -> None:
    data[position] ^= 1 << rng.randrange(8)


# --- bytes of batches -------------------------------------------------------------------------------------------------


@planted("a flipped bit in a record")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    flip(place.data, rng.randrange(61, len(place.data)), rng)
    place.write(place.batches, indexes=False)
    return place.expect("crc")


@planted("a flipped bit in a header, where the checksum covers it")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    base = place.base
    flip(place.data, rng.randrange(17, 61), rng)
    place.write(place.batches, indexes=False)
    return place.expect("crc", base)


@planted("a flipped bit in a batch length")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    flip(place.data, rng.randrange(8, 12), rng)
    place.write(place.batches, indexes=False)
    return place.expect("unreadable")


@planted("a flipped bit in a format number")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    flip(place.data, 16, rng)
    place.write(place.batches, indexes=False)
    return place.expect("unreadable")


@planted("bytes of something else in the middle of a segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    noise = bytearray(rng.randbytes(len(place.data)))
    base = place.base
    place.write([*place.batches[: place.index], noise, *place.batches[place.index + 1 :]], indexes=False)
    return place.expect("unreadable", base) if base >= 0 else place.expect("unreadable")


@planted("a wrong offset in a batch, too high")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    header = batch.read_header(place.data)
    batch.stamp(place.data, header.base_offset + rng.randint(1, 1_000), header.leader_epoch)
    place.write(place.batches, indexes=False)
    return place.expect("order", header.base_offset)


@planted("a wrong offset in a batch, too low")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    header = batch.read_header(place.data)
    batch.stamp(place.data, rng.randrange(header.base_offset), header.leader_epoch)
    place.write(place.batches, indexes=False)
    return place.expect("order", header.base_offset)


@planted("a wrong leader epoch in a batch")
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


# --- order of batches and segments -----------------------------------------------------------------------------------


@planted("a removed batch, indexes rebuilt")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    place.write([*place.batches[: place.index], *place.batches[place.index + 1 :]])
    return place.expect("gap")


@planted("a removed batch, indexes as before")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    place.write([*place.batches[: place.index], *place.batches[place.index + 1 :]], indexes=False)
    return place.expect("gap")


@planted("a removed batch at the beginning of a segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    base = batch.read_header(place.batches[0]).base_offset
    place.write(place.batches[1:])
    return place.expect("gap", base)


@planted("a batch that overlaps the one before it")
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


@planted("a batch twice, one after the other")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng)
    place.write([*place.batches[: place.index + 1], *place.batches[place.index :]], indexes=rng.random() < 0.5)
    return place.expect("duplicated")


@planted("three batches twice")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segment = cluster.segments(node, topic)[0]
    batches = read_batches(segment)
    place = Place(node, topic, segment, batches, 0)
    place.write([*batches[:3], *batches])
    return place.expect("duplicated", 0)


@planted("two batches in the wrong order")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    i, batches = place.index, place.batches
    place.write([*batches[: i - 1], batches[i], batches[i - 1], *batches[i + 1 :]], indexes=False)
    return place.expect("order", batch.read_header(batches[i - 1]).base_offset)


@planted("two segments swapped")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    one, other = rng.sample(cluster.segments(node, topic)[:-1], 2)
    contents = one.read_bytes(), other.read_bytes()
    overwrite(one, contents[1])
    overwrite(other, contents[0])
    return Expected("order", node, topic, 0)


@planted("a segment renamed")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, closed=True)
    base = int(place.segment.stem)
    renamed = place.segment.with_name(f"{base + 1:020d}.log")
    place.segment.rename(renamed)
    return place.expect("order", base, renamed)


@planted("a removed segment in the middle")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segment = rng.choice(cluster.segments(node, topic)[1:-1])
    segment.unlink()
    return Expected("gap", node, topic, 0, int(segment.stem))


@planted("a removed first segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    for file in cluster.directory(node, topic).glob(f"{0:020d}.*"):
        file.unlink()
    return Expected("gap", node, topic, 0, 0)


@planted("a removed last segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segment = cluster.segments(node, topic)[-1]
    segment.unlink()
    return Expected("short", node, topic, 0, int(segment.stem))


@planted("a log cut off within a batch")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segment = cluster.segments(node, topic)[-1]
    batches = read_batches(segment)
    cut = rng.randrange(len(batches))
    offset = batch.read_header(batches[cut]).base_offset
    torn = batches[cut][: rng.randrange(1, len(batches[cut]))]
    overwrite(segment, b"".join([*batches[:cut], torn]))
    return Expected("short", node, topic, 0, offset, segment)


@planted("a log cut off between batches")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    segment = cluster.segments(node, topic)[-1]
    batches = read_batches(segment)
    cut = rng.randrange(len(batches))
    offset = batch.read_header(batches[cut]).base_offset
    overwrite(segment, b"".join(batches[:cut]))
    return Expected("short", node, topic, 0, offset, segment)


@planted("a closed segment cut off within a batch")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, closed=True)
    torn = place.data[: rng.randrange(1, len(place.data))]
    base = place.base
    overwrite(place.segment, b"".join([*place.batches[: place.index], torn]))
    return place.expect("gap", base)


@planted("a closed segment cut off between batches")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, closed=True)
    overwrite(place.segment, b"".join(place.batches[: place.index]))
    return Expected("gap", place.node, place.topic, 0, place.base)


@planted("bytes after the last batch of a closed segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, closed=True)
    end = batch.read_header(place.batches[-1]).last_offset + 1
    overwrite(place.segment, place.segment.read_bytes() + b"\xff" * rng.randint(1, 100))
    return place.expect("unreadable", end)


# --- indexes ---------------------------------------------------------------------------------------------------------


def _has_two_times(segment: Path) -> bool:
    return segment.with_suffix(".timeindex").stat().st_size > 12


def choose_index(cluster: ClusterDirectories, rng: random.Random, suffix: str) -> tuple[int, Path]:
    """An index with entries, two or more if it is a time index, of a closed segment of orders-0."""
    candidates = [
        (node, file)
        for node in NODES
        for segment in cluster.segments(node, "orders")[:-1]
        if (file := segment.with_suffix(suffix)).stat().st_size and _has_two_times(segment)
    ]
    return rng.choice(candidates)


def _index_damage(name: str, suffix: str, change: Callable[[Path, random.Random], None]) -> None:
    def damage(cluster: ClusterDirectories, rng: random.Random) -> Expected:
        node, file = choose_index(cluster, rng, suffix)
        change(file, rng)
        return Expected("index", node, "orders", 0, None, file)

    DAMAGES[name] = damage


def _remove_both_indexes(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, file = choose_index(cluster, rng, ".index")
    file.unlink()
    file.with_suffix(".timeindex").unlink()
    return Expected("index", node, "orders", 0)


_index_damage("a removed offset index", ".index", lambda file, _: file.unlink())
_index_damage("a removed time index", ".timeindex", lambda file, _: file.unlink())
DAMAGES["both indexes of a segment removed"] = _remove_both_indexes
_index_damage("an emptied offset index", ".index", lambda file, _: overwrite(file, b""))
_index_damage("an emptied time index", ".timeindex", lambda file, _: overwrite(file, b""))
_index_damage("a torn offset index", ".index", lambda file, _: overwrite(file, file.read_bytes()[:-3]))
_index_damage("a torn time index", ".timeindex", lambda file, _: overwrite(file, file.read_bytes()[:-3]))
_index_damage("an old time index", ".timeindex", lambda file, _: overwrite(file, file.read_bytes()[:12]))


@planted("the offset index of another segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, file = choose_index(cluster, rng, ".index")
    overwrite(file, b"".join((i + 1).to_bytes(4, "big") + (i * 7 + 5).to_bytes(4, "big") for i in range(3)))
    return Expected("index", node, "orders", 0, None, file)


@planted("the time index of another segment")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, file = choose_index(cluster, rng, ".timeindex")
    overwrite(file, b"".join((NOW - 50 + i).to_bytes(8, "big") + i.to_bytes(4, "big") for i in range(1, 4)))
    return Expected("index", node, "orders", 0, None, file)


# --- small files of a replica ----------------------------------------------------------------------------------------


def _epoch_file(cluster: ClusterDirectories, rng: random.Random) -> tuple[int, str, Path]:
    node, topic = rng.choice(CLEAN_NODES), rng.choice(TOPICS)
    return node, topic, cluster.directory(node, topic) / checkpoints.LEADER_EPOCHS


@planted("a damaged epoch checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic, file = _epoch_file(cluster, rng)
    overwrite(file, rng.choice((b"", b"0\n1\n", b"\xff\x00 garbage")))
    return Expected("epoch", node, topic, 0, None, file)


@planted("a removed epoch checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic, file = _epoch_file(cluster, rng)
    file.unlink()
    return Expected("epoch", node, topic, 0, None, file)


@planted("a wrong epoch in an epoch checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic, file = _epoch_file(cluster, rng)
    entries = list_epochs(cluster.replicas[node, topic, 0].batches)
    overwrite(file, checkpoints.encode_epochs([*entries[:-1], (entries[-1][0] + 3, entries[-1][1])]))
    return Expected("epoch", node, topic, 0, entries[-1][1], file)


@planted("an epoch checkpoint with an epoch above the log's end")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic, file = _epoch_file(cluster, rng)
    replica = cluster.replicas[node, topic, 0]
    entries = [*list_epochs(replica.batches), (99, replica.end + 10)]
    overwrite(file, checkpoints.encode_epochs(entries))
    return Expected("epoch", node, topic, 0, replica.end + 10, file)


@planted("an old copy of an epoch checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    choices = [
        (node, topic)
        for node in CLEAN_NODES
        for topic in ("orders", "payments", "lagging")
        if len(list_epochs(cluster.replicas[node, topic, 0].batches)) > 1
    ]
    node, topic = rng.choice(choices)
    entries = list_epochs(cluster.replicas[node, topic, 0].batches)
    file = cluster.directory(node, topic) / checkpoints.LEADER_EPOCHS
    overwrite(file, checkpoints.encode_epochs(entries[:-1]))
    return Expected("epoch", node, topic, 0, entries[-1][1], file)


def _producer_file(cluster: ClusterDirectories, rng: random.Random) -> tuple[int, Path]:
    node = rng.choice(CLEAN_NODES)
    return node, rng.choice(sorted(cluster.directory(node, "orders").glob("*.snapshot")))


@planted("a damaged snapshot of producers")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, file = _producer_file(cluster, rng)
    data = bytearray(file.read_bytes())
    flip(data, rng.randrange(len(data)), rng)
    overwrite(file, data)
    return Expected("producers", node, "orders", 0, int(file.stem), file)


@planted("a snapshot of producers ahead of the log")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, file = _producer_file(cluster, rng)
    ahead = file.with_name(f"{cluster.replicas[node, 'orders', 0].end + 5:020d}.snapshot")
    shutil.copy(file, ahead)
    return Expected("producers", node, "orders", 0, int(ahead.stem), ahead)


@planted("a snapshot of producers with another sequence")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(CLEAN_NODES)
    replica = cluster.replicas[node, "orders", 0]
    states = ProducerStates()
    states.rebuild(batch.read_header(data) for data in replica.batches)
    producer = next(iter(states.producers.values()))
    first, last, base, end, time = producer.batches[-1]
    producer.batches[-1] = (first + 1, last + 1, base, end, time)
    file = cluster.directory(node, "orders") / f"{replica.end:020d}.snapshot"
    overwrite(file, states.encode())
    return Expected("producers", node, "orders", 0, replica.end, file)


# --- checkpoints of a broker -----------------------------------------------------------------------------------------


def set_checkpoint(cluster: ClusterDirectories, node: int, name: str, key: tuple[str, int], offset: int) -> Path:
    file = cluster.data(node) / name
    offsets = checkpoints.decode_offsets(file.read_bytes())
    assert offsets is not None
    overwrite(file, checkpoints.encode_offsets(offsets | {key: offset}))
    return file


def _checkpoint_damage(name: str, file: str, change: Callable[[int, random.Random], int]) -> None:
    def damage(cluster: ClusterDirectories, rng: random.Random) -> Expected:
        node = rng.choice(CLEAN_NODES)
        end = cluster.replicas[node, "orders", 0].end
        path = set_checkpoint(cluster, node, file, ("orders", 0), change(end, rng))
        return Expected("checkpoint", node, "orders", 0, None, path)

    DAMAGES[name] = damage


def _ahead(end: int, rng: random.Random) -> int:
    return end + rng.randint(1, 50)


def _behind(end: int, rng: random.Random) -> int:
    return rng.randrange(end)


_checkpoint_damage("a high watermark ahead of all logs", checkpoints.HIGH_WATERMARKS, _ahead)
_checkpoint_damage("a recovery point ahead of the log", checkpoints.RECOVERY_POINTS, _ahead)
_checkpoint_damage("a recovery point behind a clean stop", checkpoints.RECOVERY_POINTS, _behind)
_checkpoint_damage("a log start ahead of the log", checkpoints.LOG_STARTS, _ahead)


@planted("a damaged checkpoint")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    names = (checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS, checkpoints.LOG_STARTS)
    file = cluster.data(node) / rng.choice(names)
    overwrite(file, b"0\n5\norders 0")
    return Expected("checkpoint", node, "", -1, None, file)


@planted("an old copy of a checkpoint of all partitions")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(CLEAN_NODES)
    file = cluster.data(node) / checkpoints.RECOVERY_POINTS
    offsets = checkpoints.decode_offsets(file.read_bytes())
    assert offsets is not None
    overwrite(file, checkpoints.encode_offsets({key: offset // 2 for key, offset in offsets.items()}))
    return Expected("checkpoint", node, file=file)


# --- directories -----------------------------------------------------------------------------------------------------


@planted("a removed replica directory that checkpoints name")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice((*TOPICS, "compacted", "trimmed"))
    shutil.rmtree(cluster.directory(node, topic))
    return Expected("missing", node, topic, 0, None, cluster.directory(node, topic))


@planted("a removed replica directory that only the metadata names")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    shutil.rmtree(cluster.directory(node, topic))
    data = cluster.data(node)
    for name in (checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS):
        offsets = checkpoints.decode_offsets((data / name).read_bytes())
        assert offsets is not None
        del offsets[topic, 0]
        overwrite(data / name, checkpoints.encode_offsets(offsets))
    (data / clean_shutdown.FILE).unlink(missing_ok=True)
    return Expected("missing", node, topic, 0, None, cluster.directory(node, topic))


@planted("an emptied replica directory")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node, topic = rng.choice(NODES), rng.choice(TOPICS)
    for file in cluster.directory(node, topic).iterdir():
        if file.name != checkpoints.PARTITION_METADATA:
            file.unlink()
    return Expected("missing", node, topic, 0, None, cluster.directory(node, topic))


@planted("a file in place of a replica directory")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    directory = cluster.directory(node, "orders")
    shutil.rmtree(directory)
    directory.write_text("oops")
    return Expected("missing", node, "orders", 0, None, directory)


@planted("the directory of a topic that does not exist")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    stray = cluster.data(node) / "deleted-0"
    shutil.copytree(cluster.directory(node, "orders"), stray)
    metadata = checkpoints.encode_partition_metadata(UUID(int=12345, version=4), 0)
    overwrite(stray / checkpoints.PARTITION_METADATA, metadata)
    return Expected("stray", node, "deleted", 0, None, stray)


@planted("the directory of a partition that is on other brokers")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    stray = cluster.data(node) / "payments-1"
    shutil.copytree(cluster.directory(node, "payments"), stray)
    metadata = checkpoints.encode_partition_metadata(cluster.topic_ids["payments"], 1)
    overwrite(stray / checkpoints.PARTITION_METADATA, metadata)
    return Expected("stray", node, "payments", 1, None, stray)


@planted("a directory that was set aside")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    stray = cluster.data(node) / f"orders-0.{'0' * 32}-stray"
    shutil.copytree(cluster.directory(node, "orders"), stray)
    return Expected("stray", node, "", -1, None, stray)


@planted("a segment that recovery took out of a log")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    segment = cluster.segments(node, "orders")[0]
    dropped = segment.with_name(f"{segment.name}.1-dropped")
    shutil.copy(segment, dropped)
    return Expected("stray", node, "orders", 0, None, dropped)


@planted("a directory with a name in capitals")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    renamed = cluster.data(node) / "ORDERS-0"
    cluster.directory(node, "orders").rename(renamed)
    return Expected("misplaced", node, "ORDERS", 0, None, renamed)


@planted("a directory with a name that is not a partition's")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    ours = [node for node in NODES if cluster.layouts[node] == OURS]
    node = rng.choice(ours or NODES)
    renamed = cluster.data(node) / "orders-0.bak"
    shutil.copytree(cluster.directory(node, "orders"), renamed)
    if ours:  # its partition.metadata says whose it is
        shutil.rmtree(cluster.directory(node, "orders"))
    return Expected("misplaced", node, "", -1, None, renamed)


@planted("the log of another topic under this name")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    directory = cluster.directory(node, "orders")
    shutil.rmtree(directory)
    shutil.copytree(cluster.directory(node, "payments"), directory)
    return Expected("misplaced", node, "orders", 0, None, directory)


# --- identities ------------------------------------------------------------------------------------------------------


@planted("a wrong topic id")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.directory(node, "orders") / checkpoints.PARTITION_METADATA
    overwrite(file, checkpoints.encode_partition_metadata(UUID(int=rng.getrandbits(128), version=4), None))
    return Expected("identity", node, "orders", 0, None, file)


@planted("a damaged partition.metadata")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.directory(node, "orders") / checkpoints.PARTITION_METADATA
    overwrite(file, b"version: 0\ntopic_id: ???")
    return Expected("identity", node, "orders", 0, None, file)


@planted("a removed partition.metadata")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.directory(node, "orders") / checkpoints.PARTITION_METADATA
    file.unlink()
    return Expected("identity", node, "orders", 0, None, file)


@planted("a wrong cluster id")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.home(node) / checkpoints.META_PROPERTIES
    overwrite(file, file.read_bytes().replace(b"cluster.id=", b"cluster.id=X"))
    return Expected("identity", node, "", -1, None, file)


@planted("a wrong node id")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    other = rng.choice([other for other in (*NODES, 77) if other != node])
    file = cluster.home(node) / checkpoints.META_PROPERTIES
    overwrite(file, file.read_bytes().replace(b"node.id=%d" % node, b"node.id=%d" % other))
    return Expected("identity", other, "", -1, None, file)


# --- the quorum ------------------------------------------------------------------------------------------------------


@planted("a damaged quorum-state")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.metadata(node) / state_file.FILE_NAME
    overwrite(file, rng.choice((b"", b"{", b'{"data_version": 0}')))
    return Expected("quorum", node, METADATA, 0, None, file)


@planted("an old quorum-state")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.metadata(node) / state_file.FILE_NAME
    overwrite(file, state_file.encode(ElectionState(epoch=1, leader_id=1), NODES))
    return Expected("quorum", node, METADATA, 0, None, file)


@planted("a removed quorum-state")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.metadata(node) / state_file.FILE_NAME
    file.unlink()
    return Expected("quorum", node, METADATA, 0, None, file)


@planted("another leader of the same epoch")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    file = cluster.metadata(3) / state_file.FILE_NAME
    fields = json.loads(file.read_bytes())
    overwrite(file, json.dumps(fields | {"leaderId": 2}).encode())
    return Expected("quorum", 3, METADATA, 0, None, file)


@planted("a damaged checkpoint of the quorum")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    file = cluster.home(node) / offset_checkpoint.FILE_NAME
    overwrite(file, b"intact 5 1 5 1 -1 00000000\n")
    return Expected("quorum", node, METADATA, 0, None, file)


def _snapshot_of(cluster: ClusterDirectories, node: int) -> Path:
    return next(cluster.metadata(node).glob("*.checkpoint"))


@planted("a damaged metadata snapshot")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(CLEAN_NODES)
    file = _snapshot_of(cluster, node)
    data = bytearray(file.read_bytes())
    flip(data, rng.randrange(17, len(data)), rng)
    overwrite(file, data[: rng.choice((len(data), len(data) - 20))])
    return Expected("snapshot", node, METADATA, 0, int(file.name[:20]), file)


@planted("a metadata snapshot above the log's end")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(CLEAN_NODES)
    file = _snapshot_of(cluster, node)
    ahead = file.with_name(f"{999:020d}-{2:010d}.checkpoint")
    shutil.copy(file, ahead)
    return Expected("snapshot", node, METADATA, 0, 999, ahead)


@planted("a removed metadata snapshot that the log needs")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    file = _snapshot_of(cluster, 2)
    file.unlink()
    return Expected("snapshot", 2, METADATA, 0, int(file.name[:20]))


@planted("a flipped bit in the metadata log")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice((1, 3))
    [segment] = cluster.metadata(node).glob("*.log")
    batches = read_batches(segment)
    chosen = rng.randrange(len(batches) - 1)
    place = Place(node, METADATA, segment, batches, chosen)
    flip(place.data, rng.randrange(61, len(place.data)), rng)
    place.write(batches, indexes=False)
    return place.expect("crc")


# --- between replicas ------------------------------------------------------------------------------------------------


@planted("a replica with other records")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    place = choose_batch(cluster, rng, inner=True)
    header = batch.read_header(place.data)
    other = batch.build(
        [NewRecord(b"k", b"other") for _ in range(header.last_offset - header.base_offset + 1)],
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        timestamp_ms=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    place.write([*place.batches[: place.index], other, *place.batches[place.index + 1 :]])
    return place.expect("diverged")


@planted("a replica of a compacted topic with another record")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    node = rng.choice(NODES)
    segment = cluster.segments(node, "compacted")[-1]
    batches = read_batches(segment)
    header = batch.read_header(batches[-1])
    batches[-1] = batch.build(
        [NewRecord(b"k", b"other") for _ in range(header.last_offset - header.base_offset + 1)],
        base_offset=header.base_offset,
        leader_epoch=header.leader_epoch,
        timestamp_ms=header.max_timestamp,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
    )
    write_segment(segment.parent, batches, int(segment.stem))
    return Expected("diverged", node, "compacted", 0, header.base_offset, segment)


@planted("a member of the ISR below the high watermark of the others")
def _(cluster: ClusterDirectories, rng: random.Random) -> Expected:
    segment = cluster.segments(3, "orders")[-1]
    batches = read_batches(segment)
    end = batch.read_header(batches[-1]).base_offset
    write_segment(segment.parent, batches[:-1], int(segment.stem))
    for name in (checkpoints.HIGH_WATERMARKS, checkpoints.RECOVERY_POINTS):
        set_checkpoint(cluster, 3, name, ("orders", 0), end // 2)
    return Expected("short", 3, "orders", 0, end, segment)
