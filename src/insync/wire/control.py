"""Control records, which brokers and quorum leaders write into a log for each other, one record per batch.

The key is a version (0) and a type, both 16 bits. The value of the quorum's types is a Kafka message. A snapshot file
begins with a header record and ends with a footer record (KIP-630); the first record of a quorum leader in its epoch is
a leader-change record (Q5).
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any

from kio.schema.k_raft_version_record.v0.data import KRaftVersionRecord
from kio.schema.leader_change_message.v0.data import LeaderChangeMessage, Voter
from kio.schema.snapshot_footer_record.v0.data import SnapshotFooterRecord
from kio.schema.snapshot_header_record.v0.data import SnapshotHeaderRecord
from kio.schema.voters_record.v0.data import VotersRecord

from insync.wire import batch, entities
from insync.wire.errors import MalformedBatchError

ABORT, COMMIT, LEADER_CHANGE, SNAPSHOT_HEADER, SNAPSHOT_FOOTER, KRAFT_VERSION, KRAFT_VOTERS = range(7)

_KEY = Struct(">hh")
_SCHEMAS: dict[int, Any] = {
    LEADER_CHANGE: LeaderChangeMessage,
    SNAPSHOT_HEADER: SnapshotHeaderRecord,
    SNAPSHOT_FOOTER: SnapshotFooterRecord,
    KRAFT_VERSION: KRaftVersionRecord,
    KRAFT_VOTERS: VotersRecord,
}


def leader_change_batch(
    *,
    leader_id: int,
    voters: Sequence[int],
    granting_voters: Sequence[int],
    base_offset: int,
    leader_epoch: int,
    timestamp_ms: int,
) -> bytearray:
    """Q5: the first batch of a new quorum leader; committing it commits everything before it.

    Version 0: Kafka's readers assume it, whatever version the message has.
    """
    message = LeaderChangeMessage(
        version=LeaderChangeMessage.__version__,
        leader_id=leader_id,
        voters=_voters(voters),
        granting_voters=_voters(granting_voters),
    )
    return control_batch(
        LEADER_CHANGE, message, base_offset=base_offset, leader_epoch=leader_epoch, timestamp_ms=timestamp_ms
    )


def snapshot_header_batch(
    *, last_contained_timestamp_ms: int, leader_epoch: int, timestamp_ms: int, base_offset: int = 0
) -> bytearray:
    """The first batch of a snapshot file, with the time of the last record that the snapshot contains."""
    message = SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_timestamp_ms)
    return control_batch(
        SNAPSHOT_HEADER, message, base_offset=base_offset, leader_epoch=leader_epoch, timestamp_ms=timestamp_ms
    )


def snapshot_footer_batch(*, base_offset: int, leader_epoch: int, timestamp_ms: int) -> bytearray:
    """The last batch of a snapshot file: without it the file is incomplete."""
    message = SnapshotFooterRecord(version=0)
    return control_batch(
        SNAPSHOT_FOOTER, message, base_offset=base_offset, leader_epoch=leader_epoch, timestamp_ms=timestamp_ms
    )


def control_batch(kind: int, message: Any, *, base_offset: int, leader_epoch: int, timestamp_ms: int) -> bytearray:
    record = batch.NewRecord(_KEY.pack(0, kind), entities.encode(message))
    return batch.build(
        [record], base_offset=base_offset, leader_epoch=leader_epoch, timestamp_ms=timestamp_ms, control=True
    )


def control_type(record: batch.Record) -> int:
    """The type of a record in a control batch; readers skip unknown types."""
    if record.key is None or len(record.key) < _KEY.size:
        raise MalformedBatchError("control record without a type")
    kind: int = _KEY.unpack_from(record.key)[1]
    return kind


def control_message(record: batch.Record) -> Any | None:
    """The message in a control record of the quorum's types, None for other types."""
    schema = _SCHEMAS.get(control_type(record))
    if schema is None or record.value is None:
        return None
    return entities.decode(schema, record.value)


def _voters(ids: Sequence[int]) -> tuple[Any, ...]:
    return tuple(Voter(voter_id=voter) for voter in ids)
