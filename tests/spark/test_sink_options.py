"""What the sink refuses, each time with the option's or the column's name."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from insync.spark.options import OptionError
from insync.spark.sink import batch_writer, stream_writer
from insync.spark.sink_options import read_sink
from insync.wire import compression

HEADERS = ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())]))
REVERSED = ArrayType(StructType([StructField("value", BinaryType()), StructField("key", StringType())]))
TOPIC = {"kafka.bootstrap.servers": "localhost:1", "topic": "t"}


def schema(**columns: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": StringType()}, "there is no column 'value' to write, only key"),
        ({"value": IntegerType()}, "column 'value' is of type int: it must be string or binary"),
        ({"value": StringType(), "key": LongType()}, "column 'key' is of type bigint"),
        ({"value": StringType(), "topic": LongType()}, "column 'topic' is of type bigint: it must be string"),
        ({"value": StringType(), "partition": LongType()}, "column 'partition' is of type bigint: it must be int"),
        ({"value": StringType(), "headers": ArrayType(StringType())}, "column 'headers' is of type array<string>"),
        ({"value": StringType(), "headers": REVERSED}, "column 'headers' is of type array<struct<value:binary,key:str"),
    ],
)
def test_a_column_of_the_wrong_type_is_named(columns: dict[str, DataType], message: str) -> None:
    for make in (batch_writer, stream_writer):
        with pytest.raises(OptionError, match=message):
            make(TOPIC, schema(**columns), False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.acks": "1"}, "option 'kafka.acks' is '1': the sink writes with all only"),
        ({"kafka.enable.idempotence": "false"}, "option 'kafka.enable.idempotence' is 'false'"),
        ({"kafka.security.protocol": "TLS"}, "option 'kafka.security.protocol' is 'TLS': one of PLAINTEXT, SSL"),
        ({"kafka.security.protocol": "SASL_SSL"}, "option 'kafka.sasl.mechanism' is missing"),
        ({"kafka.retry.backoff.ms": "1s"}, "option 'kafka.retry.backoff.ms' is '1s': a whole number"),
        ({"kafka.transactional.id": "x"}, "option 'kafka.transactional.id' cannot be set"),
        ({"kafka.compression.type": "rar"}, "option 'kafka.compression.type' is 'rar': one of none, gzip"),
        ({"kafka.batch.size": "0"}, "option 'kafka.batch.size' is '0': a whole number"),
        ({"kafka.delivery.timeout.ms": "2m"}, "option 'kafka.delivery.timeout.ms' is '2m'"),
        ({"includeTimestamp": "true"}, "there is no column 'timestamp'"),
        ({"includeTimestamp": "1"}, "option 'includeTimestamp' is '1': true or false"),
        ({"tpoic": "x"}, r"unknown option 'tpoic' \('x'\); did you mean 'topic'\? Known are topic"),
        ({"kafka.bootstrap.servers": " "}, "option 'kafka.bootstrap.servers' is missing"),
    ],
)
def test_an_option_that_makes_no_sense_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        batch_writer(TOPIC | options, schema(value=StringType()), False)


def test_a_topic_is_an_option_or_a_column() -> None:
    server = {"kafka.bootstrap.servers": "localhost:1"}
    with pytest.raises(OptionError, match="neither an option 'topic' nor a column 'topic'"):
        batch_writer(server, schema(value=StringType()), False)
    batch_writer(server, schema(value=StringType(), topic=StringType()), False)


def test_the_connectors_columns_and_others_are_taken() -> None:
    every = schema(
        key=BinaryType(),
        value=BinaryType(),
        headers=HEADERS,
        topic=StringType(),
        partition=IntegerType(),
        id=LongType(),
    )
    batch_writer(TOPIC, every, False)
    stream_writer(TOPIC, every, True)  # complete mode
    timed = schema(value=StringType(), timestamp=TimestampType())
    batch_writer(TOPIC | {"includeTimestamp": "true"}, timed, False)


def test_settings_of_the_java_client_are_understood() -> None:
    found = read_sink(TOPIC | {"kafka.compression.type": "ZSTD", "kafka.batch.size": "1000", "kafka.linger.ms": "5"})
    assert (found.codec, found.batch_bytes) == (compression.ZSTD, 1_000)


def test_a_log_cannot_be_overwritten() -> None:
    with pytest.raises(OptionError, match="can only be appended to"):
        batch_writer(TOPIC, schema(value=StringType()), True)


def test_a_stream_is_fenced_by_its_checkpoint_alone() -> None:
    with pytest.raises(OptionError, match="option 'fenceId' is 'mine': a stream has an id of its own"):
        stream_writer(TOPIC | {"fenceId": "mine"}, schema(value=StringType()), False)


def test_the_sink_shows_no_secret() -> None:
    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": 'Any.ScramLoginModule required username="u" password="opensesame";',
    }
    options = read_sink(TOPIC | login)
    assert options.client.security.tls is not None
    assert "opensesame" not in repr(options)
    with pytest.raises(OptionError) as caught:
        read_sink(TOPIC | {"sasl.password": "opensesame"})
    assert "opensesame" not in str(caught.value)
