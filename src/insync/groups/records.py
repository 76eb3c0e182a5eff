"""The records of `__consumer_offsets`, byte for byte Kafka's.

A key starts with its type in two bytes: 0 and 1 for a committed offset, 2 for a group. A value starts with its version.
Version 3 is written, which every broker since 2.3 reads; versions 0 to 4 are read, 4 in the flexible encoding. A record
without a value (a tombstone) deletes. For keys of other types, of protocols not served here, `read_key` returns None.
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct, error

from insync.wire.errors import MalformedFrameError
from insync.wire.varint import read_uvarint

_I16 = Struct(">h")
_I32 = Struct(">i")
_I64 = Struct(">q")

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2
WITH_EXPIRY = 1
VERSION = 3
_FLEXIBLE_VERSION = 4
_MAX_STRING_BYTES = 2**15 - 1


@dataclass(frozen=True, slots=True)
class OffsetKey:
    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class GroupKey:
    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedOffset:
    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_timestamp: int
    expire_timestamp: int = -1
    """From version 1 records, whose clients chose the retention themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMember:
    member_id: str
    instance_id: str | None = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredGroup:
    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    state_timestamp: int = -1
    members: tuple[StoredMember, ...] = ()


# --- writing ---------------------------------------------------------------------------------------------------------


def offset_key(key: OffsetKey) -> bytes:
    return _I16.pack(OFFSET_KEYS[-1]) + _string(key.group) + _string(key.topic) + _I32.pack(key.partition)


def group_key(group: str) -> bytes:
    return _I16.pack(GROUP_KEY) + _string(group)


def offset_value(committed: CommittedOffset) -> bytes:
    """Only version 1 has an expiry time; it has no leader epoch."""
    if committed.expire_timestamp >= 0:
        return b"".join(
            (
                _I16.pack(WITH_EXPIRY),
                _I64.pack(committed.offset),
                _string(committed.metadata),
                _I64.pack(committed.commit_timestamp),
                _I64.pack(committed.expire_timestamp),
            )
        )
    return b"".join(
        (
            _I16.pack(VERSION),
            _I64.pack(committed.offset),
            _I32.pack(committed.leader_epoch),
            _string(committed.metadata),
            _I64.pack(committed.commit_timestamp),
        )
    )


def group_value(group: StoredGroup) -> bytes:
    parts = [
        _I16.pack(VERSION),
        _string(group.protocol_type),
        _I32.pack(group.generation),
        _string(group.protocol),
        _string(group.leader),
        _I64.pack(group.state_timestamp),
        _I32.pack(len(group.members)),
    ]
    parts += [_member(member) for member in group.members]
    return b"".join(parts)


def _member(member: StoredMember) -> bytes:
    return b"".join(
        (
            _string(member.member_id),
            _string(member.instance_id),
            _string(member.client_id),
            _string(member.client_host),
            _I32.pack(member.rebalance_timeout_ms),
            _I32.pack(member.session_timeout_ms),
            _I32.pack(len(member.subscription)),
            member.subscription,
            _I32.pack(len(member.assignment)),
            member.assignment,
        )
    )


def fits(*texts: str | None) -> bool:
    """Whether strings of a request can be stored: newer requests can carry longer ones than the records."""
    return all(
        text is None or len(text) <= _MAX_STRING_BYTES // 4 or len(text.encode()) <= _MAX_STRING_BYTES for text in texts
    )


def _string(text: str | None) -> bytes:
    if text is None:
        return _I16.pack(-1)
    data = text.encode()
    return _I16.pack(len(data)) + data


# --- reading ---------------------------------------------------------------------------------------------------------


def read_key(data: bytes) -> OffsetKey | GroupKey | None:
    reader = _Reader(data)
    kind = reader.int16()
    if kind in OFFSET_KEYS:
        return OffsetKey(reader.text(), reader.text(), reader.int32())
    return GroupKey(reader.text()) if kind == GROUP_KEY else None


def read_offset(data: bytes) -> CommittedOffset:
    reader, version = _versioned(data)
    return CommittedOffset(
        offset=reader.int64(),
        leader_epoch=reader.int32() if version >= 3 else -1,
        metadata=reader.text(),
        commit_timestamp=reader.int64(),
        expire_timestamp=reader.int64() if version == WITH_EXPIRY else -1,
    )


def read_group(data: bytes) -> StoredGroup:
    reader, version = _versioned(data)
    return StoredGroup(
        protocol_type=reader.text(),
        generation=reader.int32(),
        protocol=reader.string(),
        leader=reader.string(),
        state_timestamp=reader.int64() if version >= 2 else -1,
        members=tuple(_read_member(reader, version) for _ in range(reader.count())),
    )


def _read_member(reader: _Reader, version: int) -> StoredMember:
    member_id = reader.text()
    instance_id = reader.string() if version >= 3 else None
    client_id, client_host = reader.text(), reader.text()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    member = StoredMember(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        rebalance_timeout_ms=rebalance_timeout_ms if rebalance_timeout_ms >= 0 else session_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=reader.bytes(),
        assignment=reader.bytes(),
    )
    reader.skip_tags()
    return member


def _versioned(data: bytes) -> tuple[_Reader, int]:
    reader = _Reader(data)
    version = reader.int16()
    if not 0 <= version <= _FLEXIBLE_VERSION:
        raise MalformedFrameError(f"group record of unknown version {version}")
    reader.flexible = version >= _FLEXIBLE_VERSION
    return reader, version


class _Reader:
    __slots__ = ("data", "flexible", "pos")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0
        self.flexible = False

    def _number(self, kind: Struct) -> int:
        try:
            (value,) = kind.unpack_from(self.data, self.pos)
        except error as cause:
            raise MalformedFrameError("truncated group record") from cause
        self.pos += kind.size
        return int(value)

    def int16(self) -> int:
        return self._number(_I16)

    def int32(self) -> int:
        return self._number(_I32)

    def int64(self) -> int:
        return self._number(_I64)

    def _length(self, kind: Struct) -> int:
        if not self.flexible:
            return self._number(kind)
        try:
            value, self.pos = read_uvarint(self.data, self.pos)
        except IndexError as cause:
            raise MalformedFrameError("truncated group record") from cause
        return value - 1

    def _take(self, length: int) -> bytes:
        end = self.pos + length
        if end > len(self.data):
            raise MalformedFrameError("truncated group record")
        taken, self.pos = self.data[self.pos : end], end
        return taken

    def string(self) -> str | None:
        length = self._length(_I16)
        if length > _MAX_STRING_BYTES:  # no coordinator writes such a string
            raise MalformedFrameError(f"group record with a string of {length} bytes")
        try:
            return None if length < 0 else self._take(length).decode()
        except UnicodeDecodeError as cause:
            raise MalformedFrameError("group record with a string that is not UTF-8") from cause

    def text(self) -> str:
        return self.string() or ""

    def bytes(self) -> bytes:
        return self._take(max(0, self._length(_I32)))

    def count(self) -> int:
        count = self._length(_I32)
        if count > len(self.data) - self.pos:
            raise MalformedFrameError("group record with more members than bytes")
        return count

    def skip_tags(self) -> None:
        if not self.flexible:
            return
        for _ in range(self._length(_I32) + 1):
            self._length(_I32)
            self._take(self._length(_I32) + 1)
