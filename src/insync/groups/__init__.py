"""Consumer groups of the classic protocol: who is in a group, what each member reads, and how far they have come.

A group lives on the broker that leads its partition of `__consumer_offsets`, and everything that has to survive that
broker is a record there, in Kafka's own formats. Nothing here knows of disks, replicas or clocks: records go out
through `OffsetsLog`, and come in when a shard is loaded.
"""
