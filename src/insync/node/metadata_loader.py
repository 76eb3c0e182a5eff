"""Applies committed metadata to the image in log order, and merges it into results for the replicas (Q6, Q7).

A broker keeps the metadata log on disk and continues from it. Its replicas act on it only once the broker has seen its
own registration (B3): by then its last incarnation is fenced from everything that it led.

No step applies, encodes for a snapshot, or decodes from one more than `apply_records` records. In between, readers see
the image of a prefix of the log; the records of a change are ordered so that every prefix is valid
(`controller.decision`). A snapshot that is being loaded replaces the image when it is complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

from insync.metadata import snapshot
from insync.metadata.changes import Changes
from insync.metadata.image import Image
from insync.metadata.partition import Partition, PartitionKey
from insync.quorum.quorum import Quorum
from insync.quorum.snapshot_store import SnapshotBuilder
from insync.wire import metadata_records
from insync.wire.metadata_records import MetadataRecord


class MetadataLoader:
    def __init__(
        self,
        node_id: int,
        snapshot_records: int,
        defaults: Mapping[str, str] | None = None,
        apply_records: int = 500,
    ) -> None:
        self.image = Image(defaults)
        self._apply_records = apply_records
        self._reader: Iterator[tuple[int, int, bytes]] | None = None  # of committed records, from `applied` on
        self._loading: _Loading | None = None
        self._writing: tuple[Iterator[MetadataRecord], SnapshotBuilder] | None = None
        self.applied = 0  # offset of the next record to apply
        self._node_id = node_id
        self._snapshot_records = snapshot_records
        self._snapshot_loaded = False  # since the last `catch_up`
        self._forgotten: list[PartitionKey] = []  # partitions that a loaded snapshot no longer has
        self._last_epoch = 0
        self._snapshot_at = 0
        self._read_to = 0  # where `_reader` ends

    def load_snapshot(self, payloads: Iterable[bytes], offset: int, epoch: int) -> None:
        """Q6: the state as of `offset` replaces the image once `catch_up` has decoded it."""
        self._loading = _Loading(Image(self.image.defaults), iter(payloads), offset, epoch)
        self._reader = None
        self._writing = None

    def has_more(self, quorum: Quorum) -> bool:
        """True if there is more to apply, load or encode."""
        return self.applied < quorum.hwm or self._loading is not None or self._writing is not None

    def catch_up(self, quorum: Quorum) -> bool:
        """Apply what is committed, in order (Q7), or a part of it. True if the image changed, also by a snapshot."""
        if self._loading is not None and not self._load(self._apply_records):
            return False
        snapshot_loaded, self._snapshot_loaded = self._snapshot_loaded, False
        if quorum.hwm <= self.applied:
            return snapshot_loaded
        if self._reader is None:
            self._reader = quorum.read_committed(self.applied, quorum.hwm)
            self._read_to = quorum.hwm
        count = 0
        for offset, epoch, payload in islice(self._reader, self._apply_records):
            self.image.apply(metadata_records.decode(payload), offset)
            self._last_epoch = epoch
            self.applied = offset + 1
            count += 1
        if count < self._apply_records:  # control records are not among them
            self._reader = None
            self.applied = self._read_to
        return True

    def finish_loading(self) -> None:
        """Load the rest of a snapshot at once, before the node serves."""
        if self._loading is not None:
            self._load(None)

    def _load(self, limit: int | None) -> bool:
        """Q6: True once the snapshot is the image."""
        loading, before = self._loading, self.image
        if loading is None:
            return True
        count = 0
        for payload in islice(loading.payloads, limit):
            loading.image.apply(metadata_records.decode(payload), loading.offset - 1)
            count += 1
        if count == limit:
            return False
        self.image, self._loading = loading.image, None
        self.image.snapshot_end = loading.offset - 1
        self._forgotten += [p.key for p in before.partitions_of(self._node_id) if self.image.partition(p.key) is None]
        self.applied, self._last_epoch, self._snapshot_at = loading.offset, loading.epoch, loading.offset
        self._snapshot_loaded = True
        return True

    def maybe_snapshot(self, quorum: Quorum) -> None:
        """Q6: snapshots bound what a restart or a new node must replay. One is taken of a copy, which shares all
        partitions with the image, and is written when all of it is encoded."""
        if self._writing is None:
            due = self.applied - self._snapshot_at >= self._snapshot_records
            if not due or self.applied != quorum.hwm or self._loading is not None:
                return
            builder = quorum.begin_snapshot(self.applied, self._last_epoch)
            self._snapshot_at = self.applied
            if builder is None:
                return
            self._writing = (snapshot.iter_records(self.image.copy_for_snapshot()), builder)
        rest, builder = self._writing
        payloads = [metadata_records.encode(record) for record in islice(rest, self._apply_records)]
        builder.add(payloads)
        if len(payloads) < self._apply_records:
            self._writing = None
            quorum.write_snapshot(builder)

    def merge_changes(self, changes: Changes) -> tuple[list[Partition], list[PartitionKey]]:
        """Q7: the latest state of the changed partitions of this broker, and the keys of those that it lost."""
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
        """Replicas of this broker that a loaded snapshot lacks, without saying that they were deleted."""
        forgotten, self._forgotten = self._forgotten, []
        return forgotten

    def list_assigned(self) -> list[Partition]:
        """Every partition with a replica on this broker."""
        return list(self.image.partitions_of(self._node_id))


class _Loading:
    """A snapshot that has not replaced the image yet."""

    __slots__ = ("epoch", "image", "offset", "payloads")

    def __init__(self, image: Image, payloads: Iterator[bytes], offset: int, epoch: int) -> None:
        self.image = image
        self.payloads = payloads
        self.offset = offset
        self.epoch = epoch
