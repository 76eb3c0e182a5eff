"""Timers are postponed cheaply, fire once, and never late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from insync.groups.timers import Timer, Timers


def one_timer(*times: int) -> tuple[Timers, Timer, list[int]]:
    """A timer that was set to each of `times`, and the times at which it fires."""
    timers = Timers()
    fired: list[int] = []
    timer = timers.create(fired.append)
    for at in times:
        timer.set(at)
    return timers, timer, fired


def test_a_postponed_timer_fires_at_its_last_time() -> None:
    timers, _, fired = one_timer(10, 30)
    timers.run(10)
    timers.run(29)
    assert fired == []
    timers.run(30)
    assert fired == [30]


def test_a_timer_that_is_brought_forward_fires_once() -> None:
    timers, _, fired = one_timer(30, 10)
    timers.run(10)
    timers.run(40)
    assert fired == [10]


def test_a_cancelled_timer_leaves_no_deadline() -> None:
    timers, timer, fired = one_timer(10)
    timer.cancel()
    assert timers.next_deadline() is None
    timers.run(20)
    assert fired == []


def test_a_cancelled_timer_can_be_set_again() -> None:
    timers, timer, fired = one_timer(10)
    timer.cancel()
    timer.set(20)
    timers.run(20)
    assert fired == [20]


actions = st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 50)), max_size=20)


@given(st.lists(st.tuples(actions, st.integers(0, 12)), max_size=8))
def test_timers_fire_exactly_when_a_simple_list_of_them_would(
    rounds: list[tuple[list[tuple[int, int | None]], int]],
) -> None:
    timers = Timers()
    fired: list[tuple[int, int]] = []

    def create(number: int) -> Timer:
        return timers.create(lambda now: fired.append((number, now)))

    all_timers = [create(number) for number in range(3)]
    model: dict[int, int] = {}
    now = 0
    for changes, wait in rounds:
        for n, at in changes:
            if at is None:
                all_timers[n].cancel()
                model.pop(n, None)
            else:
                all_timers[n].set(now + at)
                model[n] = now + at
        first = timers.next_deadline()
        assert (first is None) == (not model)
        assert first is None or first <= min(model.values())
        now += wait
        fired.clear()
        timers.run(now)
        due = sorted(n for n, at in model.items() if at <= now)
        assert sorted(n for n, _ in fired) == due
        for n in due:
            del model[n]
