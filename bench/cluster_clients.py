"""The work of a stock client: confluent-kafka (librdkafka) with its defaults, acks=all and 5 ms of linger.

Some settings differ: a client reconnects after milliseconds rather than seconds, because start-up is measured;
successes are not reported to Python one by one where only their number counts; consumers do not pause.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

REPLICATION = 3
TIMEOUT_S = 180.0
_NOT_YET_S = 0.01

STILL_FASTER = 1.1
"""The warm-up continues while a second is better than the best so far by this factor."""

Place = tuple[str, int]
"""A topic and one of its partitions."""
AT_ONCE = 20
"""Consecutive records for one partition: single records would be sent as batches of one."""
ANY = -1
"""The client's own choice of partition."""


Bootstrap = str | Mapping[str, Any]
"""The addresses of brokers, or all settings that a client needs to connect."""


class BenchError(Exception):
    """The cluster failed during a measurement."""


@dataclass(frozen=True, slots=True)
class Rate:
    records: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.records / self.seconds


def settings(bootstrap: Bootstrap, more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {
        **({"bootstrap.servers": bootstrap} if isinstance(bootstrap, str) else bootstrap),
        "reconnect.backoff.ms": 20,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
        "error_cb": lambda _: None,  # connection errors during start-up are expected
        **(more or {}),
    }


def create_topic(bootstrap: Bootstrap, name: str, partitions: int) -> None:
    """Try until the topic exists: the brokers may still be starting."""
    admin = AdminClient(settings(bootstrap))
    topic = NewTopic(name, num_partitions=partitions, replication_factor=REPLICATION)
    deadline = time.monotonic() + TIMEOUT_S
    while True:
        try:
            admin.create_topics([topic], request_timeout=60)[name].result()
            return
        except KafkaException as error:
            if error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS:
                return  # created by an attempt whose answer was lost
            if time.monotonic() > deadline:
                raise BenchError(f"cannot create {name}: {error}") from error
            time.sleep(_NOT_YET_S)


def leader_and_isr(bootstrap: Bootstrap, topic: str, partition: int = 0) -> tuple[int, list[int]]:
    metadata = AdminClient(settings(bootstrap)).list_topics(topic, timeout=30).topics[topic].partitions[partition]
    return metadata.leader, metadata.isrs


def write_to_each(bootstrap: Bootstrap, places: Iterable[Place]) -> float:
    """One record to every partition; returns the seconds until all are acknowledged."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(settings(bootstrap))
    began = time.monotonic()
    for topic, partition in places:
        _burst(producer, topic, b"x", partition, 1, on_delivery=delivered)
    if producer.flush(TIMEOUT_S) or failures:
        raise BenchError(f"not all records were acknowledged: {failures[:1]}")
    return time.monotonic() - began


def produce_for(bootstrap: Bootstrap, places: list[Place], size: int, seconds: float) -> Rate:
    """Produce as fast as the cluster accepts it, evenly over the partitions; returns what was acknowledged."""
    failures: list[KafkaError] = []
    quiet = {"delivery.report.only.error": True, "on_delivery": lambda error, _: failures.append(error)}
    producer = Producer(settings(bootstrap, quiet))
    value, records, burst = b"x" * size, 0, max(AT_ONCE, 1_000 // len(places))
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        for topic, partition in places:
            _burst(producer, topic, value, partition, burst)
            records += burst
    if producer.flush(TIMEOUT_S) or failures:
        raise BenchError(f"not all records were acknowledged: {failures[:1]}")
    return Rate(records, time.monotonic() - began)


def warm_up(bootstrap: Bootstrap, places: list[Place], size: int, least_s: float) -> None:
    """Produce for at least this long, and until it gets no faster: a JVM compiles meanwhile."""
    best, worse, began = 0.0, 0, time.monotonic()
    while worse < 2 or time.monotonic() - began < least_s:
        rate = produce_for(bootstrap, places, size, 1.0).per_second
        worse = 0 if rate > best * STILL_FASTER else worse + 1
        best = max(best, rate)


def _burst(producer: Producer, topic: str, value: bytes, partition: int, count: int, **more: Any) -> None:
    while count:
        try:
            producer.produce(topic, value, partition=partition, **more)
            count -= 1
        except BufferError:  # the client's queue is full: wait until the cluster has taken some
            producer.poll(0.001)


def consume_all(bootstrap: Bootstrap, topic: str, partitions: int) -> Rate:
    """Consume every partition from its beginning, timed from the first message on.

    By default librdkafka rests for a second whenever 100,000 messages wait in its queue, which would be measured here.
    """
    restless = {"group.id": "bench", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
    consumer = Consumer(settings(bootstrap, restless))
    places = [TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)]
    wanted = sum(consumer.get_watermark_offsets(place, timeout=30)[1] for place in places)
    consumer.assign(places)
    got = first = len(_next(consumer, 1))
    began = time.monotonic()
    while got < wanted:
        got += len(_next(consumer, min(10_000, wanted - got)))
    took = time.monotonic() - began
    consumer.close()
    return Rate(got - first, took)


def _next(consumer: Consumer, most: int) -> list[Message]:
    messages: list[Message] = consumer.consume(most, timeout=30)
    if not messages or any(message.error() for message in messages):
        raise BenchError(f"nothing to consume: {messages[:1]}")
    return messages


def latencies_ms(bootstrap: Bootstrap, topic: str, size: int, per_second: float, seconds: float) -> list[float]:
    """From produce() to the acknowledgement, for records sent at an even rate; every tenth is measured."""
    latencies: list[float] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            raise BenchError(str(error))
        latencies.append((message.latency() or 0.0) * 1_000)

    producer = Producer(settings(bootstrap))
    value, sent = b"x" * size, 0
    began = time.monotonic()
    while (elapsed := time.monotonic() - began) < seconds:
        for number in range(sent, int(elapsed * per_second)):
            _burst(producer, topic, value, ANY, 1, **({} if number % 10 else {"on_delivery": delivered}))
            sent += 1
        producer.poll(0.001)
    producer.flush(TIMEOUT_S)
    return latencies
