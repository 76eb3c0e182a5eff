"""The requests that simulated clients send."""

from __future__ import annotations

from insync.metadata.partition import PartitionKey
from insync.sansio import Message
from insync.wire.messages import fetch, list_offsets, produce
from insync.wire.types import ms

EARLIEST, LATEST = -2, -1
"""The timestamps that ask ListOffsets for the start and the end of a log."""


def produce_request(key: PartitionKey, data: bytes, *, acks: int, timeout_ms: int) -> Message:
    partition = produce.PartitionProduceData(index=key[1], records=data)
    topic = produce.TopicProduceData(topic_id=key[0], partition_data=(partition,))
    return produce.ProduceRequest(acks=acks, timeout=ms(timeout_ms), topic_data=(topic,))


def fetch_request(
    key: PartitionKey, offset: int, *, leader_epoch: int, max_wait_ms: int, partition_max_bytes: int, max_bytes: int
) -> Message:
    """A consumer's fetch without a session; with `max_wait_ms` 0 it returns at once, even without records."""
    partition = fetch.FetchPartition(
        partition=key[1],
        current_leader_epoch=leader_epoch,
        fetch_offset=offset,
        last_fetched_epoch=-1,
        log_start_offset=-1,
        partition_max_bytes=partition_max_bytes,
    )
    return fetch.FetchRequest(
        max_wait=ms(max_wait_ms),
        min_bytes=1 if max_wait_ms else 0,
        max_bytes=max_bytes,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=(fetch.FetchTopic(topic_id=key[0], partitions=(partition,)),),
        forgotten_topics_data=(),
    )


def list_offsets_request(topic: str, index: int, timestamp: int, *, leader_epoch: int) -> Message:
    partition = list_offsets.ListOffsetsPartition(
        partition_index=index, current_leader_epoch=leader_epoch, timestamp=timestamp
    )
    topics = (list_offsets.ListOffsetsTopic(name=topic, partitions=(partition,)),)
    return list_offsets.ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, timeout=ms(500))
