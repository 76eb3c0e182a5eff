"""Impossible values from the wire are refused, and leave nothing on disk (Q8)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from insync.quorum import messages
from insync.quorum.config import QuorumConfig
from insync.quorum.messages import LeaderInfo, OffsetAndEpoch
from insync.quorum.state import MAX_ANSWERED_EPOCH_STEP, MAX_EPOCH_STEP
from insync.storage.posix import PosixDisk
from insync.wire.errors import ErrorCode
from insync.wire.messages import fetch, fetch_snapshot, vote
from tests.quorum.quorum_harness import QuorumHarness, data, fetch_answer
from tests.quorum.quorum_net_harness import CLUSTER
from tests.wire.batch_harness import write_crc

LAST_EPOCH = 2**31 - 1


@pytest.mark.parametrize("ask", ["vote", "pre-vote", "begin", "end"])
@pytest.mark.parametrize("epoch", [MAX_EPOCH_STEP + 2, LAST_EPOCH - 1, LAST_EPOCH])
def test_a_request_with_an_epoch_far_ahead_is_refused_and_noted_once(ask: str, epoch: int) -> None:
    """Q8: it would leave no epoch for the next election, or one that cannot be read back."""
    harness = QuorumHarness()
    harness.vote(2, 1)
    before = {name: harness.disk.size(name) for name in ("quorum-offset-checkpoint",)}
    for _ in range(3):
        if ask == "begin":
            answer = harness.begin(2, epoch)
        elif ask == "end":
            answer = harness.end(2, epoch, (1, 3))
        else:
            answer = harness.vote(2, epoch, (5, 1), pre=ask == "pre-vote")
        assert answer.error_code is ErrorCode.invalid_request
    assert harness.quorum.epoch == 1
    assert {name: harness.disk.size(name) for name in before} == before
    assert len(harness.notes("quorum_claim_refused")) == 1
    assert QuorumHarness(disk=harness.disk).quorum.epoch == 1


def test_an_epoch_that_elections_can_have_reached_is_adopted() -> None:
    """Q4, Q8: a voter that was away for long votes again."""
    harness = QuorumHarness().intact()
    assert harness.vote(2, MAX_EPOCH_STEP, (5, 1)).vote_granted


def answer_pre_vote(harness: QuorumHarness, epoch: int, leader: int) -> None:
    harness.tick()
    send = harness.sends(vote.VoteRequest)[0]
    harness.answer(
        send, messages.vote_response(LeaderInfo(epoch, leader, ErrorCode.fenced_leader_epoch), granted=False)
    )


def test_the_epoch_of_an_answer_may_be_further_ahead_but_not_out_of_reach() -> None:
    """Q8: an answer of a voter is more credible than a request; even an answer cannot use up all epochs."""
    for epoch, adopted in ((MAX_ANSWERED_EPOCH_STEP, True), (MAX_ANSWERED_EPOCH_STEP + 1, False), (LAST_EPOCH, False)):
        harness = QuorumHarness()
        answer_pre_vote(harness, epoch, -1)
        assert (harness.quorum.epoch == epoch) is adopted


def test_a_leader_that_is_not_a_voter_is_refused() -> None:
    """Q8: no replica could reach it."""
    harness = QuorumHarness()
    answer_pre_vote(harness, 3, 99)
    assert (harness.quorum.epoch, harness.quorum.leader_id) == (0, -1)


def batch_with(**fields: Any) -> bytes:
    """A sound batch at offset 2 of epoch 4, except for these fields of its header."""
    made = bytearray(data(fields.get("base", 2), fields.get("epoch", 4), b"x"))
    if "delta" in fields:
        made[23:27] = fields["delta"].to_bytes(4, "big")
        write_crc(made)
    return bytes(made)


@pytest.mark.parametrize(
    "records", [batch_with(base=3), batch_with(base=1), batch_with(epoch=5), batch_with(epoch=3), batch_with(delta=9)]
)
def test_records_that_do_not_continue_the_log_are_refused(records: bytes) -> None:
    """Q8, F5, D1: a gap, an overlap, an epoch later than the leader's own or older than the last."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=data(0, 4, b"a", b"b"), hwm=1))
    harness.sync()
    harness.answer(harness.sends(fetch.FetchRequest)[-1], fetch_answer(2, 4, records=records, hwm=1))
    assert harness.notes("quorum_bad_records")
    assert (harness.quorum.leo, harness.quorum.log.epochs.last_epoch) == (2, 4)


@pytest.mark.parametrize(
    "content",
    [
        {"diverging": OffsetAndEpoch(-1, 3)},
        {"diverging": OffsetAndEpoch(-(2**63), 0)},
        {"snapshot": OffsetAndEpoch(2**63 - 1, 4)},
        {"snapshot": OffsetAndEpoch(-5, 4)},
        {"snapshot": OffsetAndEpoch(50, LAST_EPOCH)},
    ],
)
def test_impossible_positions_in_an_answer_change_nothing(content: dict[str, OffsetAndEpoch]) -> None:
    """Q8: the follower neither truncates nor asks for such a snapshot."""
    harness = QuorumHarness()
    harness.answer(harness.follow(2, 4), fetch_answer(2, 4, records=data(0, 4, b"a", b"b"), hwm=2))
    harness.sync()
    harness.answer(harness.sends(fetch.FetchRequest)[-1], fetch_answer(2, 4, **content))
    assert (harness.quorum.leo, harness.quorum.hwm) == (2, 2)
    assert not harness.sends(fetch_snapshot.FetchSnapshotRequest)


def test_a_snapshot_larger_than_announced_is_not_downloaded() -> None:
    """Q8: a leader that sends without end does not fill the memory."""
    harness = QuorumHarness(config=QuorumConfig(snapshot_max_bytes=1_000))
    named = OffsetAndEpoch(50, 4)
    for size in (2_000, 10, -1):
        harness.answer(harness.follow(2, 4) if size == 2_000 else retried(harness), fetch_answer(2, 4, snapshot=named))
        send = harness.sends(fetch_snapshot.FetchSnapshotRequest)[-1]
        info = LeaderInfo(4, 2, ErrorCode.none)
        chunk = messages.fetch_snapshot_response(info, named, size=size, position=0, chunk=b"x" * 100)
        harness.answer(send, chunk)
        assert not harness.sends(fetch_snapshot.FetchSnapshotRequest)


def retried(harness: QuorumHarness) -> Any:
    harness.tick()
    return harness.sends(fetch.FetchRequest)[-1]


@pytest.mark.parametrize("size", [-1, -(2**31), 0])
def test_a_fetch_of_a_negative_number_of_bytes_is_answered(tmp_path: Path, size: int) -> None:
    """Q8: on a real disk such a read fails, and a node whose disk fails stops."""
    disk: Any = PosixDisk(str(tmp_path))
    harness = QuorumHarness(1, (1,), disk=disk)
    harness.sync()
    harness.quorum.propose([b"a" * 500], harness.now)
    harness.collect()
    harness.sync()
    config = QuorumConfig(fetch_max_bytes=size, fetch_max_wait_ms=0)
    epoch = harness.quorum.epoch
    request = messages.fetch_request(CLUSTER, 7, epoch, OffsetAndEpoch(1, epoch), 0, config)
    token = harness._ask(harness.quorum.handle_fetch, request)
    assert harness.fetched(token).error_code is ErrorCode.none
    harness.write_snapshot([b"image"], harness.quorum.hwm, 1)
    named = OffsetAndEpoch(harness.quorum.hwm, 1)
    chunk = messages.fetch_snapshot_request(CLUSTER, 7, epoch, named, 0, size)
    token = harness._ask(harness.quorum.handle_fetch_snapshot, chunk)
    assert harness.replies[token].topics[0].partitions[0].error_code is ErrorCode.none
