"""Consumers without a group: one that reads everything as it comes, and one that reads it all again at the end."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from insync.chaos.workload.load import PATIENT, Load, LoadThread, Tally, seen
from insync.history.history_file import END, LOG, READ, RESET, Event, now
from insync.history.verdict import SILENT

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

LOOK_S = 0.1
AT_ONCE = 500
SILENCE_S = 15.0
"""After which a client is replaced. librdkafka's threads lock each other out for good when a broker leaves the cluster
while its answer about an epoch is due (confluentinc/librdkafka issue 5476, seen with 2.16.0 after all brokers had died
at the same time). The replacement is in the history as a `reset` with the error `silent`."""


class LoadConsumer(LoadThread):
    """Reads all partitions from their start until it is told to stop."""

    def work(self) -> None:
        reader = Reader(self.name, self.load, self.tally)
        heard = time.monotonic()
        while not self.stopping.is_set():
            messages = reader.read()
            self.tally.record(*(seen(READ, self.name, message) for message in messages))
            if messages:
                heard = time.monotonic()
            elif time.monotonic() - heard > SILENCE_S:
                reader.begin_anew()
                heard = time.monotonic()
        reader.close()


class Reader:
    """A consumer at known positions. A broker that says that a position does not exist is believed only in writing."""

    def __init__(self, name: str, load: Load, tally: Tally) -> None:
        self._name = name
        self._load = load
        self._tally = tally
        self.positions = dict.fromkeys(range(load.partitions), 0)
        self._consumer = self._connect()

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> list[Message]:
        """What has come in a moment."""
        messages = self._consumer.consume(AT_ONCE, LOOK_S)
        return list(self._good(messages))

    def begin_anew(self) -> None:
        """Another client, at the same positions. Closing the silent one, or letting go of it, might never return."""
        for partition, at in self.positions.items():
            self._tally.record(Event(RESET, now(), self._name, self._load.topic, partition, offset=at, error=SILENT))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._consumer))
        self._consumer = self._connect()

    def _good(self, messages: list[Message]) -> Iterator[Message]:
        for message in messages:
            error, partition = message.error(), message.partition()
            if partition is None or partition not in self.positions:
                continue  # about brokers, not about a record
            if error is None:
                self.positions[partition] = (message.offset() or 0) + 1
                yield message
            else:
                self._insist(partition, error)

    def _insist(self, partition: int, error: KafkaError) -> None:
        """Asks again for what comes next, as a consumer does that will not skip anything."""
        position, topic = self.positions[partition], self._load.topic
        self._tally.record(Event(RESET, now(), self._name, topic, partition, offset=position, error=error.name()))
        time.sleep(LOOK_S)
        self._assign(self._consumer)

    def _connect(self) -> Consumer:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                **PATIENT,
                "bootstrap.servers": self._load.bootstrap,
                "client.id": self._name,
                "group.id": self._name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
            }
        )
        self._assign(consumer)
        return consumer

    def _assign(self, consumer: Consumer) -> None:
        from confluent_kafka import TopicPartition

        consumer.assign([TopicPartition(self._load.topic, each, at) for each, at in self.positions.items()])


class NotReadInTime(Exception):  # noqa: N818  says what happened
    """The log was not read to its end; the history says how far."""


def read_again(load: Load, tally: Tally, ends: Mapping[int, tuple[int, int]], timeout_s: float) -> None:
    """Everything from the start to the `ends`: partition to (end offset, leader epoch in which it was told)."""
    reader = Reader("last", load, tally)
    deadline = time.monotonic() + timeout_s
    while any(reader.positions[each] < end for each, (end, _) in ends.items()):
        if time.monotonic() > deadline:
            raise NotReadInTime(f"positions {reader.positions}, ends {dict(ends)}")
        tally.record(*(seen(LOG, "last", message) for message in reader.read()))
    reader.close()
    for partition, (end, epoch) in ends.items():
        tally.record(Event(END, now(), "last", load.topic, partition, offset=end, epoch=epoch))
