"""The options and columns of the sink, and the errors for wrong ones."""

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

from insync.spark.option_values import OptionError
from insync.spark.sink.options import MAX_BATCH_BYTES, SinkOptions, read_sink_options
from insync.spark.sink.writers import make_batch_writer, make_stream_writer
from insync.wire import compression
from tests.spark.wrong_options import WRONG_CLIENT_SETTINGS

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
def test_the_error_for_a_wrong_column_names_it(columns: dict[str, DataType], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_batch_writer(TOPIC, schema(**columns), False)
    with pytest.raises(OptionError, match=message):
        make_stream_writer(TOPIC, schema(**columns))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kafka.acks": "2"}, "option 'kafka.acks' is '2': one of all, -1, 0, 1"),
        ({"kafka.enable.idempotence": "no"}, "option 'kafka.enable.idempotence' is 'no'"),
        *WRONG_CLIENT_SETTINGS,
        ({"kafka.retry.backoff.ms": "1s"}, "option 'kafka.retry.backoff.ms' is '1s', but must be a whole number"),
        ({"kafka.transactional.id": "x"}, "option 'kafka.transactional.id' cannot be set"),
        ({"kafka.compression.type": "rar"}, "option 'kafka.compression.type' is 'rar': one of none, gzip"),
        ({"kafka.batch.size": "0"}, "option 'kafka.batch.size' is '0': a whole number"),
        ({"kafka.delivery.timeout.ms": "2m"}, "option 'kafka.delivery.timeout.ms' is '2m'"),
        ({"includeTimestamp": "true"}, "there is no column 'timestamp'"),
        ({"includeTimestamp": "1"}, "option 'includeTimestamp' is '1': true or false"),
    ],
)
def test_the_error_for_a_wrong_option_names_it(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_batch_writer(TOPIC | options, schema(value=StringType()), False)


def test_a_topic_is_an_option_or_a_column() -> None:
    server = {"kafka.bootstrap.servers": "localhost:1"}
    with pytest.raises(OptionError, match="neither an option 'topic' nor a column 'topic'"):
        make_batch_writer(server, schema(value=StringType()), False)
    with_column = make_batch_writer(server, schema(value=StringType(), topic=StringType()), False)
    assert with_column.options.topic is None
    assert make_batch_writer(TOPIC, schema(value=StringType()), False).options.topic == "t"


def test_the_connectors_columns_and_others_are_accepted() -> None:
    every = schema(
        key=BinaryType(),
        value=BinaryType(),
        headers=HEADERS,
        topic=StringType(),
        partition=IntegerType(),
        id=LongType(),
    )
    defaults = SinkOptions("localhost:1", topic="t")
    assert make_batch_writer(TOPIC, every, False).options == defaults
    assert make_stream_writer(TOPIC, every).options == defaults
    timed = schema(value=StringType(), timestamp=TimestampType())
    assert make_batch_writer(TOPIC | {"includeTimestamp": "true"}, timed, False).options.timestamps


def test_client_settings_are_read() -> None:
    given = {
        "kafka.compression.type": "ZSTD",
        "kafka.batch.size": "1000",
        "kafka.buffer.memory": "5000",
        "kafka.request.timeout.ms": "1500",
        "kafka.delivery.timeout.ms": "2500",
        "kafka.max.request.size": "77",
        "kafka.linger.ms": "5",
    }
    options = read_sink_options(TOPIC | given)
    assert options.max_record_bytes == 77
    assert (options.codec, options.batch_bytes, options.buffer_bytes) == (compression.ZSTD, 1_000, 5_000)
    assert (options.request_s, options.delivery_s) == (1.5, 2.5)
    assert read_sink_options(TOPIC | {"kafka.batch.size": str(1 << 40)}).batch_bytes == MAX_BATCH_BYTES


def test_a_batch_job_is_fenced_by_its_option_or_an_id_of_its_own() -> None:
    value = schema(value=StringType())
    assert make_batch_writer(TOPIC | {"fenceId": "mine"}, value, False).job == "mine"
    first, second = (make_batch_writer(TOPIC, value, False).job for _ in range(2))
    assert first
    assert first != second


def test_a_log_cannot_be_overwritten() -> None:
    with pytest.raises(OptionError, match="can only be appended to"):
        make_batch_writer(TOPIC, schema(value=StringType()), True)


def test_a_stream_is_fenced_by_its_checkpoint_alone() -> None:
    with pytest.raises(OptionError, match="option 'fenceId' is 'mine': remove it"):
        make_stream_writer(TOPIC | {"fenceId": "mine"}, schema(value=StringType()))


def test_secrets_are_not_shown() -> None:
    login = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.jaas.config": 'Any.ScramLoginModule required username="u" password="opensesame";',
    }
    options = read_sink_options(TOPIC | login)
    assert options.client.security.tls is not None
    assert "opensesame" not in repr(options)
    with pytest.raises(OptionError) as caught:
        read_sink_options(TOPIC | {"kafka.interceptor.classes": 'password="opensesame"'})
    assert "opensesame" not in str(caught.value)


def test_a_job_may_ask_for_less_than_the_sink_does(caplog: pytest.LogCaptureFixture) -> None:
    weaker = {"kafka.acks": "1", "kafka.enable.idempotence": "FALSE", "tpoic": "x"}
    assert read_sink_options(TOPIC | weaker) == read_sink_options(TOPIC)
    assert "Option 'kafka.acks' is '1': the sink writes with all nevertheless." in caplog.text
    assert "Unknown option 'tpoic' with value 'x' ignored. Did you mean 'topic'?" in caplog.text


def test_a_topics_name_is_trimmed() -> None:
    assert read_sink_options(TOPIC | {"topic": " t "}).topic == "t"
