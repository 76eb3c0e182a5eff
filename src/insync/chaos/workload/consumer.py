"""Consumers without a group: one that reads records as they arrive, and one that reads the whole log at the end."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from insync.chaos.workload.load import CLIENT_CONFIG, Load, LoadThread, Tally, to_event
from insync.history.history_file import END, LOG, READ, RESET, Event, now
from insync.history.verdict import SILENT

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message

POLL_S = 0.1
MAX_MESSAGES = 500
SILENCE_S = 15.0
"""After which a client that reads nothing is replaced. librdkafka's threads deadlock if a broker leaves the cluster
while its answer to OffsetForLeaderEpoch is pending (confluentinc/librdkafka issue 5476, seen with 2.16.0 after all
brokers had died at the same time). The history has the replacement as a `reset` with the error `silent`."""


class LoadConsumer(LoadThread):
    """Reads all partitions from their start until `stop`."""

    def work(self) -> None:
        reader = Reader(self.name, self.load, self.tally)
        last_read = time.monotonic()
        while not self.stopping.is_set():
            messages = reader.read()
            self.tally.record(*(to_event(READ, self.name, message) for message in messages))
            if messages:
                last_read = time.monotonic()
            elif time.monotonic() - last_read > SILENCE_S:
                reader.replace_client()
                last_read = time.monotonic()
        reader.close()


class Reader:
    """A consumer that keeps its own positions. If a broker rejects a position, it is recorded and requested again."""

    def __init__(self, name: str, load: Load, tally: Tally) -> None:
        self._name = name
        self._load = load
        self._tally = tally
        self.positions = dict.fromkeys(range(load.partitions), 0)
        self._consumer = self._connect()

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> list[Message]:
        """The messages that arrive within `POLL_S`."""
        messages = self._consumer.consume(MAX_MESSAGES, POLL_S)
        return list(self._records(messages))

    def replace_client(self) -> None:
        """Continue with another client at the same positions. Closing or freeing the old one might never return."""
        for partition, at in self.positions.items():
            self._tally.record(Event(RESET, now(), self._name, self._load.topic, partition, offset=at, error=SILENT))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._consumer))
        self._consumer = self._connect()

    def _records(self, messages: list[Message]) -> Iterator[Message]:
        for message in messages:
            error, partition = message.error(), message.partition()
            if partition is None or partition not in self.positions:
                continue  # about brokers, not about a record
            if error is None:
                self.positions[partition] = (message.offset() or 0) + 1
                yield message
            else:
                self._request_again(partition, error)

    def _request_again(self, partition: int, error: KafkaError) -> None:
        """Record the error and stay at the same position: nothing is skipped."""
        position, topic = self.positions[partition], self._load.topic
        self._tally.record(Event(RESET, now(), self._name, topic, partition, offset=position, error=error.name()))
        time.sleep(POLL_S)
        self._assign(self._consumer)

    def _connect(self) -> Consumer:
        from confluent_kafka import Consumer

        consumer = Consumer(
            {
                **CLIENT_CONFIG,
                "bootstrap.servers": self._load.bootstrap,
                "client.id": self._name,
                "group.id": self._name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 100,
                "fetch.error.backoff.ms": 50,
                **self._load.login.librdkafka,
            }
        )
        self._load.login.add(consumer)
        self._assign(consumer)
        return consumer

    def _assign(self, consumer: Consumer) -> None:
        from confluent_kafka import TopicPartition

        consumer.assign([TopicPartition(self._load.topic, partition, at) for partition, at in self.positions.items()])


class ReadTimeoutError(Exception):
    """The log was not read to its end in time; the history says how far."""


def read_whole_log(load: Load, tally: Tally, ends: Mapping[int, tuple[int, int]], timeout_s: float) -> None:
    """Read everything from the start to `ends`: (end offset, leader epoch in which it was listed) by partition."""
    reader = Reader("last", load, tally)
    deadline = time.monotonic() + timeout_s
    while any(reader.positions[partition] < end for partition, (end, _) in ends.items()):
        if time.monotonic() > deadline:
            raise ReadTimeoutError(f"positions {reader.positions}, ends {dict(ends)}")
        tally.record(*(to_event(LOG, "last", message) for message in reader.read()))
    reader.close()
    for partition, (end, epoch) in ends.items():
        tally.record(Event(END, now(), "last", load.topic, partition, offset=end, epoch=epoch))
