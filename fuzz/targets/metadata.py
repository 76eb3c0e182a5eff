"""Metadata records and snapshots: what a node makes of a metadata log whose CRCs are right and whose content is not.

Decoding raises MalformedFrameError and nothing else; an image that gets an impossible record raises InvariantError. A
snapshot can be taken of every image that results (Q6).
"""

from __future__ import annotations

from random import Random

from crc32c import crc32c

from fuzz import generate
from fuzz.archive import mutated_files, packed, unpacked
from fuzz.mutate import mutated, varint
from fuzz.target import Target
from fuzz.targets import common
from insync.errors import InvariantError
from insync.metadata import snapshot as image_records
from insync.metadata.image import Image
from insync.node.metadata_loader import MetadataLoader
from insync.quorum import snapshot_store
from insync.quorum.messages import OffsetAndEpoch
from insync.wire import batch, metadata_records
from insync.wire.errors import MalformedFrameError

_POOL = common.pool(common.TOPIC)
_CRC_AT, _CRC_FROM = 17, 21


def run_records(data: bytes) -> None:
    image = Image()
    for offset, payload in enumerate(unpacked(data).values()):
        try:
            image.apply(metadata_records.decode(payload), offset)
        except (MalformedFrameError, InvariantError):
            continue
    snapshot = image_records.to_records(image)
    again = Image()
    for record in snapshot:
        again.apply(metadata_records.decode(metadata_records.encode(record)), 0)
    if image_records.to_records(again) != snapshot:
        raise AssertionError("Q6: a snapshot makes another image than the log did")


def run_snapshot(data: bytes) -> None:
    payloads = snapshot_store.decode(data)
    if payloads is not None:
        try:
            MetadataLoader(1, 100).load_snapshot(payloads, 100, 1)
        except (MalformedFrameError, InvariantError):
            return


def record_seeds() -> list[bytes]:
    rows = [_row(_life())]
    return rows + [_row([_random(Random(at)) for _ in range(4)]) for at in range(20)]


def snapshot_seeds() -> list[bytes]:
    return [bytes(snapshot_store.encode(_life(), OffsetAndEpoch(100, 1), 1_000))]


def mutate_records(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.4:
        payloads = list(unpacked(data).values())[:20]
        payloads.insert(rng.randrange(len(payloads) + 1), _random(rng))
        return _row(payloads)
    return mutated_files(data, rng)


def mutate_snapshot(data: bytes, rng: Random) -> bytes:
    out = bytearray(mutated(data, rng))
    if rng.random() < 0.8:
        for pos, header in batch.iter_headers(out):
            crc = crc32c(memoryview(out)[pos + _CRC_FROM : pos + header.length])
            out[pos + _CRC_AT : pos + _CRC_FROM] = crc.to_bytes(4, "big")
    return bytes(out)


def _random(rng: Random) -> bytes:
    cls = metadata_records.TYPES[rng.choice(sorted(metadata_records.TYPES))]
    return varint(1) + varint(cls.__api_key__) + varint(cls.__version__) + generate.entity(cls, _POOL, rng)


def _life() -> list[bytes]:
    """A small cluster, from its first broker to a change of leader."""
    topic = common.TOPIC
    made = [
        metadata_records.FeatureLevelRecord(name="metadata.version", feature_level=25),
        metadata_records.RegisterBrokerRecord(broker_id=1, incarnation_id=topic, broker_epoch=1, end_points=()),
        metadata_records.UnfenceBrokerRecord(id=1, epoch=1),
        metadata_records.TopicRecord(name="t", topic_id=topic),
        metadata_records.PartitionRecord(
            partition_id=0, topic_id=topic, replicas=(1, 2), isr=(1, 2), leader=1, leader_epoch=0, partition_epoch=0
        ),
        metadata_records.ConfigRecord(resource_type=2, resource_name="t", name="min.insync.replicas", value="2"),
        metadata_records.PartitionChangeRecord(
            partition_id=0, topic_id=topic, isr=(2,), leader=2, eligible_leader_replicas=(1,)
        ),
        metadata_records.ClearElrRecord(topic_name="t"),
        metadata_records.ProducerIdsRecord(broker_id=1, next_producer_id=1_000),
        metadata_records.RemoveTopicRecord(topic_id=topic),
    ]
    return [metadata_records.encode(record) for record in made]


def _row(payloads: list[bytes]) -> bytes:
    return packed({f"{at:03d}": payload for at, payload in enumerate(payloads)})


RECORDS = Target(
    name="metadata", about=__doc__ or "", run=run_records, seeds=record_seeds, mutate=mutate_records, short=1_500
)
SNAPSHOTS = Target(
    name="snapshots", about=__doc__ or "", run=run_snapshot, seeds=snapshot_seeds, mutate=mutate_snapshot, short=1_000
)
