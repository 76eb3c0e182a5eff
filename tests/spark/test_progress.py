"""Progress as Spark's connector reports it."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import StructType

from insync.spark import schemas, source_options
from insync.spark.data_source import InsyncDataSource
from insync.spark.option_values import OptionError
from insync.spark.progress import describe_progress, describe_source, measure_lag
from insync.spark.source_options import read_source_options
from insync.spark.stream_reader import RejectedStreamReader

BASIC = {"kafka.bootstrap.servers": "localhost:1"}


@pytest.mark.parametrize(
    ("given", "description"),
    [
        ({"subscribe": "a, b"}, "insync[Subscribe[a, b]]"),
        ({"subscribePattern": r"a\p{Alpha}"}, r"insync[SubscribePattern[a\p{Alpha}]]"),
        ({"assign": '{"a":[0,2]}'}, "insync[Assign[a-0, a-2]]"),
    ],
)
def test_a_source_is_described_as_the_connector_does(given: dict[str, str], description: str) -> None:
    assert describe_source(read_source_options(BASIC | given, streaming=True)) == description


def test_lag_has_the_connectors_names() -> None:
    latest = {("t", 0): 100, ("t", 1): 20, ("u", 0): 7}
    end = {("t", 0): 90, ("t", 1): 20}
    offsets = {"minOffsetsBehindLatest": "0", "maxOffsetsBehindLatest": "10", "avgOffsetsBehindLatest": str(17 / 3)}
    assert measure_lag(end, latest, {}) == offsets
    sizes = {("t", 0): 10.5, ("u", 0): 2.0}
    assert measure_lag(end, latest, sizes) == offsets | {"estimatedTotalBytesBehindLatest": "119"}
    assert measure_lag({}, {}, {}) == {}


def test_sources_and_sinks_of_others_are_left_alone() -> None:
    progress = {
        "sources": [{"description": "RateStream", "latestOffset": "7", "metrics": {}}, {"description": "x"}],
        "sink": {"description": "org.apache.spark.sql.execution.datasources.v2.python.PythonTable@1"},
    }
    assert describe_progress(progress) == describe_progress(json.dumps(progress)) == progress
    assert describe_progress(progress, sink="insync[orders]")["sink"] == {"description": "insync[orders]"}


def test_an_error_in_the_options_of_a_stream_is_raised_where_spark_shows_it() -> None:
    reader = InsyncDataSource(BASIC).streamReader(StructType([]))
    assert isinstance(reader, RejectedStreamReader)
    for call in (reader.initialOffset, reader.latestOffset):
        with pytest.raises(OptionError, match="exactly one of"):
            call()


def test_rows_without_columns_need_a_version_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "HAS_ROWS_WITHOUT_COLUMNS", False)
    with pytest.raises(OptionError, match="name a column"):
        schemas.select_columns(StructType([]), {"offset": "bigint"})


def test_limits_need_a_version_that_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_options, "HAS_ADMISSION_CONTROL", False)
    monkeypatch.setattr(source_options, "VERSION", "4.1.4")
    limited = BASIC | {"subscribe": "t", "maxOffsetsPerTrigger": "5"}
    with pytest.raises(OptionError, match=r"'maxOffsetsPerTrigger' is '5': .* since version 4\.2; this is 4\.1\.4"):
        read_source_options(limited, streaming=True)
    read_source_options(limited, streaming=False)
