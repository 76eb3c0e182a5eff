"""Consumer groups of the classic protocol: the members of a group, the partitions each reads, and committed offsets.

A group is coordinated by the broker that leads its partition of `__consumer_offsets`. Everything that has to survive
that broker is a record there, in Kafka's own formats. Nothing here knows of disks, replicas or clocks: records leave
through `OffsetsLog`, and return when a shard is loaded.
"""
