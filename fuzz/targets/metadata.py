"""Metadata records and snapshots with valid CRCs and invalid content.

Decoding raises only MalformedFrameError; an image that gets an impossible record raises InvariantError. A snapshot can
be taken of every resulting image (Q6).
"""

from __future__ import annotations

from random import Random

from fuzz import generate
from fuzz.archive import mutate_files, pack_files, unpack_files
from fuzz.mutate import mutate_bytes, varint
from fuzz.target import Target
from fuzz.targets import common
from insync.errors import InvariantError
from insync.metadata import snapshot as image_records
from insync.metadata.image import Image
from insync.node.metadata_loader import MetadataLoader
from insync.quorum import snapshot_store
from insync.quorum.messages import OffsetAndEpoch
from insync.wire import metadata_records
from insync.wire.errors import MalformedFrameError

_POOL = common.pool(common.TOPIC)


def run_records(data: bytes) -> None:
    image = Image()
    for offset, payload in enumerate(unpack_files(data).values()):
        try:
            image.apply(metadata_records.decode(payload), offset)
        except (MalformedFrameError, InvariantError):
            continue
    snapshot = _encoded_records(image)
    again = Image()
    for record in snapshot:
        again.apply(metadata_records.decode(record), 0)
    if _encoded_records(again) != snapshot:
        raise AssertionError("Q6: the image of the snapshot differs from that of the log")


def _encoded_records(image: Image) -> list[bytes]:
    """Its snapshot as bytes: a record with NaN in it does not equal itself."""
    return [metadata_records.encode(record) for record in image_records.to_records(image)]


def run_snapshot(data: bytes) -> None:
    payloads = snapshot_store.decode(data)
    if payloads is not None:
        loader = MetadataLoader(1, 100)
        loader.load_snapshot(payloads, 100, 1)
        try:
            loader.finish_loading()
        except (MalformedFrameError, InvariantError):
            return
        if loader.applied != 100:
            raise AssertionError("Q6: a loaded snapshot is not applied")


def record_seeds() -> list[bytes]:
    inputs = [_pack(_history())]
    return inputs + [_pack([_random_record(Random(at)) for _ in range(4)]) for at in range(20)]


def snapshot_seeds() -> list[bytes]:
    return [bytes(snapshot_store.encode(_history(), OffsetAndEpoch(100, 1), 1_000))]


def mutate_records(data: bytes, rng: Random) -> bytes:
    if rng.random() < 0.4:
        payloads = list(unpack_files(data).values())[:20]
        payloads.insert(rng.randrange(len(payloads) + 1), _random_record(rng))
        return _pack(payloads)
    return mutate_files(data, rng)


def mutate_snapshot(data: bytes, rng: Random) -> bytes:
    out = bytearray(mutate_bytes(data, rng))
    if rng.random() < 0.8:
        common.write_crcs(out)
    return bytes(out)


def _random_record(rng: Random) -> bytes:
    cls = metadata_records.TYPES[rng.choice(sorted(metadata_records.TYPES))]
    return varint(1) + varint(cls.__api_key__) + varint(cls.__version__) + generate.entity(cls, _POOL, rng)


def _history() -> list[bytes]:
    """A small cluster, from its first broker to a change of leader."""
    topic = common.TOPIC
    made: list[metadata_records.MetadataRecord] = [
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


def _pack(payloads: list[bytes]) -> bytes:
    return pack_files({f"{at:03d}": payload for at, payload in enumerate(payloads)})


RECORDS = Target(
    name="metadata", about=__doc__ or "", run=run_records, seeds=record_seeds, mutate=mutate_records, short=1_500
)
SNAPSHOTS = Target(
    name="snapshots", about=__doc__ or "", run=run_snapshot, seeds=snapshot_seeds, mutate=mutate_snapshot, short=1_000
)
