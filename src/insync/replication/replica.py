"""One replica of one partition: its log, the metadata it last acted on, and its role.

`waiting` are the acks=all produces that wait for the high watermark here (purgatory); `watchers` are the places in
fetch sessions that want to hear of news here.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from insync.metadata.partition import Partition
from insync.replication.follower import Follower
from insync.replication.leader import Leader
from insync.storage.log import Log

if TYPE_CHECKING:
    from insync.replication.fetch_session import CachedPartition, Session
    from insync.replication.purgatory import Waiter


class Idle:
    """There is no leader to follow."""

    __slots__ = ()


Role = Leader | Follower | Idle
IDLE = Idle()


class Replica:
    __slots__ = ("key", "log", "partition", "role", "waiting", "watchers")

    def __init__(self, partition: Partition, log: Log) -> None:
        self.key = partition.key
        self.partition = partition
        self.log = log
        self.role: Role = IDLE
        self.waiting: deque[Waiter] = deque()
        self.watchers: dict[CachedPartition, None] = {}

    @property
    def leader(self) -> Leader | None:
        role = self.role
        return role if isinstance(role, Leader) else None

    def leo_moved(self, woken: dict[Session, None]) -> None:
        """Followers read to the LEO; consumers wait for the high watermark."""
        for cached in self.watchers:
            if cached.from_follower:
                cached.mark(woken)

    def hwm_moved(self, woken: dict[Session, None]) -> None:
        """A parked follower's fetch hears of the new high watermark with the next data, or when its wait ends."""
        for cached in self.watchers:
            if cached.from_follower:
                cached.mark_quietly()
            else:
                cached.mark(woken)

    def disturbed(self, woken: dict[Session, None]) -> None:
        """The role, the epoch, the log start or the replica itself changed: whoever fetches here has to hear of it."""
        for cached in self.watchers:
            cached.mark(woken)

    def __repr__(self) -> str:
        return f"<Replica {self.partition.name} {type(self.role).__name__} leo={self.log.leo} hwm={self.log.hwm}>"
