"""What one voter or observer of the metadata quorum is given: timeouts, sizes and a callback."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from insync.wire.types import METADATA_TOPIC

PARTITION = 0

METADATA_DIRECTORY = f"metadata/{METADATA_TOPIC}-{PARTITION}"
"""Where a node keeps the log, its snapshots and `quorum-state`, under its log directory."""

NO_NODE = -1
"""No leader known, or no vote given."""

QUORUM_CHANNEL = "quorum"
FETCH_CHANNEL = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumConfig:
    """Kafka's controller.quorum.* settings, with its defaults."""

    election_timeout_ms: int = 1_000
    election_timeout_max_ms: int = 10_000
    """The longest time that a voter waits before it stands for election, however slow its disk is."""
    election_backoff_max_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 1 << 20
    snapshot_chunk_bytes: int = 1 << 20
    snapshot_max_bytes: int = 1 << 30
    """Larger snapshots are not downloaded."""
    snapshots_kept: int = 2
    """The log reaches back to the oldest kept snapshot, so that a reader slightly behind needs no snapshot."""
    observer_session_ms: int = 300_000

    wall_offset_ms: int = 0
    """Wall-clock milliseconds = monotonic `now` + this. Only timestamps for people are made from it."""
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Where voters listen, for DescribeQuorum; may be empty."""
    listener: str = "CONTROLLER"
    """The name of that listener."""

    @property
    def check_quorum_ms(self) -> int:
        """Q5: half as long again as a follower waits, so that one slow fetch does not unseat a leader."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_epoch_interval_ms(self) -> int:
        return self.fetch_timeout_ms // 2


OnSnapshot = Callable[[list[bytes], int, int, int], None]
"""(payloads, offset, epoch, now): start again from these records, which stand for the whole log below `offset`."""
