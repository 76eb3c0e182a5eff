"""Hand-written codecs for a broker's side of Produce and Fetch: decoders of requests to the nodes' own version, and
encoders of responses from the node's objects to the bytes of any version.

These are most of a broker's traffic. The generic decoder (bounds check, kio's reader, conversion) takes four times as
long, and the generic encoder (conversion to the client's version, then kio's writer) takes 20 us per partition. The
results are equal. A message with unusual fields is declined with None, and so are malformed bytes: the generic codec
handles them, or reports what is wrong.

An encoded frame is a list of pieces, its length first. Records are a piece of their own and are not copied here, unless
they are so few that a copy costs less than another piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import lru_cache
from operator import attrgetter
from struct import Struct
from struct import error as StructError  # noqa: N812  an exception
from typing import Any, TypeAlias
from uuid import UUID

from insync.wire.errors import ErrorCode, MalformedFrameError
from insync.wire.messages import fetch, produce
from insync.wire.types import ZERO_UUID, instant_millis, millis, ms, uuid_from
from insync.wire.varint import append_uvarint, read_uvarint

IdOf = Callable[[str], UUID | None]
"""A topic's id, for versions with topic names."""
NameOf = Callable[[UUID | None], str]
"""The name of a topic, for versions without topic ids."""

Pieces = list[bytes | bytearray]

BY_ID = 13
"""The first version, of Produce and of Fetch, that has topic ids instead of names."""
PRODUCE_ZSTD = 7
"""Older versions may not send it; the generic decoder checks that."""
PRODUCE_FLEXIBLE = 9
FETCH_ZSTD = 10
FETCH_FLEXIBLE = 12
FETCH_BY_STATE = 15
"""The first version that identifies a follower by tagged fields."""

_SMALL = 4096
_DECLINED = (IndexError, StructError, UnicodeDecodeError, MalformedFrameError)
_I16 = Struct(">h")
_I32 = Struct(">i")
_I32_PAIR = Struct(">ii")
_UUID_SIZE = 16
_FRAME = Struct(">ii")
_FLEXIBLE_FRAME = Struct(">iib")
_LEADER = Struct(">bbiib")
_ABOUT_IDS = (ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id)
"""Errors that clients without topic ids get as another error."""


class _UnusualError(MalformedFrameError):
    """The request is left to the generic decoder."""


# --- requests: Produce -----------------------------------------------------------------------------------------------

_PRODUCE = Struct(">hhii")
_FLEXIBLE_PRODUCE = Struct(">bbhiB")

ProduceFields: TypeAlias = "tuple[int, int, list[produce.TopicProduceData], int]"
"""(acks, timeout in ms, topics, the position after them)."""


def decode_produce(frame: bytes, pos: int, version: int, id_of: IdOf) -> produce.ProduceRequest | None:
    """`pos`: the end of the header's client id."""
    if version < PRODUCE_ZSTD:
        return None
    read = _flexible_produce if version >= PRODUCE_FLEXIBLE else _plain_produce
    try:
        acks, timeout, topics, end = read(frame, pos, version, id_of)
    except _DECLINED:
        return None
    if end != len(frame):
        return None
    return produce.ProduceRequest(transactional_id=None, acks=acks, timeout=ms(timeout), topic_data=tuple(topics))


def _plain_produce(frame: bytes, pos: int, version: int, id_of: IdOf) -> ProduceFields:
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
    return acks, timeout, topics, pos


def _flexible_produce(frame: bytes, pos: int, version: int, id_of: IdOf) -> ProduceFields:
    """Counts and names have lengths of one byte in practice; see `_short`."""
    tags, transactional, acks, timeout, count = _FLEXIBLE_PRODUCE.unpack_from(frame, pos)
    if tags or transactional:
        raise _UnusualError
    pos += _FLEXIBLE_PRODUCE.size
    topics = []
    for _ in range(_short(count)):
        if version >= BY_ID:
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
    return acks, timeout, topics, pos + 1


# --- requests: Fetch --------------------------------------------------------------------------------------------------

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


def _short(encoded: int) -> int:
    """A length or count of one byte; null and longer ones are left to the generic decoder."""
    if not 0 < encoded < 0x80:
        raise _UnusualError
    return encoded - 1


# --- responses: Produce -----------------------------------------------------------------------------------------------

_PRODUCE_LINES = {
    **dict.fromkeys((3, 4), Struct(">ihqq")),
    **dict.fromkeys((5, 6, 7), Struct(">ihqqq")),
    8: Struct(">ihqqq"),
    **dict.fromkeys(range(PRODUCE_FLEXIBLE, 14), Struct(">ihqqq")),
}


def encode_produce(response: Any, version: int, correlation_id: int, name_of: NameOf) -> Pieces | None:
    """Produce v3 to v13."""
    flexible = version >= PRODUCE_FLEXIBLE
    if version >= 10 and response.node_endpoints:
        return None
    out = bytearray(_FLEXIBLE_FRAME.pack(0, correlation_id, 0) if flexible else _FRAME.pack(0, correlation_id))
    _count(out, len(response.responses), flexible)
    pack = _PRODUCE_LINES[version].pack
    for topic in response.responses:
        lines = topic.partition_responses
        _topic(out, topic.topic_id, version, flexible, name_of)
        _count(out, len(lines), flexible)
        for line in lines:
            error = line.error_code
            if error in _ABOUT_IDS and version < BY_ID:
                return None
            time = -1 if line.log_append_time is None else instant_millis(line.log_append_time)
            if flexible:
                out += pack(line.index, error, line.base_offset, time, line.log_start_offset)
                if line.record_errors or line.error_message is not None:
                    _record_errors(out, line, flexible)
                else:
                    out += b"\x01\x00"  # no record errors, no message
                leader = line.current_leader
                if version >= 10 and (leader.leader_id != -1 or leader.leader_epoch != -1):
                    out += b"\x01"
                    out += _LEADER.pack(0, 9, leader.leader_id, leader.leader_epoch, 0)
                else:
                    out.append(0)
            elif version == 8:
                out += pack(line.index, error, line.base_offset, time, line.log_start_offset)
                _record_errors(out, line, flexible)
            elif version >= 5:
                out += pack(line.index, error, line.base_offset, time, line.log_start_offset)
            else:
                out += pack(line.index, error, line.base_offset, time)
        if flexible:
            out.append(0)
    out += _I32.pack(millis(response.throttle_time))
    if flexible:
        out.append(0)
    _I32.pack_into(out, 0, len(out) - 4)
    return [out]


def _record_errors(out: bytearray, line: Any, flexible: bool) -> None:
    """KIP-467: the rejected records, then the error of the batch. Older versions have neither."""
    _count(out, len(line.record_errors), flexible)
    for record in line.record_errors:
        out += _I32.pack(record.batch_index)
        _nullable_string(out, record.batch_index_error_message, flexible)
        if flexible:
            out.append(0)
    _nullable_string(out, line.error_message, flexible)


def _nullable_string(out: bytearray, text: str | None, flexible: bool) -> None:
    data = b"" if text is None else text.encode()
    if flexible:
        append_uvarint(out, 0 if text is None else len(data) + 1)
    else:
        out += _I16.pack(-1 if text is None else len(data))
    out += data


# --- responses: Fetch -------------------------------------------------------------------------------------------------

_FETCH_LINES = {
    4: Struct(">ihqqi"),
    **dict.fromkeys(range(5, 11), Struct(">ihqqqi")),
    11: Struct(">ihqqqii"),
    **dict.fromkeys(range(FETCH_FLEXIBLE, 19), Struct(">ihqqqbi")),
}
"""Up to the records: partition, error, three offsets, count of aborted transactions, preferred replica."""
_OFFSETS = ("partition_index", "error_code", "high_watermark", "last_stable_offset")
_FETCH_FIELDS = {False: attrgetter(*_OFFSETS), True: attrgetter(*_OFFSETS, "log_start_offset")}
_FETCH_HEAD = Struct(">ihi")
_DIVERGING = Struct(">bbiqb")
_SNAPSHOT = Struct(">bbqib")

_DEFAULTS = {field.name: field.default for field in fields(fetch.PartitionData)}
_NO_EPOCH, _NO_LEADER, _NO_SNAPSHOT = (_DEFAULTS[n] for n in ("diverging_epoch", "current_leader", "snapshot_id"))


def encode_fetch(response: Any, version: int, correlation_id: int, name_of: NameOf) -> Pieces | None:
    """Fetch v4 to v18."""
    flexible = version >= FETCH_FLEXIBLE
    if version >= 16 and response.node_endpoints:
        return None
    out = bytearray(_FLEXIBLE_FRAME.pack(0, correlation_id, 0) if flexible else _FRAME.pack(0, correlation_id))
    throttle = millis(response.throttle_time)
    out += _FETCH_HEAD.pack(throttle, response.error_code, response.session_id) if version >= 7 else _I32.pack(throttle)
    _count(out, len(response.responses), flexible)
    first, size = out, 0
    pieces: Pieces = [out]
    pack, get, null = _FETCH_LINES[version].pack, _FETCH_FIELDS[version >= 5], 0 if flexible else -1
    for topic in response.responses:
        lines = topic.partitions
        _topic(out, topic.topic_id, version, flexible, name_of)
        _count(out, len(lines), flexible)
        for line in lines:
            records = line.records
            aborted = line.aborted_transactions
            if aborted or (version < BY_ID and _unusual(line, records, version)):
                return None
            nothing = null if aborted is None else null + 1  # W19: none is an empty array or null
            if version >= 11:
                out += pack(*get(line), nothing, line.preferred_read_replica)
            else:
                out += pack(*get(line), nothing)
            _records_length(out, records, flexible)
            if records is not None:
                if len(records) <= _SMALL:
                    out += records
                else:
                    size += len(out) + len(records)
                    out = bytearray()
                    pieces += (records, out)
            if flexible:
                _fetch_tags(out, line)
        if flexible:
            out.append(0)
    if flexible:
        out.append(0)
    _I32.pack_into(first, 0, size + len(out) - 4)
    return pieces


def _unusual(line: Any, records: Any, version: int) -> bool:
    """True if the client's version lacks topic ids or zstd and the generic encoder must translate the line."""
    zstd = version < FETCH_ZSTD and records is not None and len(records) > 22 and records[22] & 7 == 4
    return zstd or line.error_code in _ABOUT_IDS


def _records_length(out: bytearray, records: Any, flexible: bool) -> None:
    if flexible:
        append_uvarint(out, 0 if records is None else len(records) + 1)
    else:
        out += _I32.pack(-1 if records is None else len(records))


def _fetch_tags(out: bytearray, line: Any) -> None:
    diverging, leader, snapshot = line.diverging_epoch, line.current_leader, line.snapshot_id
    if diverging is _NO_EPOCH and leader is _NO_LEADER and snapshot is _NO_SNAPSHOT:
        out.append(0)
        return
    tags = b""
    count = 0
    if diverging.epoch != -1 or diverging.end_offset != -1:
        tags, count = _DIVERGING.pack(0, 13, diverging.epoch, diverging.end_offset, 0), 1
    if leader.leader_id != -1 or leader.leader_epoch != -1:
        tags, count = tags + _LEADER.pack(1, 9, leader.leader_id, leader.leader_epoch, 0), count + 1
    if snapshot.end_offset != -1 or snapshot.epoch != -1:
        tags, count = tags + _SNAPSHOT.pack(2, 13, snapshot.end_offset, snapshot.epoch, 0), count + 1
    out.append(count)
    out += tags


def _topic(out: bytearray, topic_id: UUID | None, version: int, flexible: bool, name_of: NameOf) -> None:
    if version >= BY_ID:
        out += (topic_id or ZERO_UUID).bytes
        return
    name = name_of(topic_id).encode()
    if flexible:
        append_uvarint(out, len(name) + 1)
    else:
        out += _I16.pack(len(name))
    out += name


def _count(out: bytearray, count: int, flexible: bool) -> None:
    if flexible:
        append_uvarint(out, count + 1)
    else:
        out += _I32.pack(count)
