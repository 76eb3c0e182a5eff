"""Four clients that are not ours, behind one interface: send records to a topic's first partition, and read them back.

Records are compared byte for byte, so a record is plain data here. Errors are raised as the client's own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import subprocess
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Message, Producer
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from tests.polling import TIMEOUT_S

T = TypeVar("T")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CREATE_TIME, LOG_APPEND_TIME = 0, 1
MAX_REQUEST_BYTES = 16 * 1024 * 1024

NO_LOGGER = logging.getLogger("interop.discarded")
"""librdkafka's log lines go nowhere."""
NO_LOGGER.propagate = False
NO_LOGGER.addHandler(logging.NullHandler())

Headers = tuple[tuple[str, bytes | None], ...]
MakeTopic = Callable[..., str]
"""(partitions, replicas, settings as keywords) -> name; see the fixture `make_topic`."""


@dataclass(frozen=True, slots=True)
class Record:
    """Without a timestamp, the client sets it when it sends the record."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ReadRecord:
    record: Record
    offset: int
    timestamp_type: int

    @property
    def timestamp_ms(self) -> int:
        assert self.record.timestamp_ms is not None, f"a client returned {self} without a timestamp"
        return self.record.timestamp_ms


def contents(records: Iterable[ReadRecord]) -> list[Record]:
    return [record.record for record in records]


class Reader:
    name: ClassVar[str]

    @staticmethod
    def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[ReadRecord]:
        """`count` records or a few more, as they arrive; fewer if the timeout passes."""
        raise NotImplementedError


class Client(Reader):
    @staticmethod
    def send(
        bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", **settings: Any
    ) -> list[int]:
        """Send all records and return their offsets, in the order of the records."""
        raise NotImplementedError


# --- confluent-kafka (librdkafka) -------------------------------------------------------------------------------------


class Confluent(Client):
    name = "confluent"

    @staticmethod
    def config(bootstrap: str, **settings: Any) -> dict[str, Any]:
        return {"bootstrap.servers": bootstrap, **{key.replace("_", "."): value for key, value in settings.items()}}

    @staticmethod
    def send(
        bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", **settings: Any
    ) -> list[int]:
        settings = {"compression_type": codec, "linger_ms": 5, "message_max_bytes": MAX_REQUEST_BYTES, **settings}
        producer = Producer(Confluent.config(bootstrap, **settings), logger=NO_LOGGER)
        reports: list[tuple[ConfluentError | None, Message]] = []
        for record in records:
            timestamp: dict[str, Any] = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
            producer.produce(
                topic,
                record.value,
                record.key,
                partition=0,
                headers=list(record.headers),
                on_delivery=lambda error, message: reports.append((error, message)),
                **timestamp,
            )
        assert producer.flush(TIMEOUT_S) == 0, "the producer has undelivered records after the timeout"
        for error, _ in reports:
            if error is not None:
                raise DeliveryError(error)
        offsets = [message.offset() for _, message in reports]
        return sorted(-1 if offset is None else offset for offset in offsets)  # None with acks=0

    @staticmethod
    def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[ReadRecord]:
        consumer = confluent_consumer(bootstrap, **settings)
        consumer.assign([ConfluentPartition(topic, 0, offset)])
        records: list[ReadRecord] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(records) < count and time.monotonic() < deadline:
            records += [_from_confluent(message) for message in consumer.consume(count, 0.2)]
        consumer.close()
        return records


class DeliveryError(Exception):
    """librdkafka's delivery report has an error."""

    def __init__(self, error: ConfluentError) -> None:
        super().__init__(str(error))
        self.code = error.code()


def confluent_consumer(bootstrap: str, **settings: Any) -> Consumer:
    settings = {"group_id": "interop-unused", "enable_auto_commit": False, "fetch_wait_max_ms": 100, **settings}
    return Consumer(Confluent.config(bootstrap, **settings), logger=NO_LOGGER)


def poll_message(consumer: Consumer) -> Message:
    """The next message or error event of the consumer."""
    message = consumer.poll(TIMEOUT_S)
    assert message is not None, f"the consumer polled nothing for {TIMEOUT_S:.0f} s"
    return message


def error_code(error: ConfluentError | None) -> int:
    """The code of an error that must be there."""
    assert error is not None, "expected an error, got none"
    return error.code()


def _from_confluent(message: Message) -> ReadRecord:
    assert message.error() is None, message.error()
    timestamp_type, timestamp_ms = message.timestamp()
    headers: Any = message.headers() or ()  # always a list of pairs with bytes, which its type does not say
    record = Record(message.value(), message.key(), tuple(headers), timestamp_ms)
    offset = message.offset()
    assert offset is not None, f"a consumed message without an offset: {record}"
    return ReadRecord(record, offset, timestamp_type - 1)


# --- kafka-python -----------------------------------------------------------------------------------------------------


class KafkaPython(Client):
    name = "kafka-python"

    @staticmethod
    def send(
        bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", **settings: Any
    ) -> list[int]:
        settings = {"linger_ms": 5, "max_request_size": MAX_REQUEST_BYTES, **settings}
        producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","), compression_type=None if codec == "none" else codec, **settings
        )
        try:
            futures = [
                producer.send(
                    topic,
                    record.value,
                    record.key,
                    list(record.headers),
                    partition=0,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            return [future.get(TIMEOUT_S).offset for future in futures]
        finally:
            producer.close()

    @staticmethod
    def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[ReadRecord]:
        consumer = python_consumer(bootstrap, **settings)
        partition = PythonPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        records: list[ReadRecord] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(records) < count and time.monotonic() < deadline:
            for messages in consumer.poll(200).values():
                records += [_from_python(message) for message in messages]
        consumer.close()
        return records


def python_consumer(bootstrap: str, **settings: Any) -> KafkaConsumer:
    settings = {"enable_auto_commit": False, "fetch_max_wait_ms": 100, **settings}
    return KafkaConsumer(bootstrap_servers=bootstrap.split(","), **settings)


def python_admin_client(bootstrap: str, **settings: Any) -> KafkaAdminClient:
    return KafkaAdminClient(bootstrap_servers=bootstrap.split(","), **settings)


def _from_python(message: Any) -> ReadRecord:
    """Of kafka-python and of aiokafka, whose messages have the same fields."""
    record = Record(message.value, message.key, tuple(message.headers), message.timestamp)
    return ReadRecord(record, message.offset, message.timestamp_type)


def stored_bytes(bootstrap: str, topic: str) -> int:
    """The size of the first partition on its largest replica."""
    admin = python_admin_client(bootstrap)
    try:
        brokers = admin.describe_log_dirs({topic: [0]})
    finally:
        admin.close()
    sizes: list[int] = [
        partition["partition_size"]
        for broker in brokers
        for directory in broker["log_dirs"]
        for described_topic in directory["topics"]
        for partition in described_topic["partitions"]
    ]
    return max(sizes)


# --- aiokafka ---------------------------------------------------------------------------------------------------------


class Aiokafka(Client):
    name = "aiokafka"

    @staticmethod
    def send(
        bootstrap: str, topic: str, records: Sequence[Record], *, codec: str = "none", **settings: Any
    ) -> list[int]:
        async def send() -> list[int]:
            async with AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                **{"linger_ms": 5, "max_request_size": MAX_REQUEST_BYTES, **settings},
            ) as producer:
                futures = [
                    await producer.send(
                        topic,
                        record.value,
                        record.key,
                        headers=list(record.headers),
                        partition=0,
                        timestamp_ms=record.timestamp_ms,
                    )
                    for record in records
                ]
                reports = [await future for future in futures]
                return [-1 if report is None else report.offset for report in reports]  # None with acks=0

        return run_with_timeout(send())

    @staticmethod
    def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[ReadRecord]:
        async def read() -> list[ReadRecord]:
            async with aio_consumer(bootstrap, **settings) as consumer:
                partition = AioPartition(topic, 0)
                consumer.assign([partition])
                consumer.seek(partition, offset)
                records: list[ReadRecord] = []
                while len(records) < count:
                    for messages in (await consumer.getmany(timeout_ms=200)).values():
                        records += [_from_python(message) for message in messages]
                return records

        return run_with_timeout(read())


def run_with_timeout(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(asyncio.wait_for(work, TIMEOUT_S))


def aio_consumer(bootstrap: str, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    settings = {"enable_auto_commit": False, "fetch_max_wait_ms": 100, **settings}
    return AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **settings)


# --- kcat (an old librdkafka) -----------------------------------------------------------------------------------------


class Kcat(Reader):
    """Reads with a format of lengths and raw bytes, as kcat's JSON cannot carry all bytes. Headers are left out."""

    name = "kcat"

    @staticmethod
    def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[ReadRecord]:
        assert not settings, f"kcat is run without settings, not with {settings}"
        where = ("-t", topic, "-p", "0", "-o", str(offset))
        output = kcat(bootstrap, "-C", *where, "-c", str(count), "-f", "%o %T %K %S\n%k%s").stdout
        records = []
        while output:
            line, output = output.split(b"\n", 1)
            record_offset, timestamp_ms, key_size, value_size = (int(word) for word in line.split())
            key, output = _split_field(output, key_size)
            value, output = _split_field(output, value_size)
            records.append(ReadRecord(Record(value, key, (), timestamp_ms), record_offset, CREATE_TIME))
        return records


def _split_field(data: bytes, size: int) -> tuple[bytes | None, bytes]:
    """The field and the rest. Size -1 stands for null, which kcat prints as nothing."""
    return (None, data) if size < 0 else (data[:size], data[size:])


def kcat_command(bootstrap: str, *arguments: str) -> list[str]:
    path = shutil.which("kcat")
    assert path is not None, "these tests run kcat: on Debian or Ubuntu, install it with `apt-get install kcat`"
    return [path, "-b", bootstrap, "-q", "-X", "log_level=0", *arguments]


def kcat(bootstrap: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run kcat; a failure fails the test with what kcat printed on stderr."""
    completed = subprocess.run(
        kcat_command(bootstrap, *arguments), input=stdin, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert completed.returncode == 0, completed.stderr.decode(errors="replace")
    return completed


def kcat_json(bootstrap: str, *arguments: str) -> Any:
    return json.loads(kcat(bootstrap, *arguments, "-J").stdout)


CLIENTS: tuple[type[Client], ...] = (Confluent, KafkaPython, Aiokafka)
READERS: tuple[type[Reader], ...] = (*CLIENTS, Kcat)


def client_id(client: type[Reader]) -> str:
    """The client's name in the id of a test."""
    return client.name
