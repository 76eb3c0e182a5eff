"""The messages a node speaks inside itself: one pinned version of each Kafka API, one small module per API.

    from insync.wire.messages import alter_partition, fetch
    fetch.FetchRequest(...), fetch.PartitionData(...), alter_partition.RequestPartition(...)

This package is the one place that picks versions; clients that speak others are translated at the edge. A module holds
the classes of its request and of its response under kio's names. Where both have a class of one name, the pair is told
apart by prefix: `RequestPartition` and `ResponsePartition` (Kafka's PartitionData or PartitionSnapshot), `RequestTopic`
and `ResponseTopic`, `RequestSnapshotId` and `ResponseSnapshotId`, `RequestCursor` and `ResponseCursor`.

The classes are frozen and keyword-only, and check nothing: plain ints, strs and tuples go in. kio turns a few fields
into richer Python values; `insync.wire.types` makes and reads those (`ms`, `millis`, `instant`, `uuid_of`).
"""
