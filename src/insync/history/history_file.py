"""What live clients saw, in a file: one JSON object a line, one line an event, every column a plain number or string.

    kind       time  client  topic  partition  offset  epoch  producer  sequence  crc  started  error
    send        x      x       x        x                        x         x       x
    ack         x      x       x        x        x               x         x
    fail        x      x       x        x                        x         x                      x
    read        x      x       x        x        x       x       x         x       x
    list        x      x       x        x        x       x                               x
    reset       x      x       x        x        x                                                x
    log         x      x       x        x        x       x       x         x       x
    end         x      x       x        x        x       x

A column that an event does not have is left out and stands for -1, or the empty string. Lines are in no order.

- `time` is when it happened and `started` when it was asked for, in nanoseconds of the machine's monotonic clock: of
  `send` before the record is handed to the client library, of all others once the answer is there.
- A record is known by (`topic`, `partition`, `producer`, `sequence`): a producer counts what it sends to a partition,
  from 0 on. `crc` is the CRC-32 of the value. A record has one `send`, then one `ack` or one `fail`; what failed may
  still be in the log. An `ack` without an `offset` says that the record is written, and not where.
- `epoch` is the leader epoch that the record was written in (`read`, `log`) or that the question was asked in (`list`).
- `list` is an answer to ListOffsets for the latest offset. `reset` is a consumer that was told that its position does
  not exist (any more).
- `log` is one record of the last reader, who reads each partition from its start once everybody else has finished;
  `end` says how far it went, in which leader epoch, and that it is complete.

A line can be judged with the lines of its own partition alone: (`topic`, `partition`) is the key by which a history of
any size can be divided.
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
    """One line."""

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
    """A line is not an event."""


def now() -> int:
    return time.monotonic_ns()


class HistoryWriter:
    """Appends events to a file; any thread may."""

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
    """The events of each partition in the order of time; of what happened at once, sends first: that claims least."""
    found: dict[tuple[str, int], list[Event]] = {}
    for event in events:
        found.setdefault((event.topic, event.partition), []).append(event)
    for each in found.values():
        each.sort(key=lambda event: (event.time, event.kind != SEND))
    return dict(sorted(found.items()))
