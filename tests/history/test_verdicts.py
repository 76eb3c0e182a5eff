"""A history of a good run is found good; whatever is planted in it is found, named, and located."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from insync.history import history_file
from insync.history.history_file import Event, HistoryError, HistoryWriter
from insync.history.verdict import Verdict, check_history

TOPIC = "orders"
RECORDS = 10
LAST_EPOCH = 3

History = list[Event]


def _event(kind: str, time: int, client: str, **columns: int | str) -> Event:
    return Event(kind, time, client, TOPIC, 0, **columns)  # type: ignore[arg-type]


def _good(records: int = RECORDS) -> History:
    """Two producers take turns; each write is acknowledged before the next is sent; a consumer reads along."""
    events: History = []
    for offset in range(records):
        written = {"producer": offset % 2, "sequence": offset // 2}
        client, epoch, at = f"producer-{offset % 2}", 1 + 2 * offset // records, 100 * offset
        events += [
            _event("send", at, client, crc=1_000 + offset, **written),
            _event("ack", at + 10, client, offset=offset, **written),
            _event("read", at + 20, "consumer-0", offset=offset, epoch=epoch, crc=1_000 + offset, **written),
            _event("list", at + 40, "watcher", started=at + 30, offset=offset + 1, epoch=epoch),
            _event("log", 10**6 + offset, "last", offset=offset, epoch=epoch, crc=1_000 + offset, **written),
        ]
    return [*events, _event("end", 2 * 10**6, "last", offset=records, epoch=LAST_EPOCH)]


def _at(events: History, kind: str, offset: int) -> Event:
    return next(event for event in events if event.kind == kind and event.offset == offset)


def _found(verdict: Verdict) -> list[tuple[str, str, int]]:
    return [(f.kind, f.property, f.offset) for each in verdict.partitions for f in each.findings]


def test_a_good_history_has_no_findings() -> None:
    verdict = check_history(_good())
    assert verdict.ok
    assert [verdict.count(kind) for kind in ("send", "ack", "read", "lost")] == [RECORDS, RECORDS, RECORDS, 0]


def test_a_history_in_which_nothing_happened_proves_nothing() -> None:
    assert not check_history([]).ok


def _lose(events: History) -> None:
    """The last record was acknowledged and is gone."""
    events.remove(_at(events, "log", 9))
    events.remove(_at(events, "read", 9))
    events.remove(_at(events, "list", 10))
    events[events.index(_at(events, "end", 10))].offset = 9


def _lose_the_first(events: History) -> None:
    """A log that begins later has lost what was before, whatever it says."""
    events.remove(_at(events, "log", 0))


def _replace(events: History) -> None:
    """Something else is where a record was acknowledged."""
    event = _at(events, "log", 4)
    event.crc, event.producer, event.sequence = 77, 5, 0


def _move(events: History) -> None:
    """Two producers' records have changed places after they were acknowledged and read."""
    for one, other in ((4, 5), (5, 4)):
        event = _at(events, "log", one)
        event.crc, event.producer, event.sequence = 1_000 + other, other % 2, other // 2


def _double(events: History) -> None:
    """A retry was written once more, at the end."""
    events += [replace(_at(events, "log", 7), offset=10)]
    events[events.index(_at(events, "end", 10))].offset = 11


def _swap_a_producers_writes(events: History) -> None:
    """Of two writes of one producer, the later one has got the lower offset; nobody was told, nobody has read."""
    first, second = _at(events, "log", 6), _at(events, "log", 8)
    first.sequence, second.sequence = 4, 3
    for offset in (6, 8):
        _fail(events, offset)
    events[:] = [event for event in events if event.kind != "read"]


def _fail(events: History, offset: int) -> None:
    acked = _at(events, "ack", offset)
    events[events.index(acked)] = replace(acked, kind="fail", offset=-1, error="timed out")


def _go_back_in_time(events: History) -> None:
    """A write was sent after the acknowledgement of one that has a higher offset."""
    _fail(events, 2)
    late = {"producer": 7, "sequence": 0}
    events += [
        _event("send", 901, "producer-7", crc=77, **late),
        _event("ack", 902, "producer-7", offset=2, **late),
    ]
    for event in events:
        if event.kind in ("read", "log") and event.offset == 2:
            event.crc, event.producer, event.sequence = 77, 7, 0


def _read_what_is_not_there(events: History) -> None:
    """A consumer was shown a record that was taken back."""
    event = _at(events, "read", 3)
    event.crc = 77


def _read_beyond_the_end(events: History) -> None:
    events += [_event("read", 5_000, "consumer-0", offset=10, epoch=1, crc=77, producer=0, sequence=5)]


def _read_another_epochs_record(events: History) -> None:
    _at(events, "read", 3).epoch = 9


def _pass_over(events: History) -> None:
    """A consumer was given 6 after 4."""
    events.remove(_at(events, "read", 5))


def _tell_less(events: History) -> None:
    """Who asked later, in the same epoch, was told a lower end offset."""
    events += [_event("list", 450, "watcher", started=445, offset=3, epoch=1)]


def _tell_less_in_a_later_epoch(events: History) -> None:
    events += [_event("list", 450, "watcher", started=445, offset=3, epoch=2)]


def _hide_what_was_acknowledged(events: History) -> None:
    """In the last epoch, everything acknowledged before is visible (H4)."""
    events[:] = [event for event in events if event.kind != "list"]
    events += [_event("list", 5_000, "watcher", started=4_999, offset=9, epoch=LAST_EPOCH)]


def _tell_too_much(events: History) -> None:
    events += [_event("list", 5_000, "watcher", started=4_999, offset=12, epoch=LAST_EPOCH)]


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (_lose, [("lost", "S9", 9)]),
        (_lose_the_first, [("lost", "S9", 0), ("lost", "S9", 0), ("inconsistent", "S8", 0)]),
        (_replace, [("lost", "S9", 4), ("inconsistent", "S8", 4)]),
        (_move, [("moved", "S9", 4), ("inconsistent", "S8", 4), ("moved", "S9", 5), ("inconsistent", "S8", 5)]),
        (_double, [("duplicated", "S13", 10)]),
        (_swap_a_producers_writes, [("reordered", "S13", 8)]),
        (_go_back_in_time, [("reordered", "S11", 2)]),
        (_read_what_is_not_there, [("inconsistent", "S8", 3)]),
        (_read_beyond_the_end, [("inconsistent", "S8", 10)]),
        (_read_another_epochs_record, [("inconsistent", "S8", 3)]),
        (_pass_over, [("inconsistent", "S8", 6)]),
        (_tell_less, [("stale", "S6", 3)]),
        (_tell_less_in_a_later_epoch, [("stale", "S6", 3)]),
        (_hide_what_was_acknowledged, [("stale", "S11", 9)]),
        (_tell_too_much, [("stale", "S6", 12)]),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_what_is_planted_is_found(plant: Callable[[History], None], expected: list[tuple[str, str, int]]) -> None:
    events = _good()
    plant(events)
    assert _found(check_history(events)) == expected


def test_a_replaced_leader_may_tell_less_to_those_who_ask_in_its_own_epoch() -> None:
    """Leaders hold no lease: an answer binds later answers of the same and of higher epochs, not of lower ones."""
    events = _good()
    events += [_event("list", 850, "watcher", started=845, offset=5, epoch=1)]
    assert check_history(events).ok


def test_a_write_that_failed_may_be_in_the_log_or_not() -> None:
    events = _good()
    for offset in (3, 9):
        _fail(events, offset)
    _lose_quietly(events)
    assert check_history(events).ok


def _lose_quietly(events: History) -> None:
    for event in [each for each in events if each.kind in ("log", "read") and each.offset == 9]:
        events.remove(event)
    events.remove(_at(events, "list", 10))
    events[events.index(_at(events, "end", 10))].offset = 9


def test_an_acknowledgement_without_an_offset_still_promises_that_the_record_is_there() -> None:
    events = _good()
    for event in events:
        if event.kind == "ack":
            event.offset = -1
    assert check_history(events).ok
    _lose_quietly(events)
    assert _found(check_history(events)) == [("lost", "S9", -1)]


def test_a_write_that_was_never_answered_is_told() -> None:
    events = _good()
    events.remove(_at(events, "ack", 9))
    assert _found(check_history(events)) == [("unanswered", "L5", -1)]


def test_a_partition_that_nobody_read_to_its_end_is_not_called_good() -> None:
    events = [event for event in _good() if event.kind != "end"]
    assert _found(check_history(events)) == [("unread", "", -1)]


def test_a_long_log_is_judged_to_its_first_record() -> None:
    """The simulator forgets what is old; here nothing is forgotten."""
    events = _good(17_000)
    _at(events, "log", 1).crc = 77
    assert _found(check_history(events)) == [("lost", "S9", 1), ("inconsistent", "S8", 1)]


def test_partitions_are_judged_each_by_itself() -> None:
    other = [replace(event, partition=1) for event in _good()]
    _double(other)
    verdict = check_history([*_good(), *other])
    assert [len(each.findings) for each in verdict.partitions] == [0, 1]
    assert list(verdict.lines()) == [
        "duplicated orders-1 offset 10: sequence 3 of producer 1 epoch 0 is committed again at 10, "
        "the last one was 4 (S13)"
    ]


def test_a_history_comes_back_from_its_file_as_it_was(tmp_path: Path) -> None:
    events = _good()
    with HistoryWriter(tmp_path / "history.jsonl") as writer:
        writer.write(*events)
    assert list(history_file.read(writer.path)) == events
    assert "epoch" not in writer.path.read_text().splitlines()[0]  # a send has none


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"kind":"send"}', '{"kind":"x","time":1,"client":"","topic":"","partition":0}']
)
def test_a_line_that_is_no_event_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(history_file.to_line(_good()[0]) + line + "\n")
    with pytest.raises(HistoryError, match=r"history.jsonl:2: "):
        list(history_file.read(path))
