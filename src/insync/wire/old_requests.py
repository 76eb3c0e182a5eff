"""What only old versions of a request can say, kept for the node beside what all of them can.

As a tagged field, which the newest version of any message may have: whoever does not know it skips it.
"""

from dataclasses import dataclass, field

from kio.static.primitive import i64

from insync.wire.messages import offset_commit


@dataclass(frozen=True, slots=True, kw_only=True)
class OldOffsetCommitRequest(offset_commit.OffsetCommitRequest):
    """OffsetCommit of versions 2 to 4."""

    retention_ms: i64 = field(metadata={"kafka_type": "int64", "tag": 10_000}, default=i64(-1))
    """How long to keep the offsets; -1: as long as the broker keeps others."""
