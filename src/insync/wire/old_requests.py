"""Requests with fields that only old versions have, passed to the node in addition to the fields of the pinned version.

Such a field is a tagged field, which a reader that does not know it skips.
"""

from dataclasses import dataclass, field

from kio.static.primitive import i64

from insync.wire.messages import offset_commit


@dataclass(frozen=True, slots=True, kw_only=True)
class OldOffsetCommitRequest(offset_commit.OffsetCommitRequest):
    """OffsetCommit of versions 2 to 4."""

    retention_ms: i64 = field(metadata={"kafka_type": "int64", "tag": 10_000}, default=i64(-1))
    """How long to keep the offsets; -1: as long as other offsets."""
