"""Simulated time: order, and the clocks of nodes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from insync.sim.engine.engine import Engine, NodeClock


def test_calls_run_in_the_order_of_time_and_then_of_scheduling() -> None:
    engine = Engine()
    seen: list[str] = []
    engine.call_at(20, seen.append, "third")
    engine.call_at(10, seen.append, "first")
    engine.call_at(10, seen.append, "second")
    engine.run_until(30)
    assert seen == ["first", "second", "third"]
    assert engine.now == 30


def test_a_call_for_the_past_runs_now() -> None:
    engine = Engine()
    times: list[int] = []
    engine.call_at(50, lambda: engine.call_at(10, lambda: times.append(engine.now)))
    engine.run_until(100)
    assert times == [50]


def test_a_stopped_engine_runs_no_further_calls() -> None:
    engine = Engine()
    seen: list[str] = []
    engine.call_at(1, seen.append, "before")
    engine.call_at(2, engine.stop)
    engine.call_at(3, seen.append, "after")
    engine.run_until(10)
    assert seen == ["before"]
    assert engine.now == 2


def test_later_calls_stay_scheduled() -> None:
    engine = Engine()
    seen: list[int] = []
    engine.call_at(5, seen.append, 5)
    engine.call_at(15, seen.append, 15)
    engine.run_until(10)
    assert seen == [5]
    engine.run_until(20)
    assert seen == [5, 15]


@given(
    skew=st.integers(0, 10**6),
    drift=st.integers(-300_000, 300_000),
    deadline=st.integers(1, 10**7),
)
def test_a_deadline_is_met_at_the_first_microsecond_at_which_the_clock_shows_it(
    skew: int, drift: int, deadline: int
) -> None:
    clock = NodeClock(skew, drift)
    at = clock.sim_time_of(skew + deadline)
    assert clock.now_ms(at) >= skew + deadline
    assert clock.now_ms(at - 1) < skew + deadline


def test_a_fast_clock_shows_more_time_than_has_passed() -> None:
    clock = NodeClock(0, 100_000)
    assert clock.now_ms(1_000_000) == 1_100


def test_a_clock_never_goes_back_when_its_rate_changes() -> None:
    clock = NodeClock(5, 200_000)
    before = clock.now_us(1_000_000)
    clock.set_drift(1_000_000, -200_000)
    assert clock.now_us(1_000_000) == before
    assert clock.now_us(2_000_000) == before + 800_000


def test_a_jump_goes_forward() -> None:
    clock = NodeClock()
    clock.jump(700)
    assert clock.now_ms(1_000) == 701
