"""Options of the source: the connector's own, and mistakes that name themselves."""

from __future__ import annotations

import re

import pytest

from insync.spark.options import EARLIEST, LATEST, OptionError, Position, read_source

BASIC = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a, b,a"}


def test_topics_are_named_once_each() -> None:
    options = read_source(BASIC, streaming=False)
    assert options.topics == ("a", "b")
    assert options.bootstrap == "localhost:9092"
    assert options.fail_on_data_loss
    assert not options.include_headers


def test_names_are_read_in_any_case() -> None:
    options = read_source({**BASIC, "INCLUDEHEADERS": "True", "MaxOffsetsPerTrigger": "10"}, streaming=True)
    assert options.include_headers
    assert options.max_offsets == 10


@pytest.mark.parametrize(
    ("given", "position"),
    [
        ({"startingOffsets": "earliest"}, Position(EARLIEST)),
        ({"startingOffsets": '{"a":{"0":5,"1":-2}}'}, Position(LATEST, {("a", 0): 5, ("a", 1): -2})),
        ({"startingTimestamp": "1000", "startingOffsets": "earliest"}, Position(LATEST, timestamp=1_000)),
        ({"startingOffsetsByTimestamp": '{"a":{"0":7}}'}, Position(LATEST, timestamps={("a", 0): 7})),
    ],
)
def test_where_a_stream_starts(given: dict[str, str], position: Position) -> None:
    assert read_source({**BASIC, **given}, streaming=True).start == position


def test_partitions_can_be_named() -> None:
    options = read_source({"kafka.bootstrap.servers": "x:1", "assign": '{"a":[0,2]}'}, streaming=False)
    assert options.assigned == (("a", 0), ("a", 2))


def test_a_delay_has_a_unit() -> None:
    assert read_source({**BASIC, "maxTriggerDelay": "5m"}, streaming=True).max_delay_ms == 300_000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribePattern": "x"}, "exactly one of"),
        (
            {"startingOffset": "earliest"},
            "unknown option 'startingoffset' ('earliest'); did you mean 'startingOffsets'?",
        ),
        ({"colour": "red"}, "unknown option 'colour' ('red'); known are assign, subscribe"),
        ({"startingOffsets": "latest"}, "'startingOffsets' cannot be latest"),
        ({"startingOffsets": "{"}, "'startingOffsets' is '{'"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "an offset below -2"),
        ({"startingOffsets": '{"a":{"0":1.5}}'}, "'startingOffsets' is '{\"a\":{\"0\":1.5}}' (1.5 is no whole number)"),
        ({"startingOffsets": '{"a":{"0":true}}'}, "(true is no whole number)"),
        ({"endingOffsets": '{"a":{"0":"7"}}'}, '("7" is no whole number)'),
        (
            {"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "40"},
            "'minOffsetsPerTrigger' is '40' and 'maxOffsetsPer",
        ),
        ({"kafka.bootstrap.servers": "localhost"}, "option 'kafka.bootstrap.servers': 'localhost' is not an address"),
        ({"endingOffsets": "earliest"}, "'endingOffsets' cannot be earliest"),
        ({"maxOffsetsPerTrigger": "many"}, "'maxOffsetsPerTrigger' is 'many'"),
        ({"minPartitions": "0"}, "'minPartitions' is '0'"),
        ({"failOnDataLoss": "perhaps"}, "'failOnDataLoss' is 'perhaps'"),
        ({"maxTriggerDelay": "5 parsecs"}, "'maxTriggerDelay' is '5 parsecs'"),
        ({"kafka.enable.auto.commit": "true"}, "'kafka.enable.auto.commit' cannot be set"),
        ({"kafka.isolation.level": "strict"}, "'kafka.isolation.level' is 'strict'"),
        ({"kafka.security.protocol": "TLS"}, "option 'kafka.security.protocol' is 'TLS': one of PLAINTEXT, SSL"),
        ({"kafka.security.protocol": "SASL_SSL"}, "option 'kafka.sasl.mechanism' is missing"),
        ({"kafka.fetch.min.bytes": "few"}, "option 'kafka.fetch.min.bytes' is 'few'"),
        ({"kafka.bootstrap.servers": " "}, "'kafka.bootstrap.servers' is missing"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "'guess': error or latest"),
    ],
)
def test_mistakes_name_the_option_and_its_value(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        read_source({**BASIC, **given}, streaming=False)


SECRET = "opensesame"


@pytest.mark.parametrize(
    "given",
    [
        {"sasl.jaas.config": f'Module required username="u" password="{SECRET}";'},
        {"kafka.interceptor.classes": f'password="{SECRET}"'},
        {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": SECRET, "kafka.sasl.mechanism": "PLAIN"},
    ],
)
def test_mistakes_do_not_show_secrets(given: dict[str, str]) -> None:
    with pytest.raises(OptionError) as caught:
        read_source({**BASIC, **given}, streaming=False)
    assert SECRET not in str(caught.value)


def test_options_show_no_secret() -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": SECRET}
    options = read_source({**BASIC, **{f"kafka.{name}": value for name, value in login.items()}}, streaming=False)
    assert options.client.security.sasl is not None
    assert options.client.security.sasl.password == SECRET
    assert SECRET not in repr(options)


def test_settings_of_the_client_are_read(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.client.id": "me", "kafka.max.partition.fetch.bytes": "1000", "kafka.linger.ms": "5"}
    options = read_source({**BASIC, **given, "kafka.isolation.levl": "read_committed"}, streaming=False)
    assert (options.client.client_id, options.client.partition_bytes) == ("me", 1000)
    assert options.isolation == "read_uncommitted"
    assert "'kafka.isolation.levl': it is without effect; was 'kafka.isolation.level' meant?" in caplog.text
    assert "linger" not in caplog.text


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="option 'endingTimestamp' is '17': a stream has no end"):
        read_source({**BASIC, "endingTimestamp": "17"}, streaming=True)


def test_a_pattern_must_be_one() -> None:
    with pytest.raises(OptionError, match="not a regular expression"):
        read_source({"kafka.bootstrap.servers": "x:1", "subscribePattern": "("}, streaming=False)
