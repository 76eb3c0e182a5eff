"""Hand-written encoder and decoder for a follower's Fetch requests and their responses.

Bytes and values are those of the generic encoder and decoder. Only the nodes' own version is supported. A request or
response with unusual fields is declined with None, and so are malformed bytes.
"""

from __future__ import annotations

from struct import Struct
from struct import error as StructError  # noqa: N812  an exception
from typing import Any

from insync.wire.errors import ErrorCode, MalformedFrameError
from insync.wire.messages import fetch
from insync.wire.types import ZERO_UUID, millis, ms, uuid_from
from insync.wire.varint import append_uvarint, read_uvarint

KEY, VERSION = 1, 17

_HEAD = Struct(">hhih")
_LIMITS = Struct(">iiibii")
_PARTITION = Struct(">iiqiqib")
_REPLICA = Struct(">bbiqb")
_I32 = Struct(">i")
_REPLICA_SIZE = 13
_NO_DIRECTORY = (None, ZERO_UUID)
_CONSUMER = fetch.ReplicaState()


def encode_request(request: Any, correlation_id: int, client_id: bytes) -> bytearray | None:
    """A frame without its length."""
    if request.cluster_id is not None or request.rack_id or request.__version__ != VERSION:
        return None
    out = bytearray(_HEAD.pack(KEY, VERSION, correlation_id, len(client_id)))
    out += client_id
    out += b"\x00"
    out += _LIMITS.pack(
        millis(request.max_wait),
        request.min_bytes,
        request.max_bytes,
        request.isolation_level,
        request.session_id,
        request.session_epoch,
    )
    append_uvarint(out, len(request.topics) + 1)
    for topic in request.topics:
        if not _topic(out, topic):
            return None
    _forgotten(out, request.forgotten_topics_data)
    out += b"\x01"
    _state(out, request.replica_state)
    return out


def _topic(out: bytearray, topic: Any) -> bool:
    out += (topic.topic_id or ZERO_UUID).bytes
    append_uvarint(out, len(topic.partitions) + 1)
    for p in topic.partitions:
        if p.replica_directory_id not in _NO_DIRECTORY:
            return False
        out += _PARTITION.pack(
            p.partition,
            p.current_leader_epoch,
            p.fetch_offset,
            p.last_fetched_epoch,
            p.log_start_offset,
            p.partition_max_bytes,
            0,
        )
    out += b"\x00"
    return True


def _forgotten(out: bytearray, topics: Any) -> None:
    append_uvarint(out, len(topics) + 1)
    for topic in topics:
        out += (topic.topic_id or ZERO_UUID).bytes
        append_uvarint(out, len(topic.partitions) + 1)
        for index in topic.partitions:
            out += _I32.pack(index)
        out += b"\x00"


def _state(out: bytearray, state: Any) -> None:
    """The request's tagged fields: the replica that fetches; a consumer has none."""
    if state == _CONSUMER:
        out += b"\x00"
    else:
        out += b"\x01"
        out += _REPLICA.pack(1, _REPLICA_SIZE, state.replica_id, state.replica_epoch, 0)


# --- the response ---

_RESPONSE = Struct(">ibihi")
_LINE = Struct(">ihqqqbi")
_UUID_SIZE = 16
_NONE = ErrorCode.none
_NULL, _EMPTY = 0, 1


def decode_response(frame: bytes | memoryview) -> fetch.FetchResponse | None:
    """A frame without its length. Of a memoryview the records are parts, not copies."""
    try:
        return _response(frame)
    except (IndexError, StructError, MalformedFrameError):
        return None


def _response(frame: Any) -> fetch.FetchResponse | None:
    _, tags, throttle, error, session_id = _RESPONSE.unpack_from(frame)
    count, pos = read_uvarint(frame, _RESPONSE.size)
    if tags or error or count == 0:
        return None
    topics = []
    for _ in range(count - 1):
        topic_id = uuid_from(bytes(frame[pos : pos + _UUID_SIZE]))
        partitions, pos = read_uvarint(frame, pos + _UUID_SIZE)
        lines = []
        for _ in range(partitions - 1):
            line, pos = _line(frame, pos)
            if line is None:
                return None
            lines.append(line)
        if topic_id is None or partitions == 0 or frame[pos]:
            return None
        pos += 1
        topics.append(fetch.FetchableTopicResponse(topic_id=topic_id, partitions=tuple(lines)))
    if frame[pos:] != b"\x00":
        return None
    return fetch.FetchResponse(
        throttle_time=ms(throttle), error_code=_NONE, session_id=session_id, responses=tuple(topics)
    )


def _line(frame: Any, pos: int) -> tuple[fetch.PartitionData | None, int]:
    index, error, hwm, stable, log_start, aborted, preferred = _LINE.unpack_from(frame, pos)
    size, pos = read_uvarint(frame, pos + _LINE.size)
    end = pos + size - 1
    if error or aborted not in (_NULL, _EMPTY) or size == 0 or frame[end]:
        return None, pos
    line = fetch.PartitionData(
        partition_index=index,
        error_code=_NONE,
        high_watermark=hwm,
        last_stable_offset=stable,
        log_start_offset=log_start,
        aborted_transactions=None if aborted == _NULL else (),
        preferred_read_replica=preferred,
        records=frame[pos:end],
    )
    return line, end + 1
