"""Hand-written encoders of the responses to Produce and Fetch: from the node's objects to the bytes of any version.

These are most of a broker's responses, and the generic encoder (convert to the client's version, then kio's writer)
takes 20 us per partition. The bytes are those of the generic encoder. A response with unusual fields is declined with
None, and the caller uses the generic encoder.

A frame is a list of pieces, its length first. Records are a piece of their own and are not copied here, unless they are
so few that a copy costs less than another piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from struct import Struct
from typing import Any
from uuid import UUID

from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch
from insync.wire.types import ZERO_UUID, instant_millis, millis
from insync.wire.varint import append_uvarint

NameOf = Callable[[UUID | None], str]
"""The name of a topic, for versions without topic ids."""

Pieces = list[bytes | bytearray]

PRODUCE_FLEXIBLE = 9
FETCH_FLEXIBLE = 12
BY_ID = 13
FETCH_ZSTD = 10

_SMALL = 4096
_I16 = Struct(">h")
_I32 = Struct(">i")
_FRAME = Struct(">ii")
_FLEXIBLE_FRAME = Struct(">iib")
_ABOUT_IDS = (ErrorCode.unknown_topic_id, ErrorCode.inconsistent_topic_id)
"""Errors that clients without topic ids get as another error."""

_PRODUCE_LINES = {
    **dict.fromkeys((3, 4), Struct(">ihqq")),
    **dict.fromkeys((5, 6, 7), Struct(">ihqqq")),
    8: Struct(">ihqqq"),
    **dict.fromkeys(range(PRODUCE_FLEXIBLE, 14), Struct(">ihqqq")),
}
_LEADER = Struct(">bbiib")


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
                _produce_tags(out, line, version)
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


def _produce_tags(out: bytearray, line: Any, version: int) -> None:
    leader = line.current_leader
    if version >= 10 and (leader.leader_id != -1 or leader.leader_epoch != -1):
        out += b"\x01"
        out += _LEADER.pack(0, 9, leader.leader_id, leader.leader_epoch, 0)
    else:
        out.append(0)


# --- Fetch ---

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


# --- both ---


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
