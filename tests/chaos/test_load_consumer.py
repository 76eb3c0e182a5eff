"""A consumer that has gone silent is replaced without calling anything that might hang."""

from __future__ import annotations

from typing import Any

import pytest

from insync.chaos.workload.consumer import Reader
from insync.chaos.workload.load import Load
from insync.history.history_file import RESET, Event


class Client:
    """A client whose threads are deadlocked."""

    def close(self) -> None:
        raise AssertionError("this would never return")

    def __del__(self) -> None:
        GONE.append(self)


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, *events: Event) -> None:
        self.events += events


GONE: list[Client] = []


def test_a_silent_client_is_abandoned_and_its_replacement_continues_at_the_same_positions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assigned: list[dict[int, int]] = []

    def connect(reader: Any) -> Client:
        assigned.append(dict(reader.positions))
        return Client()

    monkeypatch.setattr(Reader, "_connect", connect)
    recorder = Recorder()
    reader = Reader("reader", Load(bootstrap="nowhere:1", topic="orders", partitions=2), recorder)  # type: ignore[arg-type]
    reader.positions.update({0: 7, 1: 9})
    reader.replace_client()
    assert assigned == [{0: 0, 1: 0}, {0: 7, 1: 9}]
    assert [(event.kind, event.partition, event.offset, event.error) for event in recorder.events] == [
        (RESET, 0, 7, "silent"),
        (RESET, 1, 9, "silent"),
    ]
    assert GONE == []  # not garbage-collected either: that would destroy it
