"""The history of a correct run has no findings; every defect that is planted in it is reported, with its place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from insync.history import history_file
from insync.history.history_file import Event, HistoryError, HistoryWriter
from insync.history.verdict import check_history

TOPIC = "orders"
RECORDS = 10
LAST_EPOCH = 3

History = list[Event]


def _event(kind: str, time: int, client: str, **columns: Any) -> Event:
    return Event(kind, time, client, TOPIC, 0, **columns)


def _correct_history(records: int = RECORDS) -> History:
    """Two producers take turns; each write is acknowledged before the next is sent; a consumer reads them."""
    events: History = []
    for offset in range(records):
        written = {"producer": offset % 2, "sequence": offset // 2}
        client, epoch, time = f"producer-{offset % 2}", 1 + 2 * offset // records, 100 * offset
        events += [
            _event("send", time, client, crc=1_000 + offset, **written),
            _event("ack", time + 10, client, offset=offset, **written),
            _event("read", time + 20, "consumer-0", offset=offset, epoch=epoch, crc=1_000 + offset, **written),
            _event("list", time + 40, "watcher", started=time + 30, offset=offset + 1, epoch=epoch),
            _event("log", 10**6 + offset, "last", offset=offset, epoch=epoch, crc=1_000 + offset, **written),
        ]
    return [*events, _event("end", 2 * 10**6, "last", offset=records, epoch=LAST_EPOCH)]


def _find_event(events: History, kind: str, offset: int) -> Event:
    return next(event for event in events if event.kind == kind and event.offset == offset)


def _findings(events: History) -> list[tuple[str, str, int]]:
    """(kind, property, offset) of what the checker reports."""
    findings = [finding for partition in check_history(events).partitions for finding in partition.findings]
    return [(finding.kind, finding.property, finding.offset) for finding in findings]


def test_a_correct_history_has_no_findings() -> None:
    verdict = check_history(_correct_history())
    assert verdict.ok
    assert [verdict.count(kind) for kind in ("send", "ack", "read", "lost")] == [RECORDS, RECORDS, RECORDS, 0]


def test_an_empty_history_is_not_ok() -> None:
    assert not check_history([]).ok


def _lose(events: History) -> None:
    """The last record was acknowledged and is gone."""
    events.remove(_find_event(events, "log", 9))
    events.remove(_find_event(events, "read", 9))
    events.remove(_find_event(events, "list", 10))
    events[events.index(_find_event(events, "end", 10))].offset = 9


def _lose_the_first(events: History) -> None:
    """A log that begins later has lost the records before."""
    events.remove(_find_event(events, "log", 0))


def _replace(events: History) -> None:
    """Another record has the offset of one that was acknowledged."""
    event = _find_event(events, "log", 4)
    event.crc, event.producer, event.sequence = 77, 5, 0


def _move(events: History) -> None:
    """Two producers' records have changed places after they were acknowledged and read."""
    for one, other in ((4, 5), (5, 4)):
        event = _find_event(events, "log", one)
        event.crc, event.producer, event.sequence = 1_000 + other, other % 2, other // 2


def _duplicate(events: History) -> None:
    """A retry was stored again, at the end."""
    events += [replace(_find_event(events, "log", 7), offset=10)]
    events[events.index(_find_event(events, "end", 10))].offset = 11


def _swap_a_producers_writes(events: History) -> None:
    """Of two writes of one producer, the later one has the lower offset; neither was acknowledged or read."""
    first, second = _find_event(events, "log", 6), _find_event(events, "log", 8)
    first.sequence, second.sequence = 4, 3
    for offset in (6, 8):
        _fail(events, offset)
    events[:] = [event for event in events if event.kind != "read"]


def _fail(events: History, offset: int) -> None:
    ack = _find_event(events, "ack", offset)
    events[events.index(ack)] = replace(ack, kind="fail", offset=-1, error="timed out")


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


def _read_a_truncated_record(events: History) -> None:
    """A consumer read a record that is not in the log."""
    event = _find_event(events, "read", 3)
    event.crc = 77


def _read_beyond_the_end(events: History) -> None:
    events += [_event("read", 5_000, "consumer-0", offset=10, epoch=1, crc=77, producer=0, sequence=5)]


def _read_another_epochs_record(events: History) -> None:
    _find_event(events, "read", 3).epoch = 9


def _skip_a_record(events: History) -> None:
    """A consumer read 6 after 4."""
    events.remove(_find_event(events, "read", 5))


def _list_less(events: History) -> None:
    """A later request in the same epoch got a lower end offset."""
    events += [_event("list", 450, "watcher", started=445, offset=3, epoch=1)]


def _list_less_in_a_later_epoch(events: History) -> None:
    events += [_event("list", 450, "watcher", started=445, offset=3, epoch=2)]


def _hide_what_was_acknowledged(events: History) -> None:
    """In the last epoch, everything acknowledged before is visible (H4)."""
    events[:] = [event for event in events if event.kind != "list"]
    events += [_event("list", 5_000, "watcher", started=4_999, offset=9, epoch=LAST_EPOCH)]


def _list_too_much(events: History) -> None:
    events += [_event("list", 5_000, "watcher", started=4_999, offset=12, epoch=LAST_EPOCH)]


@pytest.mark.parametrize(
    ("plant", "expected"),
    [
        (_lose, [("lost", "S9", 9)]),
        (_lose_the_first, [("lost", "S9", 0), ("lost", "S9", 0), ("inconsistent", "S8", 0)]),
        (_replace, [("lost", "S9", 4), ("inconsistent", "S8", 4)]),
        (_move, [("moved", "S9", 4), ("inconsistent", "S8", 4), ("moved", "S9", 5), ("inconsistent", "S8", 5)]),
        (_duplicate, [("duplicated", "S13", 10)]),
        (_swap_a_producers_writes, [("reordered", "S13", 8)]),
        (_go_back_in_time, [("reordered", "S11", 2)]),
        (_read_a_truncated_record, [("inconsistent", "S8", 3)]),
        (_read_beyond_the_end, [("inconsistent", "S8", 10)]),
        (_read_another_epochs_record, [("inconsistent", "S8", 3)]),
        (_skip_a_record, [("inconsistent", "S8", 6)]),
        (_list_less, [("stale", "S6", 3)]),
        (_list_less_in_a_later_epoch, [("stale", "S6", 3)]),
        (_hide_what_was_acknowledged, [("stale", "S11", 9)]),
        (_list_too_much, [("stale", "S6", 12)]),
    ],
    ids=lambda value: value.__name__.strip("_") if callable(value) else "",
)
def test_every_planted_defect_is_reported(
    plant: Callable[[History], None], expected: list[tuple[str, str, int]]
) -> None:
    events = _correct_history()
    plant(events)
    assert _findings(events) == expected


def test_a_replaced_leader_may_list_less_in_its_own_epoch() -> None:
    """Leaders hold no lease: an answer binds later answers of the same and of higher epochs, not of lower ones."""
    events = _correct_history()
    events += [_event("list", 850, "watcher", started=845, offset=5, epoch=1)]
    assert check_history(events).ok


def test_a_write_that_failed_may_be_in_the_log_or_not() -> None:
    events = _correct_history()
    for offset in (3, 9):
        _fail(events, offset)
    _lose_the_last(events)
    assert check_history(events).ok


def _lose_the_last(events: History) -> None:
    for event in [event for event in events if event.kind in ("log", "read") and event.offset == 9]:
        events.remove(event)
    events.remove(_find_event(events, "list", 10))
    events[events.index(_find_event(events, "end", 10))].offset = 9


def test_a_record_acknowledged_without_an_offset_must_be_in_the_log() -> None:
    events = _correct_history()
    for event in events:
        if event.kind == "ack":
            event.offset = -1
    assert check_history(events).ok
    _lose_the_last(events)
    assert _findings(events) == [("lost", "S9", -1)]


def test_a_write_that_was_never_answered_is_reported() -> None:
    events = _correct_history()
    events.remove(_find_event(events, "ack", 9))
    assert _findings(events) == [("unanswered", "L5", -1)]


def test_a_partition_that_was_not_read_to_its_end_is_reported() -> None:
    events = [event for event in _correct_history() if event.kind != "end"]
    assert _findings(events) == [("unread", "", -1)]


def test_a_long_log_is_checked_from_its_first_record() -> None:
    """Unlike the simulator's, this check forgets no old records."""
    events = _correct_history(17_000)
    _find_event(events, "log", 1).crc = 77
    assert _findings(events) == [("lost", "S9", 1), ("inconsistent", "S8", 1)]


def test_partitions_are_checked_separately() -> None:
    other = [replace(event, partition=1) for event in _correct_history()]
    _duplicate(other)
    verdict = check_history([*_correct_history(), *other])
    assert [len(partition.findings) for partition in verdict.partitions] == [0, 1]
    assert list(verdict.lines()) == [
        "duplicated orders-1 offset 10: sequence 3 of producer 1 epoch 0 is committed again at 10, "
        "the last one was 4 (S13)"
    ]


def test_a_history_is_read_from_its_file_unchanged(tmp_path: Path) -> None:
    events = _correct_history()
    with HistoryWriter(tmp_path / "history.jsonl") as writer:
        writer.write(*events)
    assert list(history_file.read(writer.path)) == events
    assert "epoch" not in writer.path.read_text().splitlines()[0]  # a send has none


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"kind":"send"}', '{"kind":"x","time":1,"client":"","topic":"","partition":0}']
)
def test_a_line_that_is_not_an_event_is_an_error_with_its_place(tmp_path: Path, line: str) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(history_file.to_line(_correct_history()[0]) + line + "\n")
    with pytest.raises(HistoryError, match=r"history.jsonl:2: "):
        list(history_file.read(path))
