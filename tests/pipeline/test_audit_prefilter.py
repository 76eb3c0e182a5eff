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
from insync.pipeline.audit import prefilter
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


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_the_prefilter_passes_nothing_that_the_checker_objects_to(data: st.DataObject) -> None:
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
    columns, _ = audit_history.to_events(table(events))
    columns, malformed = audit_history._drop_inconsistent(columns)
    if malformed:
        return
    checked = verdict.check_history(events)
    if not checked.ok:
        assert prefilter.find_suspects(columns)


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
