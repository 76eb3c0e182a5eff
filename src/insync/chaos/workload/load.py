"""What the clients of a workload share: how much to do, what was counted so far, and what a value looks like.

A value says who sent it: `PRODUCER:SEQUENCE:...`.
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from insync.history.history_file import Event, HistoryWriter, now

PADDING = b"." * 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    bootstrap: str
    topic: str
    partitions: int
    producers: int = 2
    consumers: int = 1
    rate: int = 200
    """Records a second, of each producer."""
    in_flight: int = 400
    """How many unanswered records a producer has at most, so that a cluster that is down leaves no mountain."""
    value_bytes: int = 100
    delivery_timeout_ms: int = 60_000
    seed: int = 0
    producer_config: dict[str, Any] = field(default_factory=dict)
    """librdkafka settings over `PATIENT`'s."""


PATIENT: dict[str, Any] = {
    "socket.timeout.ms": 3_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 300,
    "topic.metadata.refresh.interval.ms": 1_000,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 0,
}
"""A client that looks for a new leader as soon as it may: its defaults wait for a minute."""


class LoadThread(threading.Thread):
    """One client at work until it is told to stop. If it ends before that, `failure` says why."""

    def __init__(self, name: str, load: Load, tally: Tally) -> None:
        super().__init__(name=name, daemon=True)
        self.load = load
        self.tally = tally
        self.stopping = threading.Event()
        self.failure: Exception | None = None

    def stop(self) -> None:
        self.stopping.set()

    def run(self) -> None:
        try:
            self.work()
        except Exception as error:  # whatever it is, whoever runs the workload has to know
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError


class Tally:
    """Events so far, by kind and partition. Who waits for progress waits here."""

    def __init__(self, history: HistoryWriter) -> None:
        self._history = history
        self._counts: Counter[tuple[str, int]] = Counter()
        self._changed = threading.Condition()

    def record(self, *events: Event) -> None:
        self._history.write(*events)
        with self._changed:
            self._counts.update((event.kind, event.partition) for event in events)
            self._changed.notify_all()

    def count(self, kind: str) -> int:
        with self._changed:
            return sum(count for (each, _), count in self._counts.items() if each == kind)

    def wait_for_more(self, kind: str, partitions: range, more: int, timeout_s: float) -> bool:
        """Whether every one of `partitions` has `more` such events than now, in time."""
        with self._changed:
            wanted = {(kind, each): self._counts[kind, each] + more for each in partitions}
            return self._changed.wait_for(
                lambda: all(self._counts[each] >= least for each, least in wanted.items()), timeout_s
            )


def value_of(producer: int, sequence: int, size: int) -> bytes:
    head = b"%d:%d:" % (producer, sequence)
    return head + PADDING[: max(0, size - len(head))]


def origin_of(value: bytes) -> tuple[int, int]:
    """(producer, sequence); (-1, -1) if this is nothing that a workload sends."""
    producer, _, rest = value.partition(b":")
    sequence, colon, _ = rest.partition(b":")
    if colon and producer.isdigit() and sequence.isdigit():
        return int(producer), int(sequence)
    return -1, -1


def seen(kind: str, client: str, message: Any) -> Event:
    """A consumed message as an event."""
    value = message.value() or b""
    producer, sequence = origin_of(value)
    epoch = message.leader_epoch()
    return Event(
        kind,
        now(),
        client,
        message.topic(),
        message.partition(),
        offset=message.offset(),
        epoch=-1 if epoch is None else epoch,
        producer=producer,
        sequence=sequence,
        crc=zlib.crc32(value),
    )
