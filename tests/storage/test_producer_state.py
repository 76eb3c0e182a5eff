"""P4: a batch sent twice is stored once."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c

from insync.storage import producer_state
from insync.storage.producer_state import Duplicate, ProducerStates, decode_snapshot
from insync.wire import batch as batches
from insync.wire.batch import BatchHeader
from insync.wire.errors import ErrorCode
from tests.storage.storage_harness import LogHarness


def header(sequence: int, count: int = 1, *, epoch: int = 0, offset: int = 0, producer: int = 9) -> BatchHeader:
    records = [batches.NewRecord(None, b"")] * count
    return batches.read_header(
        batches.build(
            records,
            base_offset=offset,
            timestamp_ms=100,
            producer_id=producer,
            producer_epoch=epoch,
            base_sequence=sequence,
        )
    )


@pytest.fixture
def states() -> ProducerStates:
    """Producer 9 wrote seven batches of two, sequences 0-13, at offsets 100-113."""
    states = ProducerStates()
    for at in range(0, 14, 2):
        states.update(header(at, 2, offset=100 + at))
    return states


def test_a_duplicate_is_answered_with_its_first_offset(states: ProducerStates) -> None:
    """P4, W14: the last five batches are known."""
    for at in range(4, 14, 2):
        duplicate = states.check(header(at, 2))
        assert isinstance(duplicate, Duplicate)
        assert (duplicate.first_offset, duplicate.last_offset) == (100 + at, 101 + at)
    assert states.check(header(2, 2)) is ErrorCode.out_of_order_sequence_number


def test_the_next_sequence_is_accepted_and_a_gap_is_not(states: ProducerStates) -> None:
    """P4"""
    assert states.check(header(14, 3)) is None
    assert states.check(header(15)) is ErrorCode.out_of_order_sequence_number
    assert states.check(header(12, 3)) is ErrorCode.out_of_order_sequence_number


def test_epochs_only_rise_and_start_at_sequence_zero(states: ProducerStates) -> None:
    """P4"""
    states.update(header(0, epoch=3, offset=200))
    assert states.check(header(14, epoch=2)) is ErrorCode.invalid_producer_epoch
    assert states.check(header(1, epoch=3)) is None
    assert states.check(header(1, epoch=4)) is ErrorCode.out_of_order_sequence_number
    assert states.check(header(0, epoch=4)) is None
    assert states.check(header(12, 2, epoch=3)) is ErrorCode.out_of_order_sequence_number


def test_an_unknown_producer_may_start_anywhere(states: ProducerStates) -> None:
    assert states.check(header(77, producer=10)) is None
    assert states.check(header(-1, producer=-1)) is None


def test_sequences_wrap() -> None:
    """P4"""
    states = ProducerStates()
    states.update(header(2**31 - 2, 3))
    assert states.check(header(1)) is None
    assert states.check(header(2)) is ErrorCode.out_of_order_sequence_number
    assert isinstance(states.check(header(2**31 - 2, 3)), Duplicate)
    loaded = decode_snapshot(states.encode())
    assert loaded is not None
    assert isinstance(loaded.check(header(2**31 - 2, 3)), Duplicate)


def test_idle_producers_are_forgotten(states: ProducerStates) -> None:
    states.expire(1_099, 1_000)
    assert 9 in states.producers
    states.expire(1_100, 1_000)
    assert states.producers == {}


def test_the_snapshot_file_is_kafkas(states: ProducerStates) -> None:
    """Version 1, CRC-32C of what follows it, then the last batch of each producer."""
    body = struct.pack(">iqhiqiqiq", 1, 9, 0, 13, 113, 1, 100, -1, -1)
    assert states.encode() == struct.pack(">hI", 1, crc32c(body)) + body
    loaded = decode_snapshot(states.encode())
    assert loaded is not None
    assert isinstance(loaded.check(header(12, 2)), Duplicate)
    assert loaded.check(header(14)) is None
    assert loaded.encode() == states.encode()


def test_a_damaged_snapshot_is_not_used(states: ProducerStates) -> None:
    data = bytearray(states.encode())
    for at in range(len(data)):
        data[at] ^= 0x40
        assert decode_snapshot(bytes(data)) is None
        data[at] ^= 0x40
    for size in range(len(data)):
        assert decode_snapshot(bytes(data[:size])) is None


@pytest.mark.parametrize("offset", range(0, 21, 2))
def test_a_truncation_resets_producers_to_that_offset(offset: int) -> None:
    """P4: truncated batches may be sent again; the others are duplicates."""
    harness = LogHarness(segment_bytes=400)
    for at in range(0, 20, 2):
        harness.append(2, producer_id=9, producer_epoch=0, base_sequence=at)
    harness.log.truncate_to(offset)
    fresh = header(offset, 2)
    assert harness.log.producers.check(fresh) is None
    if offset:
        assert isinstance(harness.log.producers.check(header(offset - 2, 2)), Duplicate)


def test_followers_derive_producers_from_the_batches() -> None:
    """P4: so that a new leader has them."""
    leader, follower = LogHarness(), LogHarness()
    leader.append(2, producer_id=9, producer_epoch=0, base_sequence=0)
    follower.log.append_as_follower(leader.log.read(0, 1_000, limit_offset=2))
    assert isinstance(follower.log.producers.check(header(0, 2)), Duplicate)


def test_above_the_limit_the_producers_that_wrote_longest_ago_are_forgotten() -> None:
    """P4: clients can invent ids. Every replica forgets the same producers, as the order is that of the log."""
    states = ProducerStates()
    for at in range(producer_state.MAX_PRODUCERS + 1):
        states.update(header(0, producer=at, offset=at))
        if at == 100:
            states.update(header(1, producer=0, offset=at + 1))
    assert len(states.producers) <= producer_state.MAX_PRODUCERS
    assert 1 not in states.producers
    assert 0 not in states.producers, "a hundred batches later is still long ago"
    assert isinstance(states.check(header(0, producer=producer_state.MAX_PRODUCERS)), Duplicate)
    again = decode_snapshot(states.encode())
    assert again is not None
    again.evict_oldest()
    states.evict_oldest()
    assert sorted(again.producers) == sorted(states.producers)
