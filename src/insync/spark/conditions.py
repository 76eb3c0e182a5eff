"""Conditions of a query (`pushFilters`) that limit what has to be read: on topic, partition, offset and timestamp.

Spark applies every condition again to the rows, so it is enough that nothing is left out which satisfies them. A lower
bound for the time becomes an offset: brokers and time indexes find the first record that is not older, and all records
before it are older. An upper bound does not, because later records may have earlier times.

Spark calls `pushFilters` only if `spark.sql.python.filterPushdown.enabled` is true. If it is not, Spark refuses readers
that have the method; so they have it only in the process that pushes filters (`is_pushing_filters`).

They also have it only with the option `pushFilters`. Spark (4.1 to 4.3) keeps one plan for everything that is derived
from a DataFrame: that of the last condition that it pushed. A second use of the DataFrame with another condition, or
without one, would read what the first one needed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

PUSHING_MODULE = "pyspark.sql.worker.data_source_pushdown_filters"
"""The program of the processes in which Spark calls `pushFilters`."""
NO_LIMIT = (1 << 63) - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARISONS = ("EqualTo", "EqualNullSafe", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual")


def is_pushing_filters() -> bool:
    return PUSHING_MODULE in sys.modules


class Conditions:
    """All of them hold for the rows that are wanted. The filters are those of `pyspark.sql.datasource`, which older
    versions do not have: their names distinguish them."""

    def __init__(self, filters: Iterable[Any] = ()) -> None:
        self._by_column: dict[str, list[Any]] = {}
        for condition in filters:
            plain = condition.child if _kind(condition) == "Not" else condition
            if len(plain.attribute) == 1:
                self._by_column.setdefault(plain.attribute[0], []).append(condition)

    @property
    def is_empty(self) -> bool:
        return not self._by_column

    def allow(self, column: str, value: int | str) -> bool:
        """False if no row is wanted that has this value."""
        return all(_holds(condition, value) is not False for condition in self._by_column.get(column, ()))

    @property
    def offsets(self) -> tuple[int, int]:
        """The first offset, and the one after the last."""
        low, high = self._bounds("offset", int)
        return max(low, 0), min(high, NO_LIMIT - 1) + 1

    @property
    def since_ms(self) -> int | None:
        """No older record is wanted. Never 0 or less, which has other meanings in requests."""
        low, _ = self._bounds("timestamp", datetime)
        since_ms = -(-low // 1_000)
        return since_ms if since_ms > 0 else None

    def _bounds(self, column: str, kind: type) -> tuple[int, int]:
        """(smallest, largest) value that is possible; times in µs."""
        low, high = -NO_LIMIT, NO_LIMIT
        for condition in self._by_column.get(column, ()):
            name = _kind(condition)
            if name == "In":
                values = [_number(value, kind) for value in condition.value if value is not None]
            elif name in _COMPARISONS:
                values = [_number(condition.value, kind)]
            else:
                continue
            known = [value for value in values if value is not None]
            if not known or len(known) < len(values):
                continue
            if not name.startswith("Less"):
                low = max(low, min(known) + (name == "GreaterThan"))
            if not name.startswith("Greater"):
                high = min(high, max(known) - (name == "LessThan"))
        return low, high


def _kind(condition: Any) -> str:
    return type(condition).__name__


def _number(value: Any, kind: type) -> int | None:
    """None if the value is not of this kind, or a time without a zone."""
    if kind is int:
        return value if type(value) is int else None
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // timedelta(microseconds=1)


def _holds(condition: Any, value: Any) -> bool | None:
    """None if that is not known here."""
    name = _kind(condition)
    if name == "Not":
        holds = _holds(condition.child, value)
        return None if holds is None else not holds
    if name in ("IsNull", "IsNotNull"):
        return name == "IsNotNull"
    given = condition.value
    if name == "In":
        return True if value in given else None if None in given else False
    if type(given) is not type(value):
        return None
    if name in ("EqualTo", "EqualNullSafe"):
        return bool(value == given)
    if name.startswith("String"):
        return _holds_for_text(name, str(value), given)
    if name in _COMPARISONS:
        is_less = value < given if name in ("LessThan", "GreaterThanOrEqual") else value <= given
        return bool(is_less == name.startswith("Less"))
    return None


def _holds_for_text(name: str, text: str, part: str) -> bool | None:
    if name == "StringStartsWith":
        return text.startswith(part)
    if name == "StringEndsWith":
        return text.endswith(part)
    return part in text if name == "StringContains" else None
