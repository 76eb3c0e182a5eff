"""Committed metadata, applied in log order and handed to the replicas as merged results (Q6, Q7).

A broker keeps the metadata log on disk and continues from it. Its replicas take up their roles only once the broker has
seen its own registration (B3): by then it has been fenced out of whatever its last uptime led.
"""

from __future__ import annotations

from collections.abc import Mapping

from insync.metadata import snapshot
from insync.metadata.changes import Changes
from insync.metadata.image import Image
from insync.metadata.partition import Partition, PartitionKey
from insync.quorum.quorum import Quorum
from insync.wire import metadata_records


class Publisher:
    def __init__(self, node_id: int, snapshot_records: int, defaults: Mapping[str, str] | None = None) -> None:
        self.image = Image(defaults)
        self.applied = 0  # offset of the next record to apply
        self._node_id = node_id
        self._snapshot_records = snapshot_records
        self.fresh = False  # a snapshot was loaded and nobody has looked yet
        self._forgotten: list[PartitionKey] = []  # partitions that a loaded snapshot no longer has
        self._last_epoch = 0
        self._snapshot_at = 0

    def load_snapshot(self, payloads: list[bytes], offset: int, epoch: int) -> None:
        """Q6: the state as of `offset` replaces whatever this node had."""
        before = self.image
        self.image = Image(before.defaults)
        for payload in payloads:
            self.image.apply(metadata_records.decode(payload), offset - 1)
        self.image.summed_up_to = offset - 1
        self._forgotten = [p.key for p in before.partitions_of(self._node_id) if self.image.partition(p.key) is None]
        self.applied, self._last_epoch, self._snapshot_at = offset, epoch, offset
        self.fresh = True

    def catch_up(self, quorum: Quorum) -> bool:
        """Apply what is committed, in order (Q7). True if there is news, a snapshot's included."""
        hwm = quorum.hwm
        if hwm <= self.applied:
            fresh, self.fresh = self.fresh, False
            return fresh
        self.fresh = False
        for offset, epoch, payload in quorum.read_committed(self.applied, hwm):
            self.image.apply(metadata_records.decode(payload), offset)
            self._last_epoch = epoch
        self.applied = hwm
        return True

    def maybe_snapshot(self, quorum: Quorum) -> None:
        """Q6: a snapshot now and then bounds what a restart or a newcomer must replay."""
        if self.applied - self._snapshot_at < self._snapshot_records:
            return
        payloads = [metadata_records.encode(record) for record in snapshot.to_records(self.image)]
        quorum.write_snapshot(payloads, self.applied, self._last_epoch)
        self._snapshot_at = self.applied

    def merged(self, changes: Changes) -> tuple[list[Partition], list[PartitionKey]]:
        """Q7: of everything that happened to a partition, only where it stands now; and what is no longer here."""
        mine: list[Partition] = []
        gone = list(changes.deleted)
        for key in changes.partitions:
            partition = self.image.partition(key)
            if partition is not None and self._node_id in partition.replicas:
                mine.append(partition)
            else:
                gone.append(key)
        return mine, gone

    def take_forgotten(self) -> list[PartitionKey]:
        """Replicas of this broker that a loaded snapshot no longer has: whether they were deleted, it does not say."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def assigned(self) -> list[Partition]:
        """Every partition with a replica on this broker."""
        return list(self.image.partitions_of(self._node_id))
