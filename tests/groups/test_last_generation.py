"""A group's generation has 31 bits, and a record may hold the last one."""

from __future__ import annotations

from random import Random

import pytest

from insync.groups import records
from insync.groups.config import GroupConfig
from insync.groups.coordinator import Coordinator
from insync.groups.records import StoredGroup, StoredMember
from insync.groups.shard import OnCommitted, OnDone
from insync.sansio import Outbox
from insync.wire import batch
from insync.wire.batch import Record
from insync.wire.errors import ErrorCode

MEMBER = StoredMember(
    member_id="m",
    client_id="c",
    client_host="h",
    rebalance_timeout_ms=1_000,
    session_timeout_ms=1_000,
    subscription=b"",
    assignment=b"",
)


class Log:
    def __init__(self) -> None:
        self.stored: list[StoredGroup] = []

    def append(
        self, _partition: int, _epoch: int, data: bytearray, on_done: OnDone, on_committed: OnCommitted, now: int
    ) -> None:
        self.stored += [records.read_group(record.value or b"") for record in batch.records(data)]
        on_committed(now)
        on_done(ErrorCode.none, 0, now)


@pytest.mark.parametrize(("last", "following"), [(5, 6), (2**31 - 1, 1), (-1, 1)])
def test_after_the_last_generation_comes_the_first(last: int, following: int) -> None:
    log = Log()
    coordinator = Coordinator(
        config=GroupConfig(offsets_topic_num_partitions=1),
        log=log,
        out=Outbox(),
        rng=Random(1),
        wall_offset_ms=0,
        has_partition=lambda topic, index: True,
        now=0,
    )
    coordinator.begin_load(0, epoch=0)
    group = StoredGroup(protocol_type="consumer", generation=last, protocol="range", leader="m", members=(MEMBER,))
    coordinator.replay(0, Record(0, 0, records.group_key("g"), records.group_value(group)))
    coordinator.finish_load(0, 0)
    coordinator.tick(5_000)  # the session of its only member has ended
    assert [group.generation for group in log.stored] == [following]
