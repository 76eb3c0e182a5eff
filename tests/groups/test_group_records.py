"""Records of `__consumer_offsets`: Kafka's bytes, in all versions that a log may hold."""

from __future__ import annotations

from contextlib import suppress
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from insync.groups import records
from insync.groups.records import CommittedOffset, GroupKey, OffsetKey, StoredGroup, StoredMember
from insync.wire.errors import MalformedFrameError

names = st.text(max_size=40)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    StoredMember,
    member_id=names,
    instance_id=st.none() | names,
    client_id=names,
    client_host=names,
    rebalance_timeout_ms=st.integers(0, 2**31 - 1),
    session_timeout_ms=st.integers(0, 2**31 - 1),
    subscription=st.binary(max_size=50),
    assignment=st.binary(max_size=50),
)
groups = st.builds(
    StoredGroup,
    protocol_type=names,
    generation=int32s,
    protocol=st.none() | names,
    leader=st.none() | names,
    state_timestamp=int64s,
    members=st.lists(members, max_size=3).map(tuple),
)


def text(value: str) -> bytes:
    return pack(">h", len(value.encode())) + value.encode()


def compact(value: bytes) -> bytes:
    return bytes([len(value) + 1]) + value


def test_a_string_too_long_for_version_3_is_malformed() -> None:
    """The group is written again, in version 3, when it changes. A producer may have written anything to this topic."""
    long = b"c" * 32_768
    value = pack(">h", 4) + b"\x81\x80\x02" + long + pack(">i", 3) + b"\x00\x00" + bytes(8) + b"\x01\x00"
    with pytest.raises(MalformedFrameError, match="32768"):
        records.read_group(value)


@given(names, names, int32s)
def test_an_offset_key_is_read_back(group: str, topic: str, partition: int) -> None:
    key = OffsetKey(group, topic, partition)
    assert records.read_key(records.offset_key(key)) == key


@given(names)
def test_a_group_key_is_read_back(group: str) -> None:
    assert records.read_key(records.group_key(group)) == GroupKey(group)


@given(st.builds(CommittedOffset, offset=int64s, leader_epoch=int32s, metadata=names, commit_timestamp=int64s))
def test_an_offset_is_read_back(committed: CommittedOffset) -> None:
    assert records.read_offset(records.offset_value(committed)) == committed


@given(groups)
def test_a_group_is_read_back(group: StoredGroup) -> None:
    assert records.read_group(records.group_value(group)) == group


def test_offsets_are_written_as_kafka_writes_them() -> None:
    key = records.offset_key(OffsetKey("g", "topic", 7))
    value = records.offset_value(CommittedOffset(offset=42, leader_epoch=5, metadata="m", commit_timestamp=9))
    assert key == pack(">h", 1) + text("g") + text("topic") + pack(">i", 7)
    assert value == pack(">hqi", 3, 42, 5) + text("m") + pack(">q", 9)


@pytest.mark.parametrize(
    ("value", "expire"),
    [
        (pack(">hq", 0, 42) + text("m") + pack(">q", 9), -1),
        (pack(">hq", 1, 42) + text("m") + pack(">qq", 9, 77), 77),
        (pack(">hq", 2, 42) + text("m") + pack(">q", 9), -1),
        (pack(">hqi", 4, 42, -1) + compact(b"m") + pack(">q", 9) + b"\x00", -1),
        (pack(">hqi", 4, 42, -1) + compact(b"m") + pack(">q", 9) + b"\x01\x00\x02ab", -1),
    ],
)
def test_offsets_of_every_version_are_read(value: bytes, expire: int) -> None:
    assert records.read_offset(value) == CommittedOffset(
        offset=42, metadata="m", commit_timestamp=9, expire_timestamp=expire
    )


def member_bytes(version: int) -> bytes:
    data = text("m1")
    data += text("i1") if version >= 3 else b""
    data += text("client") + text("/host")
    data += pack(">i", 30) if version >= 1 else b""
    return data + pack(">i", 10) + pack(">i", 1) + b"s" + pack(">i", 2) + b"as"


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_groups_of_every_older_version_are_read(version: int) -> None:
    stamp = pack(">q", 99) if version >= 2 else b""
    data = pack(">h", version) + text("consumer") + pack(">i", 4) + text("range") + text("m1") + stamp
    group = records.read_group(data + pack(">i", 1) + member_bytes(version))
    assert (group.protocol_type, group.generation, group.protocol, group.leader) == ("consumer", 4, "range", "m1")
    assert group.state_timestamp == (99 if version >= 2 else -1)
    (member,) = group.members
    assert member.instance_id == ("i1" if version >= 3 else None)
    assert member.rebalance_timeout_ms == (30 if version >= 1 else 10)
    assert (member.subscription, member.assignment) == (b"s", b"as")


def test_a_group_in_the_flexible_version_is_read() -> None:
    member = compact(b"m1") + b"\x00" + compact(b"c") + compact(b"/h") + pack(">ii", 30, 10) + compact(b"s")
    member += compact(b"as") + b"\x01\x05\x03xyz"
    data = pack(">h", 4) + compact(b"consumer") + pack(">i", 4) + compact(b"range") + compact(b"m1") + pack(">q", 99)
    group = records.read_group(data + b"\x03" + member + member + b"\x00")
    assert [m.assignment for m in group.members] == [b"as", b"as"]


def test_keys_of_other_protocols_are_ignored() -> None:
    assert records.read_key(pack(">h", 3) + text("g")) is None


@given(st.builds(lambda version, data: pack(">h", version) + data, st.integers(-1, 5), st.binary(max_size=60)))
def test_arbitrary_bytes_are_malformed_or_can_be_written_again(data: bytes) -> None:
    with suppress(MalformedFrameError):
        key = records.read_key(data)
        if isinstance(key, OffsetKey):
            assert records.read_key(records.offset_key(key)) == key
        elif key is not None:
            assert records.read_key(records.group_key(key.group)) == key
    with suppress(MalformedFrameError):
        offset = records.read_offset(data)
        assert records.read_offset(records.offset_value(offset)) == offset
    with suppress(MalformedFrameError):
        group = records.read_group(data)
        assert records.read_group(records.group_value(group)) == group
