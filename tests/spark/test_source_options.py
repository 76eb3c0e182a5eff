"""Options of the source: the connector's own, and mistakes that name themselves."""

from __future__ import annotations

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
        ({"startingOffset": "earliest"}, "unknown option 'startingoffset'"),
        ({"startingOffsets": "latest"}, "'startingOffsets' cannot be latest"),
        ({"startingOffsets": "{"}, "'startingOffsets' is '{'"),
        ({"startingOffsets": '{"a":{"0":-3}}'}, "an offset below -2"),
        ({"endingOffsets": "earliest"}, "'endingOffsets' cannot be earliest"),
        ({"maxOffsetsPerTrigger": "many"}, "'maxOffsetsPerTrigger' is 'many'"),
        ({"minPartitions": "0"}, "'minPartitions' is '0'"),
        ({"failOnDataLoss": "perhaps"}, "'failOnDataLoss' is 'perhaps'"),
        ({"maxTriggerDelay": "5 parsecs"}, "'maxTriggerDelay' is '5 parsecs'"),
        ({"kafka.enable.auto.commit": "true"}, "'kafka.enable.auto.commit' cannot be set"),
        ({"kafka.isolation.level": "strict"}, "'kafka.isolation.level' is 'strict'"),
        ({"kafka.security.protocol": "SASL_SSL"}, "'kafka.security.protocol' is 'SASL_SSL'"),
        ({"kafka.bootstrap.servers": " "}, "'kafka.bootstrap.servers' is missing"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "'guess': error or latest"),
    ],
)
def test_mistakes_name_the_option_and_its_value(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words.replace("(", r"\(").replace("{", r"\{")):
        read_source({**BASIC, **given}, streaming=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(OptionError, match="a stream has no end"):
        read_source({**BASIC, "endingOffsets": "latest"}, streaming=True)


def test_a_pattern_must_be_one() -> None:
    with pytest.raises(OptionError, match="not a regular expression"):
        read_source({"kafka.bootstrap.servers": "x:1", "subscribePattern": "("}, streaming=False)
