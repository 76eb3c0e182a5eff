"""What the clients of a workload share: the size of the load, the counts of events so far, and the format of values.

A value names its producer: `PRODUCER:SEQUENCE:...`.
"""

from __future__ import annotations

import threading
import zlib
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from insync.chaos.workload.login import Login
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
    """Records per second and producer."""
    in_flight: int = 400
    """The most unanswered records of a producer, so that they do not pile up while the cluster is down."""
    value_bytes: int = 100
    delivery_timeout_ms: int = 60_000
    seed: int = 0
    login: Login = field(default_factory=Login)
    producer_config: dict[str, Any] = field(default_factory=dict)
    """librdkafka settings that override `CLIENT_CONFIG`."""


CLIENT_CONFIG: dict[str, Any] = {
    "socket.timeout.ms": 3_000,
    "socket.connection.setup.timeout.ms": 2_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 300,
    "topic.metadata.refresh.interval.ms": 1_000,
    "topic.metadata.refresh.fast.interval.ms": 50,
    "log_level": 0,
}
"""Look for a new leader quickly: librdkafka's defaults wait for up to a minute."""


class LoadThread(threading.Thread):
    """One client, which works until `stop`. If it ends before that, `failure` says why."""

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
        except Exception as error:  # reported by the workload
            self.failure = error

    def work(self) -> None:
        raise NotImplementedError


class Tally:
    """Records events and counts them by kind and partition, so that others can wait for progress."""

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
            return sum(count for (counted, _), count in self._counts.items() if counted == kind)

    def wait_for_more(self, kind: str, partitions: range, more: int, timeout_s: float) -> bool:
        """Wait for `more` events of this kind on each partition; False on timeout."""
        with self._changed:
            wanted = {(kind, partition): self._counts[kind, partition] + more for partition in partitions}
            return self._changed.wait_for(
                lambda: all(self._counts[key] >= count for key, count in wanted.items()), timeout_s
            )


def make_value(producer: int, sequence: int, size: int) -> bytes:
    head = b"%d:%d:" % (producer, sequence)
    return head + PADDING[: max(0, size - len(head))]


def parse_value(value: bytes) -> tuple[int, int]:
    """(producer, sequence); (-1, -1) if no workload sent this value."""
    producer, _, rest = value.partition(b":")
    sequence, colon, _ = rest.partition(b":")
    if colon and producer.isdigit() and sequence.isdigit():
        return int(producer), int(sequence)
    return -1, -1


def to_event(kind: str, client: str, message: Any) -> Event:
    """The event for a consumed message."""
    value = message.value() or b""
    producer, sequence = parse_value(value)
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
