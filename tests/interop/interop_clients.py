"""Four clients that we did not write, behind one face: send records to a topic's first partition, and read them back.

Records are compared byte for byte, so they are plain data here. What goes wrong is raised as the client's own error.
"""

from __future__ import annotations

import asyncio
import json
import logging
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

PATIENCE_S = 60.0
"""Far more than anything takes; only a defect waits this long."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CREATE_TIME, LOG_APPEND_TIME = 0, 1
BIG = 16 * 1024 * 1024

SILENT = logging.getLogger("interop.silent")
SILENT.propagate = False
SILENT.addHandler(logging.NullHandler())

Headers = tuple[tuple[str, bytes | None], ...]
MakeTopic = Callable[..., str]
"""(partitions, replicas, settings as keywords) -> name; see the fixture `make_topic`."""


@dataclass(frozen=True, slots=True)
class Rec:
    """One record; `at` is its timestamp in milliseconds, None for whenever it is sent."""

    value: bytes | None
    key: bytes | None = None
    headers: Headers = ()
    at: int | None = None

    def untimed(self) -> Rec:
        return replace(self, at=None)


@dataclass(frozen=True, slots=True)
class Read:
    """A record as a client found it."""

    rec: Rec
    offset: int
    timestamp_type: int


def contents(found: Iterable[Read]) -> list[Rec]:
    return [each.rec for each in found]


def deadline() -> float:
    return time.monotonic() + PATIENCE_S


# --- confluent-kafka (librdkafka) -------------------------------------------------------------------------------------


class Confluent:
    name = "confluent"

    @staticmethod
    def config(bootstrap: str, **settings: Any) -> dict[str, Any]:
        return {"bootstrap.servers": bootstrap, **{key.replace("_", "."): value for key, value in settings.items()}}

    @staticmethod
    def send(bootstrap: str, topic: str, records: Sequence[Rec], *, codec: str = "none", **settings: Any) -> list[int]:
        """Offsets, in the order of the records."""
        settings = {"compression_type": codec, "linger_ms": 5, "message_max_bytes": BIG, **settings}
        producer = Producer(Confluent.config(bootstrap, **settings), logger=SILENT)
        delivered: list[tuple[Any, Any]] = []
        for rec in records:
            extra = {} if rec.at is None else {"timestamp": rec.at}
            producer.produce(
                topic,
                rec.value,
                rec.key,
                partition=0,
                headers=list(rec.headers),
                on_delivery=lambda error, message: delivered.append((error, message)),
                **extra,
            )
        assert producer.flush(PATIENCE_S) == 0
        for error, _ in delivered:
            if error is not None:
                raise ConfluentRefused(error)
        return sorted(message.offset() for _, message in delivered)

    @staticmethod
    def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[Read]:
        consumer = confluent_consumer(bootstrap, **settings)
        consumer.assign([ConfluentPartition(topic, 0, offset)])
        found: list[Read] = []
        end = deadline()
        while len(found) < count and time.monotonic() < end:
            found += [_from_confluent(message) for message in consumer.consume(count, 0.2)]
        consumer.close()
        return found


class ConfluentRefused(Exception):  # noqa: N818  the name says what happened
    """A delivery report with an error; `error` is librdkafka's."""

    def __init__(self, error: Any) -> None:
        super().__init__(str(error))
        self.error = error


def confluent_consumer(bootstrap: str, **settings: Any) -> Consumer:
    settings = {"group_id": "interop-unused", "enable_auto_commit": False, "fetch_wait_max_ms": 100, **settings}
    return Consumer(Confluent.config(bootstrap, **settings), logger=SILENT)


def _from_confluent(message: Any) -> Read:
    assert message.error() is None, message.error()
    kind, at = message.timestamp()
    headers = tuple((name, value) for name, value in message.headers() or ())
    return Read(Rec(message.value(), message.key(), headers, at), message.offset(), kind - 1)


# --- kafka-python -----------------------------------------------------------------------------------------------------


class KafkaPython:
    name = "kafka-python"

    @staticmethod
    def send(bootstrap: str, topic: str, records: Sequence[Rec], *, codec: str = "none", **settings: Any) -> list[int]:
        settings = {"linger_ms": 5, "max_request_size": BIG, **settings}
        producer = KafkaProducer(
            bootstrap_servers=bootstrap.split(","), compression_type=None if codec == "none" else codec, **settings
        )
        try:
            sent = [
                producer.send(topic, rec.value, rec.key, list(rec.headers), partition=0, timestamp_ms=rec.at)
                for rec in records
            ]
            return [each.get(PATIENCE_S).offset for each in sent]
        finally:
            producer.close()

    @staticmethod
    def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[Read]:
        consumer = python_consumer(bootstrap, **settings)
        partition = PythonPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, offset)
        found: list[Read] = []
        end = deadline()
        while len(found) < count and time.monotonic() < end:
            for messages in consumer.poll(200).values():
                found += [_from_python(message) for message in messages]
        consumer.close()
        return found


def python_consumer(bootstrap: str, **settings: Any) -> KafkaConsumer:
    settings = {"enable_auto_commit": False, "fetch_max_wait_ms": 100, **settings}
    return KafkaConsumer(bootstrap_servers=bootstrap.split(","), **settings)


def _from_python(message: Any) -> Read:
    rec = Rec(message.value, message.key, tuple(message.headers), message.timestamp)
    return Read(rec, message.offset, message.timestamp_type)


def stored_bytes(bootstrap: str, topic: str) -> int:
    """Of the first partition, on its largest replica."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap.split(","))
    try:
        directories = [each for broker in admin.describe_log_dirs({topic: [0]}) for each in broker["log_dirs"]]
    finally:
        admin.close()
    return max(part["partition_size"] for each in directories for one in each["topics"] for part in one["partitions"])


# --- aiokafka ---------------------------------------------------------------------------------------------------------


class Aiokafka:
    name = "aiokafka"

    @staticmethod
    def send(bootstrap: str, topic: str, records: Sequence[Rec], *, codec: str = "none", **settings: Any) -> list[int]:
        async def send() -> list[int]:
            async with AIOKafkaProducer(
                bootstrap_servers=bootstrap,
                compression_type=None if codec == "none" else codec,
                **{"linger_ms": 5, "max_request_size": BIG, **settings},
            ) as producer:
                sent = [
                    await producer.send(
                        topic, rec.value, rec.key, headers=list(rec.headers), partition=0, timestamp_ms=rec.at
                    )
                    for rec in records
                ]
                told = [await each for each in sent]
                return [-1 if each is None else each.offset for each in told]  # acks=0: nobody tells

        return run(send())

    @staticmethod
    def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[Read]:
        async def read() -> list[Read]:
            async with aio_consumer(bootstrap, **settings) as consumer:
                partition = AioPartition(topic, 0)
                consumer.assign([partition])
                consumer.seek(partition, offset)
                found: list[Read] = []
                while len(found) < count:
                    for messages in (await consumer.getmany(timeout_ms=200)).values():
                        found += [_from_aio(message) for message in messages]
                return found

        return run(read())


def run(work: Any) -> Any:
    """Until done, but no longer than anybody should wait."""
    return asyncio.run(asyncio.wait_for(work, PATIENCE_S))


def aio_consumer(bootstrap: str, *topics: str, **settings: Any) -> AIOKafkaConsumer:
    settings = {"enable_auto_commit": False, "fetch_max_wait_ms": 100, **settings}
    return AIOKafkaConsumer(*topics, bootstrap_servers=bootstrap, **settings)


def _from_aio(message: Any) -> Read:
    rec = Rec(message.value, message.key, tuple(message.headers), message.timestamp)
    return Read(rec, message.offset, message.timestamp_type)


# --- kcat (an old librdkafka) -----------------------------------------------------------------------------------------


class Kcat:
    name = "kcat"

    @staticmethod
    def read(bootstrap: str, topic: str, count: int, *, offset: int = 0) -> list[Read]:
        """JSON cannot carry all bytes: lengths and raw bytes can. Headers are read elsewhere."""
        shape = "%o %T %K %S\n%k%s"
        data = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", str(offset), "-c", str(count), "-f", shape).stdout
        found = []
        while data:
            line, data = data.split(b"\n", 1)
            position, at, key_size, size = (int(word) for word in line.split())
            key, data = _taken(data, key_size)
            value, data = _taken(data, size)
            found.append(Read(Rec(value, key, (), at), position, CREATE_TIME))
        return found


def _taken(data: bytes, size: int) -> tuple[bytes | None, bytes]:
    """-1 is null, which is printed as nothing."""
    return (None, data) if size < 0 else (data[:size], data[size:])


def kcat_command(bootstrap: str, *arguments: str) -> list[str]:
    path = shutil.which("kcat")
    assert path is not None, "These tests run kcat: on Debian or Ubuntu, `apt-get install kcat`."
    return [path, "-b", bootstrap, "-q", "-X", "log_level=0", *arguments]


def kcat(bootstrap: str, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """What it printed; a failure fails the test with what kcat said."""
    done = subprocess.run(
        kcat_command(bootstrap, *arguments), input=given, capture_output=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")
    return done


def kcat_json(bootstrap: str, *arguments: str) -> Any:
    return json.loads(kcat(bootstrap, *arguments, "-J").stdout)


CLIENTS = (Confluent, KafkaPython, Aiokafka)
READERS = (*CLIENTS, Kcat)


def client_id(client: Any) -> str:
    """How a test names the client that it runs with."""
    return str(client.name)
