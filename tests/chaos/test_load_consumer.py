"""A client that has gone silent is replaced, and nothing that it might hang in is called."""

from __future__ import annotations

from typing import Any

import pytest

from insync.chaos.workload.consumer import Reader
from insync.chaos.workload.load import Load
from insync.history.history_file import RESET, Event


class Client:
    """Stands for one whose threads have locked each other out."""

    def close(self) -> None:
        raise AssertionError("this would never return")

    def __del__(self) -> None:
        GONE.append(self)


class Noted:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def record(self, *events: Event) -> None:
        self.events += events


GONE: list[Client] = []


def test_a_silent_client_is_left_alone_and_the_next_goes_on_where_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    assigned: list[dict[int, int]] = []

    def connect(reader: Any) -> Client:
        assigned.append(dict(reader.positions))
        return Client()

    monkeypatch.setattr(Reader, "_connect", connect)
    noted = Noted()
    reader = Reader("reader", Load(bootstrap="nowhere:1", topic="orders", partitions=2), noted)  # type: ignore[arg-type]
    reader.positions.update({0: 7, 1: 9})
    reader.begin_anew()
    assert assigned == [{0: 0, 1: 0}, {0: 7, 1: 9}]
    assert [(each.kind, each.partition, each.offset, each.error) for each in noted.events] == [
        (RESET, 0, 7, "silent"),
        (RESET, 1, 9, "silent"),
    ]
    assert GONE == []  # not even let go of: that would destroy it
