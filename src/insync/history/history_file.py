"""A history file: what the clients of a live cluster saw, one JSON object per line, one line per event.

    kind       time  client  topic  partition  offset  epoch  producer  sequence  crc  started  error
    send        x      x       x        x                        x         x       x
    ack         x      x       x        x        x               x         x
    fail        x      x       x        x                        x         x                      x
    read        x      x       x        x        x       x       x         x       x
    list        x      x       x        x        x       x                               x
    reset       x      x       x        x        x                                                x
    log         x      x       x        x        x       x       x         x       x
    end         x      x       x        x        x       x

Every column is a plain number or string. A column that an event does not have is left out, which means -1 or the empty
string. Lines are in no particular order.

- `time` is when the event happened and `started` when it was requested, in nanoseconds of the machine's monotonic
  clock. A `send` is recorded before the record is handed to the client library, everything else after the answer.
- A record is identified by (`topic`, `partition`, `producer`, `sequence`): a producer counts what it sends to a
  partition from 0. `crc` is the CRC-32 of the value. A record has one `send`, then one `ack` or one `fail`; a record
  that failed may still be in the log. An `ack` without an `offset` says that the record is written, but not where.
- `epoch` is the leader epoch in which the record was written (`read`, `log`) or the request was sent (`list`).
- `list` is an answer to ListOffsets for the latest offset. `reset` is a consumer whose position was out of range.
- `log` is a record seen by the last reader, which reads each partition from the start after all other clients have
  finished. `end` says how far it read, and in which leader epoch.

A line can be checked with the lines of its own partition alone, so a history of any size can be split by (`topic`,
`partition`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType

SEND, ACK, FAIL, READ, LIST, RESET, LOG, END = "send", "ack", "fail", "read", "list", "reset", "log", "end"
KINDS = (SEND, ACK, FAIL, READ, LIST, RESET, LOG, END)


@dataclass(slots=True)
class Event:
    """One line of a history; see the module for the columns."""

    kind: str
    time: int
    client: str
    topic: str
    partition: int
    offset: int = -1
    epoch: int = -1
    producer: int = -1
    sequence: int = -1
    crc: int = -1
    started: int = -1
    error: str = ""


COLUMNS = tuple(field.name for field in fields(Event))
_ABSENT = {field.name: field.default for field in fields(Event)}


class HistoryError(Exception):
    """A line of a history file is not an event."""


def now() -> int:
    return time.monotonic_ns()


class HistoryWriter:
    """Appends events to a file; safe to use from any thread."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115  closed by close()

    def __enter__(self) -> HistoryWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def write(self, *events: Event) -> None:
        lines = "".join(to_line(event) for event in events)
        with self._lock:
            self._file.write(lines)

    def close(self) -> None:
        with self._lock:
            self._file.close()


def to_line(event: Event) -> str:
    present = {name: value for name, value in asdict(event).items() if value != _ABSENT[name]}
    return json.dumps(present, separators=(",", ":")) + "\n"


def from_line(line: str) -> Event:
    try:
        event = Event(**json.loads(line))
    except (ValueError, TypeError) as error:
        raise HistoryError(str(error)) from error
    if event.kind not in KINDS:
        raise HistoryError(f"unknown kind {event.kind!r}")
    return event


def read(path: Path) -> Iterator[Event]:
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                yield from_line(line)
            except HistoryError as error:
                raise HistoryError(f"{path}:{number}: {error}") from error


def by_partition(events: Iterable[Event]) -> dict[tuple[str, int], list[Event]]:
    """The events of each partition by time. Among simultaneous events sends come first, which claims the least."""
    partitions: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        partitions.setdefault((event.topic, event.partition), []).append(event)
    for partition_events in partitions.values():
        partition_events.sort(key=lambda event: (event.time, event.kind != SEND))
    return dict(sorted(partitions.items()))
