"""The prefilter in front of the history checker: it passes nothing that the checker would object to."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.history import history_file, verdict
from insync.history.history_file import Event
from insync.pipeline.audit import history as audit_history
from insync.pipeline.audit import history_parts, prefilter
from insync.pipeline.audit.prefilter import CODES
from tests.pipeline.audit_data import make_history

NUMBERS = ("time", "offset", "epoch", "producer", "sequence", "crc", "started")


def table(events: list[Event]) -> pa.Table:
    """The columns that Spark passes to a task."""
    columns: dict[str, object] = {name: [getattr(event, name) for event in events] for name in NUMBERS}
    return pa.table(
        columns
        | {
            "topic": [event.topic for event in events],
            "partition": pa.array([event.partition for event in events], pa.int32()),
            "code": pa.array([CODES.get(event.kind, -1) for event in events], pa.int8()),
            "client": [event.client for event in events],
            "damaged": pa.array([None] * len(events), pa.bool_()),
            "text": pa.array([None] * len(events), pa.string()),
            "file": pa.array([None] * len(events), pa.string()),
        }
    )


def list_findings(events: list[Event]) -> list[tuple[str, int]]:
    [row] = audit_history.check_partition(table(events)).to_pylist()
    return sorted({(finding["kind"], finding["offset"]) for finding in row["findings"]})


def index_of(events: list[Event], kind: str, offset: int) -> int:
    return next(i for i, event in enumerate(events) if event.kind == kind and event.offset == offset)


def lose(events: list[Event]) -> None:
    del events[index_of(events, "log", 150)]


def double(events: list[Event]) -> None:
    """Offset 150 holds again what offset 4 held."""
    first = events[index_of(events, "log", 4)]
    at = index_of(events, "log", 150)
    events[at] = replace(events[at], producer=first.producer, sequence=first.sequence, crc=first.crc)


def swap(events: list[Event]) -> None:
    """Two records of one producer are swapped, in the log and in what readers saw."""
    for kind in ("log", "read"):
        a, b = index_of(events, kind, 150), index_of(events, kind, 152)
        events[a], events[b] = replace(events[a], offset=152), replace(events[b], offset=150)
    a, b = index_of(events, "ack", 150), index_of(events, "ack", 152)
    events[a], events[b] = replace(events[a], offset=152), replace(events[b], offset=150)


def stale(events: list[Event]) -> None:
    at = index_of(events, "list", 151)
    events[at] = replace(events[at], offset=12)


def misread(events: list[Event]) -> None:
    at = index_of(events, "read", 150)
    events[at] = replace(events[at], crc=1)


def skip(events: list[Event]) -> None:
    del events[index_of(events, "read", 150)]


def unanswered(events: list[Event]) -> None:
    del events[index_of(events, "ack", 150)]


def nowhere(events: list[Event]) -> None:
    """Acknowledged without an offset, and not in the log."""
    at = index_of(events, "ack", 299)
    events[at] = replace(events[at], offset=-1)
    for kind in ("log", "read"):
        del events[index_of(events, kind, 299)]
    at = index_of(events, "end", 300)
    events[at] = replace(events[at], offset=299)


def unread(events: list[Event]) -> None:
    del events[index_of(events, "end", 300)]


PLANTS: list[tuple[Callable[[list[Event]], None], str, int]] = [
    (lose, "lost", 150),
    (double, "duplicated", 150),
    (swap, "reordered", 150),
    (stale, "stale", 12),
    (misread, "inconsistent", 150),
    (skip, "inconsistent", 151),
    (unanswered, "unanswered", -1),
    (nowhere, "lost", -1),
    (unread, "unread", -1),
]


@pytest.mark.parametrize(("plant", "kind", "offset"), PLANTS, ids=[plant.__name__ for plant, _, _ in PLANTS])
@pytest.mark.parametrize("large", [False, True], ids=["all-checked", "neighbourhoods-checked"])
def test_a_planted_violation_is_found(
    plant: Callable[[list[Event]], None], kind: str, offset: int, large: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6, S8, S9, S11, S13 and L5: the checker finds them whether it sees all events or few."""
    events = make_history(300)
    plant(events)
    if large:
        monkeypatch.setattr(audit_history, "SMALL", 0)
        monkeypatch.setattr(audit_history, "LARGE", 1)
        monkeypatch.setattr(audit_history, "NEAR", 10)
    random.Random(1).shuffle(events)
    assert (kind, offset) in list_findings(events)


def test_a_record_that_moved_out_of_the_window_is_called_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    events = make_history(300)
    a, b = index_of(events, "log", 20), index_of(events, "log", 280)
    events[a], events[b] = replace(events[a], offset=280), replace(events[b], offset=20)
    whole = list_findings(events)
    monkeypatch.setattr(audit_history, "LARGE", 1)
    monkeypatch.setattr(audit_history, "NEAR", 10)
    assert list_findings(events) == whole
    assert ("moved", 20) in whole


def test_a_sound_history_does_not_reach_the_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_history, "SMALL", 0)
    [row] = audit_history.check_partition(table(make_history(300))).to_pylist()
    assert (row["rows"], row["checked"], row["sent"], row["findings"]) == (1231, 0, 300, [])


def test_events_that_cannot_be_checked_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    events = [*make_history(5), Event("ack", 7, "p", "orders", 0, offset=3, producer=9, sequence=9)]
    events.append(Event("send", 7, "p", "orders", 0))
    given = table(events)
    codes = given["code"].to_pylist()
    given = given.set_column(given.column_names.index("code"), "code", pa.array([*codes[:-1], -1], pa.int8()))
    [row] = audit_history.check_partition(given).to_pylist()
    assert [finding["kind"] for finding in row["findings"]] == ["malformed", "malformed"]
    assert "sequence 9 of producer 9 was answered but not sent before" in row["findings"][1]["detail"]


def damage_randomly(data: st.DataObject) -> list[Event]:
    events = make_history(20)
    for _ in range(data.draw(st.integers(0, 3))):
        index = data.draw(st.integers(0, len(events) - 1))
        field = data.draw(st.sampled_from(["drop", "time", "offset", "crc", "epoch", "started", "sequence"]))
        if field == "drop":
            del events[index]
        elif events[index].kind in (history_file.LOG, history_file.READ, history_file.LIST) or field in (
            "time",
            "offset",
        ):
            change: dict[str, Any] = {field: data.draw(st.integers(-1, 2_500))}
            events[index] = replace(events[index], **change)
    return events


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_prefilter_passes_nothing_that_the_checker_objects_to(data: st.DataObject) -> None:
    events = damage_randomly(data)
    columns, _ = audit_history.to_events(table(events))
    columns, malformed = audit_history._drop_inconsistent(columns)
    if malformed:
        return
    checked = verdict.check_history(events)
    if not checked.ok:
        assert prefilter.find_suspects(columns)


# --- parts of a large partition --------------------------------------------------------------------------------------


def divide(events: list[Event], size: int) -> dict[int, list[Event]]:
    """The events by part, as Spark divides them."""
    acked: dict[tuple[int, int], int] = {}
    for event in events:
        if event.kind == "ack" and event.offset >= 0:
            record = (event.producer, event.sequence)
            acked[record] = max(acked.get(record, -1), event.offset)
    parts: dict[int, list[Event]] = {}
    for event in events:
        if event.kind in ("send", "ack", "fail"):
            offset = acked.get((event.producer, event.sequence))
            part = -1 - (event.sequence % 3) if offset is None else offset // size
        else:
            part = max(event.offset, 0) // size
        if event.kind != "end":
            parts.setdefault(part, []).append(event)
    return parts


def check_in_parts(events: list[Event], size: int) -> list[tuple[str, int]]:
    by_time = sorted((event for event in events if event.kind == "end"), key=lambda event: event.time)
    end = (by_time[-1].offset, by_time[-1].epoch) if by_time else None
    ends = {("orders", 0): end} if end else {}
    results: list[dict[str, Any]] = []
    for part, own in divide(events, size).items():
        columns = table(own).append_column("part", pa.array([part] * len(own), pa.int32()))
        results += audit_history.check_part(columns, ends, size).to_pylist()
    log = {event.crc for event in events if event.kind == "log"}
    unplaced = {(e.producer, e.sequence) for e in events if e.kind == "ack" and e.offset < 0}
    sends = [event for event in events if event.kind == "send" and (event.producer, event.sequence) in unplaced]
    lost = [str(event.sequence) for event in sends if event.crc not in log]
    joined = audit_history._join_parts("orders", 0, results, end, lost, size)
    return sorted({(finding[0], finding[2]) for finding in joined["findings"]})


@pytest.mark.parametrize(("plant", "kind", "offset"), PLANTS, ids=[plant.__name__ for plant, _, _ in PLANTS])
@pytest.mark.parametrize("size", [7, 100, 151])
def test_a_planted_violation_is_found_in_parts(
    plant: Callable[[list[Event]], None], kind: str, offset: int, size: int
) -> None:
    events = make_history(300)
    assert check_in_parts(events, size) == []
    plant(events)
    findings = check_in_parts(events, size)
    assert kind in {found for found, _ in findings}, findings
    if plant not in (stale, swap, skip):  # what spans parts is named at their edge
        assert (kind, offset) in findings


def move(events: list[Event], kind: str, offset: int, **changes: Any) -> None:
    at = index_of(events, kind, offset)
    events[at] = replace(events[at], **changes)


def late_write(events: list[Event]) -> None:
    """Offset 9 was sent after offset 10 was acknowledged."""
    at = next(i for i, e in enumerate(events) if e.kind == "send" and (e.producer, e.sequence) == (1, 4))
    events[at] = replace(events[at], time=1_015)
    move(events, "ack", 9, time=1_016)


def early_list(events: list[Event]) -> None:
    """The log end 9 was returned after offset 10 was acknowledged, and before 9 was."""
    move(events, "ack", 9, time=1_020)
    events.append(Event("list", 1_017, "w", "orders", 0, offset=9, epoch=3, started=1_015))


def early_list_after_list(events: list[Event]) -> None:
    """The log end 9 was returned after 11 had been, in an earlier leader epoch than the last."""
    events.append(Event("list", 1_050, "w", "orders", 0, offset=11, epoch=2, started=1_040))
    events.append(Event("list", 1_070, "w", "orders", 0, offset=9, epoch=2, started=1_060))


def repeated_sequence(events: list[Event]) -> None:
    move(events, "log", 10, sequence=3)


def skipped_end(events: list[Event]) -> None:
    del events[index_of(events, "read", 9)]


@pytest.mark.parametrize(
    ("plant", "kind", "check"),
    [
        (late_write, "reordered", "_stitch_writes"),
        (early_list, "stale", "_stitch_lists"),
        (early_list_after_list, "stale", "_stitch_lists"),
        (repeated_sequence, "duplicated", "_stitch_log"),
        (skipped_end, "inconsistent", "_stitch_readers"),
    ],
)
def test_what_spans_parts_is_known_from_their_summaries(
    plant: Callable[[list[Event]], None], kind: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S6, S8, S11 and S13: no part shows it by itself."""
    events = make_history(30)
    plant(events)
    assert not verdict.check_history(events).ok
    assert kind in {found for found, _ in check_in_parts(events, 10)}
    monkeypatch.setattr(history_parts, check, lambda *_: iter(()))
    assert kind not in {found for found, _ in check_in_parts(events, 10)}


@pytest.mark.parametrize("size", [1, 30])
def test_a_log_end_that_was_returned_before_it_was_requested_is_malformed(size: int) -> None:
    events = make_history(20)
    move(events, "list", 1, started=211)
    assert check_in_parts(events, size) == [("malformed", 1)]


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_parts_show_what_the_whole_history_shows(data: st.DataObject) -> None:
    """A violation is found, and a sound history has none, wherever it is divided."""
    events = damage_randomly(data)
    size = data.draw(st.integers(1, 25))
    columns, _ = audit_history.to_events(table(events))
    _, malformed = audit_history._drop_inconsistent(columns)
    if malformed:
        return
    findings = check_in_parts(events, size)
    assert bool(findings) == (not verdict.check_history(events).ok), findings


@given(st.lists(st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([0, 1, 2**31 - 1, None])), min_size=1))
def test_partitions_that_share_a_task_are_checked_separately(keys: list[tuple[str | None, int | None]]) -> None:
    topics, partitions = (list(column) for column in zip(*keys, strict=True))
    whole = pa.table({"topic": topics, "partition": pa.array(partitions, pa.int32()), "row": range(len(keys))})
    parts = [part.to_pydict() for part in audit_history.split_by_partition(whole)]
    assert [set(zip(part["topic"], part["partition"], strict=True)) for part in parts] == [
        {key} for key in dict.fromkeys((part["topic"][0], part["partition"][0]) for part in parts)
    ]
    assert sorted(row for part in parts for row in part["row"]) == list(range(len(keys)))
    assert all(part["row"] == sorted(part["row"]) for part in parts)
