"""The documentation of each config, for DescribeConfigs.

Configs without effect say so: a file or a tool written for Kafka may set them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from insync.metadata import configs

_NO_EFFECT = "Accepted for compatibility with Kafka; it has no effect."

_TOPIC_DOCS = {
    "min.insync.replicas": "How many replicas must be in sync for a write with acks=all to be accepted.",
    "unclean.leader.election.enable": "Whether a replica that may lack records can lead when no other is left.",
    "unclean.recovery.strategy": "How a leader is chosen when every replica known to be complete is gone.",
    "cleanup.policy": "delete removes old segments; compact keeps the last record of each key; or both, or none.",
    "compression.type": "How batches are stored: as the producer sent them, or in a codec of the topic's own.",
    "compression.gzip.level": _NO_EFFECT,
    "compression.lz4.level": _NO_EFFECT,
    "compression.zstd.level": _NO_EFFECT,
    "delete.retention.ms": "How long compaction keeps a tombstone after first processing it.",
    "file.delete.delay.ms": _NO_EFFECT,
    "flush.messages": "A log is synced to disk after this many records, before the next request is handled.",
    "flush.ms": "A log with unsynced records is synced in the background after this time.",
    "index.interval.bytes": "The distance between entries of a segment's index.",
    "max.compaction.lag.ms": "The longest time before a record becomes eligible for compaction.",
    "max.message.bytes": "The largest record batch that is accepted.",
    "message.timestamp.type": "Whether records keep the producer's time or get the broker's.",
    "message.timestamp.after.max.ms": "How far ahead of the broker's clock a record's time may be.",
    "message.timestamp.before.max.ms": "How far behind the broker's clock a record's time may be.",
    "min.cleanable.dirty.ratio": "The share of a log that must be uncompacted before it is compacted.",
    "min.compaction.lag.ms": "The time for which compaction leaves a record alone.",
    "preallocate": _NO_EFFECT,
    "retention.bytes": "The size above which a partition's oldest segments are deleted; -1: no limit. Needs delete.",
    "retention.ms": "The age after which records are deleted; -1: no limit. Needs delete.",
    "segment.bytes": "The size at which a segment is closed and a new one begins.",
    "segment.index.bytes": _NO_EFFECT,
    "segment.jitter.ms": _NO_EFFECT,
    "segment.ms": "A segment is closed after this time even if it is small.",
    "leader.replication.throttled.replicas": "Replicas that are sent to at the throttled rate: partition:broker, or *.",
    "follower.replication.throttled.replicas": "Replicas that fetch at the throttled rate: partition:broker, or *.",
}

_BROKER_DOCS = {
    "leader.replication.throttled.rate": "Bytes per second that a broker sends to throttled replicas.",
    "follower.replication.throttled.rate": "Bytes per second that a broker fetches for throttled replicas.",
    "replica.alter.log.dirs.io.max.bytes.per.second": _NO_EFFECT,
    "producer.id.expiration.ms": "How long a partition remembers an idempotent producer that does not write.",
}

_SYNONYMS = {key.synonym: _TOPIC_DOCS[key.name] for key in configs.TOPIC_KEYS.values() if key.synonym}

DOCS: Mapping[str, str] = MappingProxyType({**_SYNONYMS, **_TOPIC_DOCS, **_BROKER_DOCS})
"""By the name of a topic's or a broker's config."""
