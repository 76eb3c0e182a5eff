"""The Fetch request that followers send all the time, written by hand: byte for byte what the general way gives.

Only the node's own version is known here. A request that says more than followers do is declined with None.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

from insync.wire.messages import fetch
from insync.wire.types import ZERO_UUID, millis
from insync.wire.varint import append_uvarint

KEY, VERSION = 1, 17

_HEAD = Struct(">hhih")
_LIMITS = Struct(">iiibii")
_PARTITION = Struct(">iiqiqib")
_REPLICA = Struct(">bbiqb")
_I32 = Struct(">i")
_REPLICA_SIZE = 13
_NO_DIRECTORY = (None, ZERO_UUID)
_NOBODY = fetch.ReplicaState()


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
    """The request's tagged fields: who fetches, if it is a replica."""
    if state == _NOBODY:
        out += b"\x00"
    else:
        out += b"\x01"
        out += _REPLICA.pack(1, _REPLICA_SIZE, state.replica_id, state.replica_epoch, 0)
