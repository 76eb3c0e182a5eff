"""One replica of one partition: its log, the metadata it last acted on, and its role."""

from __future__ import annotations

from collections import deque

from insync.metadata.partition import Partition
from insync.replication.fetch_session import CachedPartition, Session
from insync.replication.purgatory import Waiter
from insync.storage.log import Log


class Role:
    """What a replica does for its partition: it leads, follows, or is idle."""

    __slots__ = ()


class Idle(Role):
    """The partition has no leader."""

    __slots__ = ()


IDLE = Idle()


class Replica:
    __slots__ = ("key", "log", "partition", "role", "waiting", "watchers")

    def __init__(self, partition: Partition, log: Log) -> None:
        self.key = partition.key
        self.partition = partition
        self.log = log
        self.role: Role = IDLE
        self.waiting: deque[Waiter] = deque()
        """Appends with acks=all that wait for the high watermark."""
        self.watchers: dict[CachedPartition, None] = {}
        """Where fetch sessions have this partition."""

    def on_leo_advanced(self, woken: dict[Session, None]) -> None:
        """Followers read to the LEO; consumers wait for the high watermark."""
        for cached in self.watchers:
            if cached.from_follower:
                cached.mark_dirty(woken)

    def on_hwm_advanced(self, woken: dict[Session, None]) -> None:
        """A follower's parked fetch is not woken: it gets the new high watermark with the next records, or when its
        wait ends."""
        for cached in self.watchers:
            if not cached.from_follower:
                cached.mark_dirty(woken)
            elif cached.session is not None:
                cached.session.dirty[cached] = None

    def wake_fetches(self, woken: dict[Session, None]) -> None:
        """The role, the epoch, the log start or the replica itself changed, which concerns every fetch."""
        for cached in self.watchers:
            cached.mark_dirty(woken)

    def __repr__(self) -> str:
        return f"<Replica {self.partition.name} {type(self.role).__name__} leo={self.log.leo} hwm={self.log.hwm}>"
