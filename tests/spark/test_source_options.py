"""The options of the source, and the errors for wrong ones."""

from __future__ import annotations

import re

import pytest

from insync.client.offsets import EARLIEST, LATEST
from insync.spark.option_values import OptionError
from insync.spark.source_options import Position, read_source_options
from tests.spark.wrong_options import WRONG_CLIENT_SETTINGS

BASIC = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "a, b,a"}


def test_duplicate_topics_are_dropped() -> None:
    options = read_source_options(BASIC, streaming=False)
    assert options.topics == ("a", "b")
    assert options.bootstrap == "localhost:9092"
    assert options.fail_on_data_loss
    assert not options.include_headers


def test_option_names_are_case_insensitive() -> None:
    options = read_source_options({**BASIC, "INCLUDEHEADERS": "True", "MaxOffsetsPerTrigger": "10"}, streaming=True)
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
def test_starting_options_become_a_position(given: dict[str, str], position: Position) -> None:
    assert read_source_options({**BASIC, **given}, streaming=True).start == position


def test_assign_names_partitions() -> None:
    options = read_source_options({"kafka.bootstrap.servers": "x:1", "assign": '{"a":[0,2]}'}, streaming=False)
    assert options.assigned == (("a", 0), ("a", 2))


def test_max_trigger_delay_takes_a_unit() -> None:
    for text, delay_ms in {"5m": 300_000, "7": 7, "3000us": 3, "2 h": 7_200_000}.items():
        assert read_source_options({**BASIC, "maxTriggerDelay": text}, streaming=True).max_delay_ms == delay_ms


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"subscribePattern": "x"}, "exactly one of"),
        ({"startingOffsets": "latest"}, "'startingOffsets' cannot be latest"),
        ({"startingOffsets": "{"}, "'startingOffsets' is '{'"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "an offset below -2"),
        (
            {"startingOffsets": '{"a":{"0":1.5}}'},
            "'startingOffsets' is '{\"a\":{\"0\":1.5}}' (1.5 is not a whole number)",
        ),
        ({"startingOffsets": '{"a":{"0":true}}'}, "(true is not a whole number)"),
        ({"endingOffsets": '{"a":{"0":"7"}}'}, '("7" is not a whole number)'),
        (
            {"maxOffsetsPerTrigger": "10", "minOffsetsPerTrigger": "40"},
            "'minOffsetsPerTrigger' is '40' and 'maxOffsetsPer",
        ),
        (
            {"kafka.bootstrap.servers": "localhost"},
            "option 'kafka.bootstrap.servers': 'localhost' is not a broker address",
        ),
        ({"endingOffsets": "earliest"}, "'endingOffsets' cannot be earliest"),
        ({"maxOffsetsPerTrigger": "many"}, "'maxOffsetsPerTrigger' is 'many'"),
        ({"minPartitions": "0"}, "'minPartitions' is '0'"),
        ({"failOnDataLoss": "perhaps"}, "'failOnDataLoss' is 'perhaps'"),
        ({"maxTriggerDelay": "5 parsecs"}, "'maxTriggerDelay' is '5 parsecs'"),
        ({"kafka.enable.auto.commit": "true"}, "'kafka.enable.auto.commit' cannot be set"),
        ({"kafka.isolation.level": "strict"}, "'kafka.isolation.level' is 'strict'"),
        *WRONG_CLIENT_SETTINGS,
        ({"kafka.fetch.min.bytes": "few"}, "option 'kafka.fetch.min.bytes' is 'few'"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "'guess': error or latest"),
    ],
)
def test_errors_name_the_option_and_its_value(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        read_source_options({**BASIC, **given}, streaming=False)


SECRET = "opensesame"


@pytest.mark.parametrize(
    "given",
    [
        {"kafka.interceptor.classes": f'password="{SECRET}"'},
        {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.jaas.config": SECRET, "kafka.sasl.mechanism": "PLAIN"},
    ],
)
def test_errors_do_not_show_secrets(given: dict[str, str]) -> None:
    with pytest.raises(OptionError) as caught:
        read_source_options({**BASIC, **given}, streaming=False)
    assert SECRET not in str(caught.value)


def test_repr_does_not_show_secrets() -> None:
    login = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": SECRET}
    options = read_source_options(
        {**BASIC, **{f"kafka.{name}": value for name, value in login.items()}}, streaming=False
    )
    assert options.client.security.sasl is not None
    assert options.client.security.sasl.password == SECRET
    assert SECRET not in repr(options)


def test_client_settings_are_read_and_unknown_ones_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    given = {"kafka.client.id": "me", "kafka.max.partition.fetch.bytes": "1000", "kafka.linger.ms": "5"}
    options = read_source_options({**BASIC, **given, "kafka.isolation.levl": "read_committed"}, streaming=False)
    assert (options.client.client_id, options.client.partition_bytes) == ("me", 1000)
    assert options.isolation == "read_uncommitted"
    assert "'kafka.isolation.levl' ignored. Did you mean 'kafka.isolation.level'?" in caplog.text
    assert "linger" not in caplog.text


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        ({"startingOffset": "earliest"}, "with value 'earliest' ignored. Did you mean 'startingOffsets'?"),
        ({"colour": "red"}, "Unknown option 'colour' with value 'red' ignored."),
        ({"sasl.jaas.config": f'Module required username="u" password="{SECRET}";'}, "with value (not shown) ignored"),
    ],
)
def test_unknown_options_are_ignored_with_a_warning(
    given: dict[str, str], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert read_source_options({**BASIC, **given}, streaming=False) == read_source_options(BASIC, streaming=False)
    assert warning in caplog.text
    assert SECRET not in caplog.text


def test_a_stream_has_no_end(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(OptionError, match="option 'endingOffsets' is 'latest': a stream has no end"):
        read_source_options({**BASIC, "endingOffsets": "latest"}, streaming=True)
    assert read_source_options({**BASIC, "endingTimestamp": "17"}, streaming=True).end is None
    assert "'endingTimestamp' ignored" in caplog.text


def test_options_of_producers_may_be_among_those_of_a_source() -> None:
    """Jobs pass the same options to source and sink; the connector's source does not mind."""
    more = {"kafka.key.serializer": "x", "kafka.acks": "1"}
    assert read_source_options({**BASIC, **more}, streaming=False) == read_source_options(BASIC, streaming=False)


@pytest.mark.parametrize(("pattern", "name"), [(" mess ", "my-messages"), (r"^\p{Alpha}+$", "orders")])
def test_a_pattern_is_one_of_javas(pattern: str, name: str) -> None:
    options = read_source_options({"kafka.bootstrap.servers": "x:1", "subscribePattern": pattern}, streaming=False)
    assert re.search(options.pattern, name)


@pytest.mark.parametrize(
    ("pattern", "words"), [("(", "is '(': not a regular expression: a group without ')'"), (" ", "is empty")]
)
def test_a_pattern_must_be_one(pattern: str, words: str) -> None:
    with pytest.raises(OptionError, match=re.escape(words)):
        read_source_options({"kafka.bootstrap.servers": "x:1", "subscribePattern": pattern}, streaming=False)
