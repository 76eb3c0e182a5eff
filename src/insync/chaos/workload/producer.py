"""An idempotent producer that waits for all in-sync replicas, sends at an even pace, and never sends a record twice.

librdkafka retries by itself until the delivery timeout. If it gives up for good (a fatal error), a new client goes on
under a new producer number: what the old one had under way may still be written, after what the new one sends.

It has one request under way at a time. With more of them, a request that overtakes a failed one is refused as out of
order, whereupon librdkafka starts a new producer epoch for all partitions, and sends records of others again that may
have been written under the old one (librdkafka issue 4953). Such a record is there twice, and no broker can tell.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from insync.chaos.workload.load import PATIENT, Load, LoadThread, Tally, value_of
from insync.history.history_file import ACK, FAIL, SEND, Event, now

if TYPE_CHECKING:
    from confluent_kafka import Producer

PAUSE_S = 0.01
ATTEMPT_MS = 2_000
"""How long an attempt waits for its answer: a leader that sleeps does not say so."""
GRACE_S = 30.0


class LoadProducer(LoadThread):
    """Told to stop, it sends nothing more, waits for the answers, then ends."""

    def __init__(self, index: int, load: Load, tally: Tally, numbers: Callable[[], int]) -> None:
        super().__init__(f"producer-{index}", load, tally)
        self._new_number = numbers
        self._rng = random.Random(f"{load.seed}/{self.name}")
        self._open = 0
        self._fatal = False

    def work(self) -> None:
        while not self.stopping.is_set():
            self._fatal = False
            producer = self._connect()
            self._send_all(producer)
            if self._fatal:
                producer.purge()
            self._wait_for_answers(producer)

    def _connect(self) -> Producer:
        from confluent_kafka import Producer

        config: dict[str, Any] = {
            **PATIENT,
            "bootstrap.servers": self.load.bootstrap,
            "client.id": self.name,
            "enable.idempotence": True,
            "acks": "all",
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 5,
            "request.timeout.ms": ATTEMPT_MS,
            "message.timeout.ms": self.load.delivery_timeout_ms,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 300,
            **self.load.producer_config,
        }
        return Producer(config)

    def _wait_for_answers(self, producer: Producer) -> None:
        deadline = time.monotonic() + self.load.delivery_timeout_ms / 1_000 + GRACE_S
        while self._open and time.monotonic() < deadline:
            self._poll(producer)

    def _poll(self, producer: Producer) -> None:
        """Takes what came in, for a moment."""
        from confluent_kafka import KafkaException

        try:
            producer.poll(PAUSE_S)
        except KafkaException:  # raised for fatal errors, whoever else is told of them
            self._fatal = True

    def _send_all(self, producer: Producer) -> None:
        number = self._new_number()
        sequences = [0] * self.load.partitions
        started, sent = time.monotonic(), 0
        while not self.stopping.is_set() and not self._fatal:
            due = int((time.monotonic() - started) * self.load.rate)
            if self._open >= self.load.in_flight:
                started, sent, due = time.monotonic(), 0, 0  # what was not sent meanwhile is not made up for
            while sent < due and self._open < self.load.in_flight:
                partition = self._rng.randrange(self.load.partitions)
                self._send(producer, number, partition, sequences[partition])
                sequences[partition] += 1
                sent += 1
            self._poll(producer)

    def _send(self, producer: Producer, number: int, partition: int, sequence: int) -> None:
        from confluent_kafka import KafkaException

        value = value_of(number, sequence, self._rng.randint(1, self.load.value_bytes))
        where = (self.name, self.load.topic, partition)

        def on_delivery(error: Any, message: Any) -> None:
            self._open -= 1
            if error is None:
                offset = message.offset()
                known = -1 if offset is None or offset < 0 else offset
                self.tally.record(Event(ACK, now(), *where, offset=known, producer=number, sequence=sequence))
            else:
                self.tally.record(Event(FAIL, now(), *where, producer=number, sequence=sequence, error=error.name()))

        self._open += 1
        self.tally.record(Event(SEND, now(), *where, producer=number, sequence=sequence, crc=zlib.crc32(value)))
        try:
            producer.produce(self.load.topic, value, partition=partition, on_delivery=on_delivery)
        except KafkaException as error:  # it did not even take it: a fatal error has come meanwhile
            self._fatal = True
            on_delivery(error.args[0], None)
