"""Clusters for capacity reports: plain data, and the directories of a small skewed cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from uuid import UUID

from insync.pipeline.capacity.cluster_load import PartitionLoad, RetentionSettings
from insync.pipeline.capacity.segment_sizes import HOUR_MS, SegmentSize
from insync.storage import checkpoints
from insync.wire import batch, metadata_records
from insync.wire.batch import NewRecord
from insync.wire.metadata_records import (
    BrokerEndpoint,
    ConfigRecord,
    MetadataRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from tests.pipeline.audit_data import write_segment

START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
FOREVER = RetentionSettings(retention_ms=-1, retention_bytes=-1, deletes=True, compacts=False)


def make_segment(base: int, hours: Sequence[int], size: int, records: int = 10) -> SegmentSize:
    """`size` bytes and `records` records in each of the hours after START_MS."""
    first = START_MS // HOUR_MS
    return SegmentSize(
        base=base,
        size=size * len(hours),
        records=records * len(hours),
        first_ms=START_MS + hours[0] * HOUR_MS,
        max_timestamp=START_MS + hours[-1] * HOUR_MS + HOUR_MS - 1,
        hours={first + hour: (size, records) for hour in hours},
    )


def make_load(
    index: int,
    replicas: tuple[int, ...],
    segments: Sequence[SegmentSize],
    settings: RetentionSettings | None = FOREVER,
    topic: str = "t",
) -> PartitionLoad:
    size = sum(segment.size for segment in segments)
    return PartitionLoad(
        topic=topic,
        partition=index,
        replicas=replicas,
        leader=replicas[0],
        replica_sizes=dict.fromkeys(replicas, size),
        segments=tuple(segments),
        hwm=sum(segment.records for segment in segments),
        settings=settings,
    )


def make_batches(count: int, *, first_hour: int = 0, keys: int = 1_000_000, value: int = 200) -> list[bytearray]:
    """Ten records per batch, one batch per hour."""
    return [
        batch.build(
            [NewRecord(b"k%d" % (offset % keys), b"v" * value) for offset in range(number * 10, number * 10 + 10)],
            base_offset=number * 10,
            leader_epoch=0,
            timestamp_ms=START_MS + (first_hour + number) * HOUR_MS,
        )
        for number in range(count)
    ]


def write_cluster(root: Path) -> list[str]:
    """Log directories of four brokers in two racks. Broker 1 holds most, broker 4 is new, and 3 has a stray.

    | topic | partitions | replicas | |
    |---|---|---|---|
    | orders | 6, of 48 hours | on 1 and 2 | retention.ms of one day |
    | users | 1 | on 1 and 2 | compacted: 5 keys |
    | rare | 1 | on 3 and 2 | |
    """
    logs = {("orders", i): ((1, 2), make_batches(48)) for i in range(6)}
    logs["users", 0] = ((1, 2), make_batches(12, keys=5, value=20))
    logs["rare", 0] = ((3, 2), make_batches(6))
    for broker in (1, 2, 3, 4):
        home = root / f"broker-{broker}"
        home.mkdir(parents=True)
        (home / "meta.properties").write_text(f"node.id={broker}\nversion=1\ncluster.id=x\n")
        own = {key: batches for key, (replicas, batches) in logs.items() if broker in replicas}
        if broker == 3:
            own["gone", 0] = make_batches(3)
        for (topic, index), batches in own.items():
            directory = home / f"{topic}-{index}"
            directory.mkdir()
            middle = len(batches) // 2
            write_segment(directory, batches[:middle])
            write_segment(directory, batches[middle:])
        hwms = {key: 10 * len(batches) for key, batches in own.items()}
        (home / checkpoints.HIGH_WATERMARKS).write_bytes(checkpoints.encode_offsets(hwms))
    directory = root / "broker-1" / "__cluster_metadata-0"
    directory.mkdir()
    write_segment(directory, [_make_metadata({key: replicas for key, (replicas, _) in logs.items()})])
    return [str(root / f"broker-{broker}") for broker in (1, 2, 3, 4)]


def _make_metadata(replicas: dict[tuple[str, int], tuple[int, ...]]) -> bytearray:
    records: list[MetadataRecord] = []
    for broker in (1, 2, 3, 4):
        endpoint = BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9_090 + broker, security_protocol=0)
        records.append(
            RegisterBrokerRecord(
                broker_id=broker,
                incarnation_id=UUID(int=broker),
                broker_epoch=broker,
                end_points=(endpoint,),
                rack="ab"[broker % 2],
            )
        )
        records.append(UnfenceBrokerRecord(id=broker, epoch=broker))
    ids = {topic: UUID(int=number + 1, version=4) for number, topic in enumerate(dict.fromkeys(t for t, _ in replicas))}
    records += [TopicRecord(name=topic, topic_id=topic_id) for topic, topic_id in ids.items()]
    for (topic, index), holders in replicas.items():
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=ids[topic],
                replicas=holders,
                isr=holders,
                leader=holders[0],
                leader_epoch=0,
                partition_epoch=0,
            )
        )
    for topic, name, value in (
        ("orders", "retention.ms", str(24 * HOUR_MS)),
        ("users", "cleanup.policy", "compact"),
    ):
        records.append(ConfigRecord(resource_type=2, resource_name=topic, name=name, value=value))
    encoded = [NewRecord(None, metadata_records.encode(record)) for record in records]
    return batch.build(encoded, base_offset=0, leader_epoch=1, timestamp_ms=START_MS)
