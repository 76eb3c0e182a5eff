"""What each config does, in a sentence or two, for DescribeConfigs and people who ask.

Those that are accepted and change nothing here say so: a file or a tool written for Kafka may set them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from insync.metadata import configs

_NO_EFFECT = "Accepted because Kafka knows it; it changes nothing here."

_TOPIC_DOCS = {
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all to be accepted.",
    "unclean.leader.election.enable": "Whether a replica that may lack records can lead when no other is left.",
    "unclean.recovery.strategy": "How a leader is chosen when every replica that is sure to have all is gone.",
    "cleanup.policy": "delete drops old segments; compact keeps the last record of each key; or both, or none.",
    "compression.type": "How batches are stored: as the producer sent them, or in a codec of the topic's own.",
    "compression.gzip.level": _NO_EFFECT,
    "compression.lz4.level": _NO_EFFECT,
    "compression.zstd.level": _NO_EFFECT,
    "delete.retention.ms": "How long compaction keeps a tombstone after it has reached it.",
    "file.delete.delay.ms": _NO_EFFECT,
    "flush.messages": "After so many records a log is synced to disk before anything else is done.",
    "flush.ms": "A log with unsynced records is synced in the background after this time.",
    "index.interval.bytes": "How far apart the entries of a segment's index are.",
    "max.compaction.lag.ms": "The longest that a record may wait before compaction can reach it.",
    "max.message.bytes": "The largest batch of records that is accepted.",
    "message.timestamp.type": "Whether records keep the producer's time or get the broker's.",
    "message.timestamp.after.max.ms": "How far ahead of the broker's clock a record's time may be.",
    "message.timestamp.before.max.ms": "How far behind the broker's clock a record's time may be.",
    "min.cleanable.dirty.ratio": "How much of a log must be uncompacted before it is worth compacting.",
    "min.compaction.lag.ms": "How long a record stays before compaction may drop it.",
    "preallocate": _NO_EFFECT,
    "retention.bytes": "How large a partition may grow before its oldest segments go; -1: any size. Only with delete.",
    "retention.ms": "How old records may get before their segments go; -1: any age. Only with delete.",
    "segment.bytes": "How large a segment file may grow before a new one begins.",
    "segment.index.bytes": _NO_EFFECT,
    "segment.jitter.ms": _NO_EFFECT,
    "segment.ms": "A segment is closed after this time even if it is small.",
    "leader.replication.throttled.replicas": "Which replicas are sent to at the throttled rate: partition:broker or *.",
    "follower.replication.throttled.replicas": "Which replicas fetch at the throttled rate: partition:broker, or *.",
}

_BROKER_DOCS = {
    "leader.replication.throttled.rate": "Bytes a second that a broker sends to throttled replicas.",
    "follower.replication.throttled.rate": "Bytes a second that a broker fetches for throttled replicas.",
    "replica.alter.log.dirs.io.max.bytes.per.second": _NO_EFFECT,
    "producer.id.expiration.ms": "How long a partition remembers an idempotent producer that writes nothing.",
}

_SYNONYMS = {key.synonym: _TOPIC_DOCS[key.name] for key in configs.TOPIC_KEYS.values() if key.synonym}

DOCS: Mapping[str, str] = MappingProxyType({**_SYNONYMS, **_TOPIC_DOCS, **_BROKER_DOCS})
"""By the name of a topic's or a broker's config."""
