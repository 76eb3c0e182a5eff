"""Records of `__consumer_offsets` with any content, which a coordinator replays.

An input is a list of records: keys and values with their lengths.
"""

from __future__ import annotations

from random import Random
from struct import pack

from fuzz.archive import pack_files, unpack_files
from fuzz.mutate import mutate_bytes, varint
from fuzz.target import Target
from fuzz.targets.common import SUBSCRIPTION
from insync.groups import records, subscription
from insync.groups.config import GroupConfig
from insync.groups.coordinator import Coordinator
from insync.groups.records import CommittedOffset, OffsetKey, StoredGroup, StoredMember
from insync.groups.shard import OnCommitted, OnDone
from insync.sansio import Outbox
from insync.wire.batch import Record
from insync.wire.errors import ErrorCode


def run(data: bytes) -> None:
    coordinator = Coordinator(
        config=GroupConfig(offsets_topic_num_partitions=1),
        log=_Log(),
        out=Outbox(),
        rng=Random(1),
        wall_offset_ms=0,
        has_partition=lambda topic, index: True,
        now=1_000,
    )
    coordinator.begin_load(0, epoch=0)
    for at, (key, value) in enumerate(_unpack_rows(data)):
        coordinator.replay(0, Record(at, 1_000, key, value))
        subscription.read_topics(key)
    coordinator.finish_load(0, 1_000)
    coordinator.topics_deleted({"t": None}, 1_000)
    for now in (2_000, 700_000, 10**10):  # sessions end and offsets expire, so records are written
        coordinator.tick(now)
    coordinator.unload(0)


class _Log:
    """Commits every append at once."""

    def append(
        self, _partition: int, _epoch: int, _data: bytearray, on_done: OnDone, on_committed: OnCommitted, now: int
    ) -> None:
        on_committed(now)
        on_done(ErrorCode.none, 0, now)


def seeds() -> list[bytes]:
    member = StoredMember(
        member_id="m",
        instance_id="i",
        client_id="c",
        client_host="h",
        rebalance_timeout_ms=1_000,
        session_timeout_ms=1_000,
        subscription=SUBSCRIPTION,
        assignment=b"a",
    )
    stored = StoredGroup(protocol_type="consumer", generation=3, protocol="range", leader="m", members=(member,) * 2)
    committed = CommittedOffset(offset=5, commit_timestamp=1_000, metadata="x")
    rows = [
        (records.offset_key(OffsetKey("g", "t", 0)), records.offset_value(committed)),
        (records.group_key("g"), records.group_value(stored)),
        (
            records.group_key("g"),
            pack(">h", 4) + b"\x09consumer\x00\x00\x00\x03\x06range\x02m" + bytes(8) + b"\x01\x00",
        ),
        (records.group_key("g"), _flexible("consumer", "m" * 40)),
        (records.group_key("g"), _flexible("c" * 40_000, "m" * 40_000)),
        (records.group_key("g"), _flexible("consumer", "m", 2**31 - 1)),
        (records.group_key("g"), _flexible("consumer", "m", -(2**31))),
        (records.group_key("g"), None),
        (
            b"\x00\x01" + pack(">h", 1) + b"g" + pack(">h", 30_000) + b"t" * 30_000 + bytes(4),
            records.offset_value(committed),
        ),
    ]
    return [_pack_rows(rows), *(_pack_rows([row]) for row in rows)]


def _flexible(protocol_type: str, member: str, generation: int = 3) -> bytes:
    """Version 4 of a group's value, in which strings may be longer than in the others."""

    def text(value: str) -> bytes:
        return varint(len(value) + 1) + value.encode()

    one = text(member) * 4 + pack(">ii", 1_000, 1_000) + text("x") * 2 + b"\x00"
    head = pack(">h", 4) + text(protocol_type) + pack(">i", generation) + text("range") + text(member) + bytes(8)
    return head + varint(2) + one + b"\x00"


def mutate(data: bytes, rng: Random) -> bytes:
    rows = _unpack_rows(data) or [(b"", b"")]
    at = rng.randrange(len(rows))
    key, value = rows[at]
    if rng.random() < 0.4:
        key = mutate_bytes(key, rng)
    else:
        value = mutate_bytes(value or b"", rng)
    rows[at] = (key, value)
    if rng.random() < 0.2:
        rows.append(rng.choice(rows))
    return _pack_rows(rows[:20])


def _pack_rows(rows: list[tuple[bytes, bytes | None]]) -> bytes:
    files: dict[str, bytes] = {}
    for at, (key, value) in enumerate(rows):
        files[f"{at:02d}.key"] = key
        if value is not None:
            files[f"{at:02d}.value"] = value
    return pack_files(files)


def _unpack_rows(data: bytes) -> list[tuple[bytes, bytes | None]]:
    files = unpack_files(data)
    return [(files[name], files.get(name[:-3] + "value")) for name in sorted(files) if name.endswith(".key")]


TARGET = Target(name="groups", about=__doc__ or "", run=run, seeds=seeds, mutate=mutate, short=1_200)
