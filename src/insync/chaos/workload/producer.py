"""An idempotent producer with acks=all that sends at a steady rate and never sends a record twice.

librdkafka retries until the delivery timeout. After a fatal error a new client continues under a new producer number:
the old client's requests in flight may still be written, even after those of the new one.

It has one request in flight at a time. With several, a request that overtakes a failed one is rejected as out of order;
librdkafka then starts a new producer epoch for all partitions and resends records of other partitions that may have
been written under the old epoch (librdkafka issue 4953). Such a record is in the log twice, and no broker can tell.
"""

from __future__ import annotations

import random
import time
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from insync.chaos.workload.load import CLIENT_CONFIG, Load, LoadThread, Tally, make_value
from insync.history.history_file import ACK, FAIL, SEND, Event, now

if TYPE_CHECKING:
    from confluent_kafka import Producer

POLL_S = 0.01
REQUEST_TIMEOUT_MS = 2_000
"""Of one attempt: a paused leader does not answer."""
GRACE_S = 30.0


class LoadProducer(LoadThread):
    """After `stop` it sends nothing more, waits for the answers, then ends."""

    def __init__(self, index: int, load: Load, tally: Tally, numbers: Callable[[], int]) -> None:
        super().__init__(f"producer-{index}", load, tally)
        self._new_number = numbers
        self._rng = random.Random(f"{load.seed}/{self.name}")
        self._in_flight = 0
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
            **CLIENT_CONFIG,
            "bootstrap.servers": self.load.bootstrap,
            "client.id": self.name,
            "enable.idempotence": True,
            "acks": "all",
            "max.in.flight.requests.per.connection": 1,
            "linger.ms": 5,
            "request.timeout.ms": REQUEST_TIMEOUT_MS,
            "message.timeout.ms": self.load.delivery_timeout_ms,
            "retry.backoff.ms": 20,
            "retry.backoff.max.ms": 300,
            **self.load.login.librdkafka,
            **self.load.producer_config,
        }
        producer = Producer(config)
        self.load.login.add(producer)
        return producer

    def _wait_for_answers(self, producer: Producer) -> None:
        deadline = time.monotonic() + self.load.delivery_timeout_ms / 1_000 + GRACE_S
        while self._in_flight and time.monotonic() < deadline:
            self._poll(producer)

    def _poll(self, producer: Producer) -> None:
        """Handle delivery reports for a moment."""
        from confluent_kafka import KafkaException

        try:
            producer.poll(POLL_S)
        except KafkaException:  # raised for fatal errors, which delivery reports carry too
            self._fatal = True

    def _send_all(self, producer: Producer) -> None:
        number = self._new_number()
        sequences = [0] * self.load.partitions
        started, sent = time.monotonic(), 0
        while not self.stopping.is_set() and not self._fatal:
            due = int((time.monotonic() - started) * self.load.rate)
            if self._in_flight >= self.load.in_flight:
                started, sent, due = time.monotonic(), 0, 0  # records that were due meanwhile are skipped
            while sent < due and self._in_flight < self.load.in_flight:
                partition = self._rng.randrange(self.load.partitions)
                self._send(producer, number, partition, sequences[partition])
                sequences[partition] += 1
                sent += 1
            self._poll(producer)

    def _send(self, producer: Producer, number: int, partition: int, sequence: int) -> None:
        from confluent_kafka import KafkaException

        value = make_value(number, sequence, self._rng.randint(1, self.load.value_bytes))
        where = (self.name, self.load.topic, partition)

        def on_delivery(error: Any, message: Any) -> None:
            self._in_flight -= 1
            if error is None:
                offset = message.offset()
                known = -1 if offset is None or offset < 0 else offset
                self.tally.record(Event(ACK, now(), *where, offset=known, producer=number, sequence=sequence))
            else:
                self.tally.record(Event(FAIL, now(), *where, producer=number, sequence=sequence, error=error.name()))

        self._in_flight += 1
        self.tally.record(Event(SEND, now(), *where, producer=number, sequence=sequence, crc=zlib.crc32(value)))
        try:
            producer.produce(self.load.topic, value, partition=partition, on_delivery=on_delivery)
        except KafkaException as error:  # rejected by the client itself, after a fatal error
            self._fatal = True
            on_delivery(error.args[0], None)
