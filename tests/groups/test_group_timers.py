"""Alarms: put off cheaply, rung once, never late."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from insync.groups.timers import Timers


def test_an_alarm_that_is_put_off_rings_at_its_last_time() -> None:
    timers, rung = Timers(), []
    alarm = timers.create(rung.append)
    alarm.set(10)
    alarm.set(30)
    timers.run(10)
    timers.run(29)
    assert rung == []
    timers.run(30)
    assert rung == [30]


def test_an_alarm_that_is_brought_forward_rings_once() -> None:
    timers, rung = Timers(), []
    alarm = timers.create(rung.append)
    alarm.set(30)
    alarm.set(10)
    timers.run(10)
    timers.run(40)
    assert rung == [10]


def test_a_cancelled_alarm_leaves_no_deadline() -> None:
    timers, rung = Timers(), []
    alarm = timers.create(rung.append)
    alarm.set(10)
    alarm.cancel()
    assert timers.next_deadline() is None
    timers.run(20)
    assert rung == []


def test_an_alarm_that_was_cancelled_can_be_set_again() -> None:
    timers, rung = Timers(), []
    alarm = timers.create(rung.append)
    alarm.set(10)
    alarm.cancel()
    alarm.set(20)
    timers.run(20)
    assert rung == [20]


actions = st.lists(st.tuples(st.integers(0, 2), st.none() | st.integers(0, 50)), max_size=20)


@given(st.lists(st.tuples(actions, st.integers(0, 12)), max_size=8))
def test_alarms_ring_exactly_when_a_simple_list_of_them_would(
    rounds: list[tuple[list[tuple[int, int | None]], int]],
) -> None:
    timers = Timers()
    rung: list[tuple[int, int]] = []
    alarms = [timers.create(lambda now, n=n: rung.append((n, now))) for n in range(3)]  # type: ignore[misc]
    model: dict[int, int] = {}
    now = 0
    for changes, wait in rounds:
        for n, at in changes:
            if at is None:
                alarms[n].cancel()
                model.pop(n, None)
            else:
                alarms[n].set(now + at)
                model[n] = now + at
        first = timers.next_deadline()
        assert (first is None) == (not model)
        assert first is None or first <= min(model.values())
        now += wait
        rung.clear()
        timers.run(now)
        due = sorted(n for n, at in model.items() if at <= now)
        assert sorted(n for n, _ in rung) == due
        for n in due:
            del model[n]
