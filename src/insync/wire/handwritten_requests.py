"""Hand-written decoders of Produce requests, and of Fetch requests by topic id, to the nodes' own version.

These are most of a broker's requests, and the generic decoder (bounds check, kio's reader, conversion) takes four times
as long. The result is equal. A request with unusual fields is declined with None, and so are malformed bytes: the
generic decoder handles them, or reports what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from struct import error as StructError  # noqa: N812  an exception
from typing import Any
from uuid import UUID

from insync.wire.errors import MalformedFrameError
from insync.wire.messages import fetch, produce
from insync.wire.types import ms, uuid_from
from insync.wire.varint import read_uvarint

IdOf = Callable[[str], UUID | None]
"""A topic's id, for versions with topic names."""

PRODUCE_ZSTD = 7
"""Older versions may not send it; the generic decoder checks that."""
PRODUCE_FLEXIBLE = 9
PRODUCE_BY_ID = 13
FETCH_BY_STATE = 15
"""The first version that identifies a follower by tagged fields."""

_DECLINED = (IndexError, StructError, UnicodeDecodeError, MalformedFrameError)
_PRODUCE = Struct(">hhii")
_FLEXIBLE_PRODUCE = Struct(">bbhiB")
_I16 = Struct(">h")
_I32 = Struct(">i")
_I32_PAIR = Struct(">ii")
_UUID_SIZE = 16


class _UnusualError(MalformedFrameError):
    """The request is left to the generic decoder."""


def decode_produce(frame: bytes, pos: int, version: int, id_of: IdOf) -> produce.ProduceRequest | None:
    """`pos`: the end of the header's client id."""
    if version < PRODUCE_ZSTD:
        return None
    read = _flexible_produce if version >= PRODUCE_FLEXIBLE else _plain_produce
    try:
        return read(frame, pos, version, id_of)
    except _DECLINED:
        return None


def _plain_produce(frame: bytes, pos: int, version: int, id_of: IdOf) -> produce.ProduceRequest:
    transactional, acks, timeout, count = _PRODUCE.unpack_from(frame, pos)
    if transactional != -1 or count < 0:
        raise _UnusualError
    pos += _PRODUCE.size
    topics = []
    for _ in range(count):
        end = pos + 2 + _I16.unpack_from(frame, pos)[0]
        topic_id = id_of(frame[pos + 2 : end].decode())
        lines = []
        (partitions,) = _I32.unpack_from(frame, end)
        if topic_id is None or partitions < 0:
            raise _UnusualError
        pos = end + 4
        for _ in range(partitions):
            index, size = _I32_PAIR.unpack_from(frame, pos)
            pos += 8
            if size < 0:
                raise _UnusualError
            lines.append(produce.PartitionProduceData(index=index, records=frame[pos : pos + size]))
            pos += size
        topics.append(produce.TopicProduceData(topic_id=topic_id, partition_data=tuple(lines)))
    return _produce(frame, pos, acks, timeout, topics)


def _flexible_produce(frame: bytes, pos: int, version: int, id_of: IdOf) -> produce.ProduceRequest:
    """Counts and names have lengths of one byte in practice; see `_short`."""
    tags, transactional, acks, timeout, count = _FLEXIBLE_PRODUCE.unpack_from(frame, pos)
    if tags or transactional:
        raise _UnusualError
    pos += _FLEXIBLE_PRODUCE.size
    topics = []
    for _ in range(_short(count)):
        if version >= PRODUCE_BY_ID:
            end = pos + _UUID_SIZE
            topic_id = uuid_from(frame[pos:end])
        else:
            end = pos + 1 + _short(frame[pos])
            topic_id = id_of(frame[pos + 1 : end].decode())
        lines = []
        pos = end + 1
        for _ in range(_short(frame[end])):
            (index,) = _I32.unpack_from(frame, pos)
            size, pos = read_uvarint(frame, pos + 4)
            end = pos + size - 1
            if size == 0 or frame[end]:  # the latter is the count of the entry's tags
                raise _UnusualError
            lines.append(produce.PartitionProduceData(index=index, records=frame[pos:end]))
            pos = end + 1
        if topic_id is None or frame[pos]:
            raise _UnusualError
        pos += 1
        topics.append(produce.TopicProduceData(topic_id=topic_id, partition_data=tuple(lines)))
    if frame[pos]:
        raise _UnusualError
    return _produce(frame, pos + 1, acks, timeout, topics)


def _produce(frame: bytes, end: int, acks: int, timeout: int, topics: list[Any]) -> produce.ProduceRequest:
    if end != len(frame):
        raise _UnusualError
    return produce.ProduceRequest(transactional_id=None, acks=acks, timeout=ms(timeout), topic_data=tuple(topics))


# --- Fetch ---

_FETCH = Struct(">biiibiiB")
_PARTITION = Struct(">iiqiqib")
_REPLICA = Struct(">bbbiqb")
_NOTHING_MORE = b"\x01\x01"
"""No forgotten topics, no rack."""
_REPLICA_TAG = (1, 1, 13)
"""One tagged field, with tag 1, of 13 bytes."""


def decode_fetch(frame: bytes, pos: int, version: int, id_of: IdOf) -> fetch.FetchRequest | None:
    """`pos`: the end of the header's client id."""
    if version < FETCH_BY_STATE:
        return None
    try:
        return _fetch(frame, pos)
    except _DECLINED:
        return None


def _fetch(frame: bytes, pos: int) -> fetch.FetchRequest:
    tags, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch, count = _FETCH.unpack_from(frame, pos)
    if tags:
        raise _UnusualError
    pos += _FETCH.size
    topics = []
    for _ in range(_short(count)):
        topic, pos = _fetch_topic(frame, pos)
        topics.append(topic)
    if frame[pos : pos + 2] != _NOTHING_MORE:
        raise _UnusualError
    return fetch.FetchRequest(
        replica_state=_fetcher(frame, pos + 2),
        max_wait=ms(max_wait),
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=tuple(topics),
        forgotten_topics_data=(),
    )


def _fetch_topic(frame: bytes, pos: int) -> tuple[fetch.FetchTopic, int]:
    topic_id = uuid_from(frame[pos : pos + _UUID_SIZE])
    pos += _UUID_SIZE
    count = _short(frame[pos])
    pos += 1
    lines = []
    for _ in range(count):
        partition, leader_epoch, offset, last_epoch, log_start, most, tags = _PARTITION.unpack_from(frame, pos)
        if tags:
            raise _UnusualError
        pos += _PARTITION.size
        lines.append(
            fetch.FetchPartition(
                partition=partition,
                current_leader_epoch=leader_epoch,
                fetch_offset=offset,
                last_fetched_epoch=last_epoch,
                log_start_offset=log_start,
                partition_max_bytes=most,
            )
        )
    if topic_id is None or frame[pos]:
        raise _UnusualError
    return fetch.FetchTopic(topic_id=topic_id, partitions=tuple(lines)), pos + 1


def _fetcher(frame: bytes, pos: int) -> fetch.ReplicaState:
    """The replica that fetches, from the tagged fields at the end: a consumer has none."""
    if frame[pos:] == b"\x00":
        return _replica_state(-1, -1)
    *tag, replica_id, replica_epoch, tags = _REPLICA.unpack_from(frame, pos)
    if tuple(tag) != _REPLICA_TAG or tags or pos + _REPLICA.size != len(frame):
        raise _UnusualError
    return _replica_state(replica_id, replica_epoch)


@lru_cache(maxsize=256)
def _replica_state(replica_id: int, replica_epoch: int) -> fetch.ReplicaState:
    return fetch.ReplicaState(replica_id=replica_id, replica_epoch=replica_epoch)


# --- both ---


def _short(encoded: int) -> int:
    """A length or count of one byte; null and longer ones are left to the generic decoder."""
    if not 0 < encoded < 0x80:
        raise _UnusualError
    return encoded - 1
