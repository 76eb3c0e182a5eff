"""Conditions that Spark pushes down: what is read holds everything that satisfies them, and no more than necessary."""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from types import ModuleType
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringContains,
    StringEndsWith,
    StringStartsWith,
)
from pyspark.sql.types import StructType

from insync.spark.batch_reader import narrow_ranges
from insync.spark.cluster_view import ClusterView
from insync.spark.conditions import PUSHING_MODULE, Conditions
from insync.spark.data_source import InsyncDataSource
from insync.spark.log_source import LogDataSource
from insync.spark.planning import OffsetRange

Record = tuple[str, int, int, int]
"""Topic, partition, offset, timestamp in ms."""
COLUMNS = ("topic", "partition", "offset", "timestamp")
MS = 1_000
START = 10


def time_of(ms: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)


class FakeView:
    def __init__(self, records: list[Record]) -> None:
        self._records = records

    def list_offsets(self, times: dict[tuple[str, int], int]) -> dict[tuple[str, int], int]:
        return {
            key: min((r[2] for r in self._records if r[:2] == key and r[3] >= since), default=-1)
            for key, since in times.items()
        }


COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    EqualTo: lambda a, b: a == b,
    EqualNullSafe: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}


def satisfies(record: Record, condition: Any) -> bool:
    """As SQL defines it, for columns that are never null."""
    if isinstance(condition, Not):
        child = condition.child
        return not (isinstance(child, In) and None in child.value) and not satisfies(record, child)
    value: Any = dict(zip(COLUMNS, record, strict=True))[condition.attribute[0]]
    if condition.attribute[0] == "timestamp":
        value = time_of(value)
    if isinstance(condition, IsNull | IsNotNull):
        return isinstance(condition, IsNotNull)
    if isinstance(condition, In):
        return value in condition.value
    if isinstance(condition, StringStartsWith):
        return bool(value.startswith(condition.value))
    if isinstance(condition, StringEndsWith):
        return bool(value.endswith(condition.value))
    if isinstance(condition, StringContains):
        return condition.value in value
    return COMPARISONS[type(condition)](value, condition.value)


def conditions_on(column: str, values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    path = (column,)
    compared = st.tuples(st.sampled_from(list(COMPARISONS)), values).map(lambda pair: pair[0](path, pair[1]))
    lists = st.lists(values | st.none(), min_size=1, max_size=3).filter(lambda given: any(v is not None for v in given))
    plain = (
        compared | lists.map(lambda given: In(path, tuple(given))) | st.sampled_from([IsNull(path), IsNotNull(path)])
    )
    if column == "topic":
        kinds = st.sampled_from([StringStartsWith, StringEndsWith, StringContains])
        plain |= st.tuples(kinds, st.text("ab", max_size=2)).map(lambda pair: pair[0](path, pair[1]))
    return plain | plain.map(Not)


TIMES = st.integers(0, 40)
CONDITIONS = st.lists(
    conditions_on("topic", st.sampled_from(["a", "ab", "b"]))
    | conditions_on("partition", st.integers(0, 3))
    | conditions_on("offset", st.integers(START - 2, START + 22))
    | conditions_on("timestamp", (TIMES | st.floats(0, 40)).map(time_of)),
    max_size=4,
)
PARTITIONS = st.dictionaries(
    st.tuples(st.sampled_from(["a", "ab", "b"]), st.integers(0, 2)), st.lists(TIMES, max_size=20), max_size=4
)


@given(PARTITIONS, CONDITIONS)
def test_every_record_that_satisfies_the_conditions_is_read(
    partitions: dict[tuple[str, int], list[int]], conditions: list[Any]
) -> None:
    records = [(*key, START + i, ms) for key, times in partitions.items() for i, ms in enumerate(times)]
    whole = [OffsetRange(*key, START, START + len(times)) for key, times in partitions.items()]
    narrowed = narrow_ranges(cast(ClusterView, FakeView(records)), whole, Conditions(conditions))
    read = {(r.topic, r.partition, offset) for r in narrowed for offset in range(r.start, r.end)}
    wanted = {record[:3] for record in records if all(satisfies(record, condition) for condition in conditions)}
    assert wanted <= read <= {record[:3] for record in records}


@pytest.mark.parametrize(
    ("conditions", "read"),
    [
        ([GreaterThanOrEqual(("timestamp",), time_of(17))], [(0, 27, 30), (1, 27, 30)]),
        ([GreaterThan(("timestamp",), time_of(17))], [(0, 28, 30), (1, 28, 30)]),
        ([GreaterThan(("timestamp",), time_of(16.5))], [(0, 27, 30), (1, 27, 30)]),
        ([EqualTo(("timestamp",), time_of(5)), EqualTo(("partition",), 1)], [(1, 15, 30)]),
        ([In(("offset",), (12, 15)), LessThan(("partition",), 1)], [(0, 12, 16)]),
        ([GreaterThan(("offset",), 12), LessThanOrEqual(("offset",), 20)], [(0, 13, 21), (1, 13, 21)]),
        ([GreaterThanOrEqual(("timestamp",), time_of(99))], []),
        ([EqualTo(("topic",), "other")], []),
        ([Not(EqualTo(("partition",), 0))], [(1, 10, 30)]),
        ([LessThan(("timestamp",), time_of(5))], [(0, 10, 30), (1, 10, 30)]),
        ([EqualTo(("value", "nested"), 3), EqualTo(("key",), b"k")], [(0, 10, 30), (1, 10, 30)]),
    ],
)
def test_what_cannot_satisfy_the_conditions_is_not_read(
    conditions: list[Any], read: list[tuple[int, int, int]]
) -> None:
    records: list[Record] = [("t", partition, START + i, i) for partition in (0, 1) for i in range(20)]
    whole = [OffsetRange("t", partition, START, START + 20) for partition in (0, 1)]
    narrowed = narrow_ranges(cast(ClusterView, FakeView(records)), whole, Conditions(conditions))
    assert [(r.partition, r.start, r.end) for r in narrowed] == read


def test_times_have_a_zone_and_are_positive() -> None:
    berlin = timezone(timedelta(hours=1))
    assert Conditions([EqualTo(("timestamp",), datetime(1970, 1, 1, 1, 0, 1, tzinfo=berlin))]).since_ms == MS
    for unusable in (datetime(1970, 1, 2), datetime(1960, 1, 1, tzinfo=UTC), 5, "1970-01-02", None):
        assert Conditions([EqualTo(("timestamp",), unusable)]).since_ms is None


@pytest.mark.parametrize("source", [InsyncDataSource, LogDataSource])
def test_readers_take_conditions_only_where_spark_pushes_them(
    source: type[Any], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark refuses a reader with the method unless filters are pushed down."""
    (tmp_path / "t-0").mkdir()
    options = {"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"}
    options = options if source is InsyncDataSource else {"path": str(tmp_path)}
    made = source({**options, "pushFilters": "true"})
    assert made.reader(StructType([])).pushFilters.__func__ is DataSourceReader.pushFilters
    monkeypatch.setitem(sys.modules, PUSHING_MODULE, ModuleType(PUSHING_MODULE))
    assert source(options).reader(StructType([])).pushFilters.__func__ is DataSourceReader.pushFilters
    condition = EqualTo(("partition",), 3)
    assert list(made.reader(StructType([])).pushFilters([condition])) == [condition]
