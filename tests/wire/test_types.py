"""Conversion of durations, instants and uuids between kio's types and the node's numbers."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from insync.wire.types import ZERO_UUID, instant, instant_millis, millis, ms, uuid_from


@given(st.integers(-(2**31), 2**31 - 1))
def test_durations_come_back(milliseconds: int) -> None:
    assert millis(ms(milliseconds)) == milliseconds


def test_a_duration_is_cut_to_whole_milliseconds() -> None:
    assert millis(timedelta(microseconds=1999)) == 1


@given(st.integers(0, 2**45))
def test_instants_come_back(milliseconds: int) -> None:
    assert instant_millis(instant(milliseconds)) == milliseconds


def test_no_instant_is_minus_one() -> None:
    assert instant(-1) is None
    assert instant_millis(None) == -1


def test_no_uuid_is_the_zero_one() -> None:
    assert uuid_from(ZERO_UUID.bytes) is None
    assert uuid_from(UUID(int=5).bytes) == UUID(int=5)
