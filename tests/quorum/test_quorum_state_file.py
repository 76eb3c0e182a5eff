"""The quorum-state file (Q4)."""

from __future__ import annotations

import json

import pytest

from insync.quorum import state_file
from insync.quorum.state_file import ElectionState
from insync.sim.engine.disk import SimDisk
from insync.storage.disk import write_plainly


def test_the_file_is_that_of_a_kafka_cluster_with_static_voters() -> None:
    """Q4, B9: one line of JSON that Kafka's own tools read, version 0, which names the voters."""
    state = ElectionState(epoch=7, leader_id=2, voted_id=3)
    data = state_file.encode(state, (1, 2, 3))
    assert json.loads(data) == {
        "clusterId": "",
        "leaderId": 2,
        "leaderEpoch": 7,
        "votedId": 3,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}],
        "data_version": 0,
    }
    assert state_file.decode(data) == state
    assert state_file.decode_voters(data) == (1, 2, 3)


def test_version_1_is_read_too() -> None:
    """Q4: Kafka writes it for dynamic voters, and earlier releases of insync wrote it too."""
    data = b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
    assert state_file.decode(data) == ElectionState(epoch=2, leader_id=1, voted_id=-1)
    assert state_file.decode_voters(data) is None


OTHER_VALUES = [
    b'{"data_version":1,"leaderId":1,"leaderEpoch":%s,"votedId":-1}' % value
    for value in (b'"2"', b"2.0", b"-5", b"-1", b"2147483647", b"99999999999", b"null", b"[2]", b"true")
]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b'{"data_version":9}', b'{"data_version":1}', b"[" * 50_000, b"\xff", *OTHER_VALUES],
)
def test_an_unreadable_file_is_reported_as_damaged(content: bytes) -> None:
    """Q4, Q8: a vote that may have been given must not be given again."""
    disk = SimDisk()
    write_plainly(disk, "quorum-state", content)
    state, error = state_file.load_if_sound(disk, "quorum-state")
    assert state is None
    assert error


def test_a_replica_that_never_ran_has_no_state() -> None:
    """Q4: a missing file is not a damaged one."""
    disk = SimDisk()
    state_file.make_directory_durable(disk, "a/b")
    assert state_file.load_if_sound(disk, "a/b/quorum-state") == (None, "")
