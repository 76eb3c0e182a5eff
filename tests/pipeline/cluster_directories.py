"""The directories of a small cluster, stopped, with everything that a healthy one may have: for tests to damage.

Three nodes, ours and Apache Kafka's mixed as the seed wants. Nodes 1 and 2 stopped cleanly, node 3 was killed. The
topics have small segments, several leader epochs and idempotent producers:

| topic | what is special |
|---|---|
| orders | two partitions, all replicas in the ISR |
| compacted | each replica has dropped other records |
| payments | transaction markers |
| trimmed | the log start moved, by DeleteRecords on node 1 and by retention on node 2 |
| moved | replicas on nodes 1 and 2; node 3 had one until it was reassigned, and stopped before it learnt of it |
| lagging | node 3 is behind and not in the ISR |
| new | no records yet, and directories only on nodes of Apache Kafka |
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from struct import pack
from uuid import UUID

from insync.logdir.options import ReadOptions
from insync.quorum import offset_checkpoint, state_file
from insync.quorum.messages import OffsetAndEpoch
from insync.quorum.offset_checkpoint import QuorumCheckpoint
from insync.quorum.snapshot_store import encode as encode_snapshot
from insync.quorum.state_file import ElectionState
from insync.storage import checkpoints, clean_shutdown
from insync.storage.clean_shutdown import CleanShutdown, LogEnd
from insync.storage.producer_state import ProducerStates
from insync.wire import batch, control, metadata_records
from insync.wire.batch import NewRecord
from insync.wire.metadata_records import (
    BrokerEndpoint,
    ConfigRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)

NOW = 1_700_000_000_000
NODES = (1, 2, 3)
CLEAN_NODES = (1, 2)
OURS, APACHE = "ours", "apache"
CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qg"
INDEX_INTERVAL = 150
TopicPartition = tuple[str, int]

Batches = list[bytearray]


@dataclass
class Replica:
    """What is written of one replica."""

    batches: Batches
    hwm: int
    recovery_point: int
    log_start: int = 0

    @property
    def end(self) -> int:
        return batch.read_header(self.batches[-1]).last_offset + 1 if self.batches else 0


@dataclass
class ClusterDirectories:
    root: Path
    seed: int
    layouts: dict[int, str] = field(default_factory=dict)
    topic_ids: dict[str, UUID] = field(default_factory=dict)
    replicas: dict[tuple[int, str, int], Replica] = field(default_factory=dict)

    def copy_to(self, root: Path) -> ClusterDirectories:
        """The same cluster in other directories, with links to its files: only `overwrite` may change them."""
        shutil.copytree(self.root, root, copy_function=os.link)
        return ClusterDirectories(root, self.seed, self.layouts, self.topic_ids, self.replicas)

    def home(self, node: int) -> Path:
        return self.root / f"node-{node}" / "data" if self.layouts[node] == OURS else self.root / f"kafka-{node}"

    def data(self, node: int) -> Path:
        """Where the directories of partitions are."""
        return self.home(node) / "data" if self.layouts[node] == OURS else self.home(node)

    def metadata(self, node: int) -> Path:
        home = self.home(node)
        return (home / "metadata" if self.layouts[node] == OURS else home) / "__cluster_metadata-0"

    def directory(self, node: int, topic: str, partition: int = 0) -> Path:
        return self.data(node) / f"{topic}-{partition}"

    def segments(self, node: int, topic: str, partition: int = 0) -> list[Path]:
        return sorted(self.directory(node, topic, partition).glob("*.log"))

    def options(self) -> ReadOptions:
        return ReadOptions(paths=tuple(str(self.home(node)) for node in NODES))


def make_cluster(root: Path, seed: int) -> ClusterDirectories:
    rng = random.Random(seed)
    cluster = ClusterDirectories(root, seed)
    cluster.layouts = {node: rng.choice((OURS, APACHE)) for node in NODES}
    names = ("orders", "compacted", "payments", "trimmed", "moved", "lagging", "new")
    cluster.topic_ids = {name: UUID(int=rng.getrandbits(128), version=4) for name in names}
    for node in NODES:
        cluster.data(node).mkdir(parents=True)
        _write_identity(cluster, node)
    _make_logs(cluster, rng)
    for node in NODES:
        _write_logs(cluster, node, rng)
    _write_metadata_logs(cluster)
    return cluster


# --- batches ---------------------------------------------------------------------------------------------------------


def make_log(rng: random.Random, count: int, *, markers: bool = False) -> Batches:
    """`count` batches from offset 0 on, in rising epochs, of two idempotent producers and one that is not."""
    batches: Batches = []
    offset, epoch, sequences = 0, 0, {7: 0, 8: 0}
    for number in range(count):
        epoch += rng.random() < 0.15 or number == count // 2
        size = rng.randint(1, 4)
        producer = rng.choice((7, 8, -1))
        if markers and number % 4 == 3:
            batches.append(_make_marker(offset, epoch))
            offset += 1
            continue
        records = [NewRecord(b"k%d" % (i % 5), b"value %d of %d" % (i, number)) for i in range(offset, offset + size)]
        batches.append(
            batch.build(
                records,
                base_offset=offset,
                leader_epoch=epoch,
                timestamp_ms=NOW + offset,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequences.get(producer, -1),
                transactional=markers and producer >= 0,
            )
        )
        if producer >= 0:
            sequences[producer] += size
        offset += size
    return batches


def _make_marker(offset: int, epoch: int) -> bytearray:
    record = NewRecord(pack(">hh", 0, 1), b"\0" * 6)
    return batch.build(
        [record],
        base_offset=offset,
        leader_epoch=epoch,
        timestamp_ms=NOW + offset,
        producer_id=7,
        producer_epoch=0,
        control=True,
        transactional=True,
    )


def list_epochs(batches: Sequence[bytearray], start: int = 0) -> list[tuple[int, int]]:
    """The entries of an epoch checkpoint for a log that begins at `start`."""
    entries: list[tuple[int, int]] = []
    for data in batches:
        header = batch.read_header(data)
        if header.last_offset < start:
            continue
        if not entries or entries[-1][0] != header.leader_epoch:
            entries.append((header.leader_epoch, max(header.base_offset, start)))
    return entries


def read_batches(path: Path) -> Batches:
    data = path.read_bytes()
    return [bytearray(data[at : at + header.length]) for at, header in batch.iter_headers(data)]


def overwrite(path: Path, data: bytes | bytearray) -> None:
    """Write a new file: the old one may be a link to a file of another copy of the cluster."""
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def write_segment(directory: Path, batches: Sequence[bytearray], base: int | None = None) -> Path:
    """A segment with its indexes, as a broker leaves a closed one."""
    first = batch.read_header(batches[0]).base_offset if base is None else base
    stem = directory / f"{first:020d}"
    offsets, times, position, indexed = b"", b"", 0, 0
    newest, stored = (-1, -1), -1
    for data in batches:
        header = batch.read_header(data)
        if header.max_timestamp > newest[0]:
            newest = (header.max_timestamp, header.last_offset - first)
        if position - indexed > INDEX_INTERVAL:
            offsets += pack(">ii", header.last_offset - first, position)
            times += pack(">qi", *newest) if newest[0] > stored else b""
            indexed, stored = position, newest[0]
        position += len(data)
    if offsets and newest[0] > stored:
        times += pack(">qi", *newest)
    overwrite(stem.with_suffix(".log"), b"".join(batches))
    overwrite(stem.with_suffix(".index"), offsets)
    overwrite(stem.with_suffix(".timeindex"), times)
    return stem.with_suffix(".log")


# --- logs ------------------------------------------------------------------------------------------------------------


def _make_logs(cluster: ClusterDirectories, rng: random.Random) -> None:
    def add(node: int, topic: str, partition: int, batches: Batches, **fields: int) -> None:
        end = batch.read_header(batches[-1]).last_offset + 1 if batches else 0
        synced = end if node in CLEAN_NODES else end // 2
        values = {"hwm": end, "recovery_point": synced} | fields
        cluster.replicas[node, topic, partition] = Replica(batches, **values)

    for partition in (0, 1):
        batches = make_log(rng, rng.randint(14, 24))
        for node in NODES:
            add(node, "orders", partition, batches)
    batches = make_log(rng, 16)
    for node in NODES:
        dropped = set(rng.sample(range(12), 4))
        add(node, "compacted", 0, [data for i, data in enumerate(batches) if i not in dropped])
    batches = make_log(rng, 16, markers=True)
    for node in NODES:
        add(node, "payments", 0, batches)
    batches = make_log(rng, 20)
    middle = batch.read_header(batches[10]).base_offset
    add(1, "trimmed", 0, batches, log_start=middle + 1)
    add(2, "trimmed", 0, batches[8:])
    add(3, "trimmed", 0, batches)
    batches = make_log(rng, 8)
    for node in NODES:
        add(node, "moved", 0, batches)
    batches = make_log(rng, 18)
    for node in CLEAN_NODES:
        add(node, "lagging", 0, batches)
    add(3, "lagging", 0, batches[:9])
    for node in NODES:
        add(node, "new", 0, [])


def _write_logs(cluster: ClusterDirectories, node: int, rng: random.Random) -> None:
    ours = cluster.layouts[node] == OURS
    ends: dict[TopicPartition, LogEnd] = {}
    own = {key[1:]: replica for key, replica in cluster.replicas.items() if key[0] == node}
    for (topic, partition), replica in own.items():
        if ours and not replica.batches:
            continue
        ends[topic, partition] = write_replica(cluster, node, topic, partition, rng)
    data = cluster.data(node)
    files = {
        checkpoints.HIGH_WATERMARKS: {key: replica.hwm for key, replica in own.items()},
        checkpoints.RECOVERY_POINTS: {key: replica.recovery_point for key, replica in own.items()},
        checkpoints.LOG_STARTS: {key: replica.log_start for key, replica in own.items() if replica.log_start},
    }
    if not ours:
        files["cleaner-offset-checkpoint"] = {("compacted", 0): own["compacted", 0].end // 2}
    for name, offsets in files.items():
        (data / name).write_bytes(checkpoints.encode_offsets(offsets))
    if node in CLEAN_NODES:
        shutdown = CleanShutdown(5, ends if ours else None)
        (data / clean_shutdown.FILE).write_bytes(clean_shutdown.encode(shutdown))


def write_replica(cluster: ClusterDirectories, node: int, topic: str, partition: int, rng: random.Random) -> LogEnd:
    replica = cluster.replicas[node, topic, partition]
    batches = replica.batches
    directory = cluster.directory(node, topic, partition)
    directory.mkdir()
    ours = cluster.layouts[node] == OURS
    metadata = checkpoints.encode_partition_metadata(cluster.topic_ids[topic], partition if ours else None)
    (directory / checkpoints.PARTITION_METADATA).write_bytes(metadata)
    first = batch.read_header(batches[0]).base_offset if batches else 0
    start = max(replica.log_start, first if topic != "compacted" else 0)
    epochs = list_epochs(batches, start)
    (directory / checkpoints.LEADER_EPOCHS).write_bytes(checkpoints.encode_epochs(epochs))
    cuts = _choose_cuts(rng, len(batches))
    if topic == "trimmed" and node == 2:
        cuts = [0, *(cut for cut in cuts if cut)]
    states = ProducerStates()
    segments = []
    for low, high in zip(cuts, [*cuts[1:], len(batches)], strict=True):
        base = (0 if topic == "compacted" else None) if low == 0 else None
        if low:
            offset = batch.read_header(batches[low]).base_offset
            (directory / f"{offset:020d}.snapshot").write_bytes(states.encode())
        if batches:
            path = write_segment(directory, batches[low:high], base)
            segments.append((int(path.stem), path.stat().st_size))
        states.rebuild(batch.read_header(data) for data in batches[low:high])
    if not batches:
        (directory / f"{0:020d}.log").touch()
        segments.append((0, 0))
    elif node in CLEAN_NODES:
        (directory / f"{replica.end:020d}.snapshot").write_bytes(states.encode())
    return LogEnd(
        topic_id=cluster.topic_ids[topic],
        log_start=max(replica.log_start, segments[0][0]),
        hwm=replica.hwm,
        end_offset=replica.end,
        last_batch=segments[-1][1] - len(batches[-1]) if batches else -1,
        segments=tuple(segments),
        epochs=0,
        producers=True,
    )


def _choose_cuts(rng: random.Random, count: int) -> list[int]:
    """Which batches begin a segment: at least three segments of two batches or more, if there are enough."""
    if count < 6:
        return [0]
    cuts = [0]
    while count - cuts[-1] >= 5:
        cuts.append(cuts[-1] + rng.randint(3, 5))
    while count - cuts[-1] < 2:
        cuts.pop()
    return cuts


# --- the metadata log ------------------------------------------------------------------------------------------------


def _directory_id(node: int) -> UUID:
    return UUID(int=1_000 + node, version=4)


def _write_identity(cluster: ClusterDirectories, node: int) -> None:
    data = checkpoints.encode_meta_properties(cluster_id=CLUSTER_ID, node_id=node, directory_id=_directory_id(node))
    (cluster.home(node) / checkpoints.META_PROPERTIES).write_bytes(data)


def _list_records(cluster: ClusterDirectories) -> list[list[MetadataRecord]]:
    """The records of each batch; the last batch is a later change that node 3 has not got."""
    ids = cluster.topic_ids
    brokers: list[MetadataRecord] = []
    for node in NODES:
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9_090 + node, security_protocol=0)
        brokers.append(
            RegisterBrokerRecord(
                broker_id=node,
                incarnation_id=UUID(int=node),
                broker_epoch=node,
                end_points=(endpoint,),
                log_dirs=(_directory_id(node),),
            )
        )
        brokers.append(UnfenceBrokerRecord(id=node, epoch=node))
    topics: list[MetadataRecord] = []
    for name, topic_id in ids.items():
        topics.append(TopicRecord(name=name, topic_id=topic_id))
        for partition in (0, 1) if name == "orders" else (0,):
            record = PartitionRecord(
                partition_id=partition,
                topic_id=topic_id,
                replicas=NODES,
                isr=CLEAN_NODES if name == "lagging" else NODES,
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(map(_directory_id, NODES)),
            )
            topics.append(record)
    configs: list[MetadataRecord] = [
        ConfigRecord(resource_type=2, resource_name="compacted", name="cleanup.policy", value="compact"),
        ConfigRecord(resource_type=2, resource_name="orders", name="index.interval.bytes", value=str(INDEX_INTERVAL)),
    ]
    moved = PartitionChangeRecord(partition_id=0, topic_id=ids["moved"], replicas=(1, 2), isr=(1, 2))
    return [brokers, topics, configs, [moved]]


def _write_metadata_logs(cluster: ClusterDirectories) -> None:
    batches = [_make_leader_change(0, 1)]
    payloads: list[bytes] = []
    for number, group in enumerate(_list_records(cluster)):
        encoded = [metadata_records.encode(record) for record in group]
        if number < 3:
            payloads += encoded
        if number == 2:
            batches.append(_make_leader_change(_end_of(batches), 2))
        records = [NewRecord(None, payload) for payload in encoded]
        epoch, offset = (1 if number < 2 else 2), _end_of(batches)
        batches.append(batch.build(records, base_offset=offset, leader_epoch=epoch, timestamp_ms=NOW + number))
    covered = _end_of(batches[:-1])
    snapshot = OffsetAndEpoch(covered, 2)
    for node in NODES:
        directory = cluster.metadata(node)
        directory.mkdir(parents=True)
        own = batches if node != 3 else batches[:-1]
        if node == 2:  # the snapshot replaced what it covers
            own = batches[-1:]
        write_segment(directory, own)
        epochs = list_epochs(own)
        (directory / checkpoints.LEADER_EPOCHS).write_bytes(checkpoints.encode_epochs(epochs))
        if node != 3:
            name = f"{snapshot.offset:020d}-{snapshot.epoch:010d}.checkpoint"
            (directory / name).write_bytes(encode_snapshot(payloads, snapshot, NOW))
        state = ElectionState(epoch=2, leader_id=1, voted_id=-1)
        (directory / state_file.FILE_NAME).write_bytes(state_file.encode(state, NODES))
        if cluster.layouts[node] == OURS:
            known = QuorumCheckpoint(
                condition=offset_checkpoint.INTACT, log_end=OffsetAndEpoch(_end_of(own), 2), hwm=_end_of(own), epoch=2
            )
            (cluster.home(node) / offset_checkpoint.FILE_NAME).write_bytes(offset_checkpoint.encode(known))


def _make_leader_change(offset: int, epoch: int) -> bytearray:
    return control.leader_change_batch(
        leader_id=1,
        voters=NODES,
        granting_voters=(1, 2),
        base_offset=offset,
        leader_epoch=epoch,
        timestamp_ms=NOW + epoch - 1,
    )


def _end_of(batches: Sequence[bytearray]) -> int:
    return batch.read_header(batches[-1]).last_offset + 1
