"""Arrow types as Spark derives them from its own: names and nullability of elements included."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

TIMESTAMP = pa.timestamp("us", tz="UTC")
LOCAL_TIMESTAMP = pa.timestamp("us")
DURATION = pa.duration("us")
MAX_PRECISION = 38


def list_of(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


def map_of(value: pa.DataType, key: pa.DataType | None = None) -> pa.DataType:
    return pa.map_(key or pa.string(), pa.field("value", value))


def struct_of(fields: Iterable[tuple[str, pa.DataType]]) -> pa.DataType:
    return pa.struct([pa.field(name, kind) for name, kind in fields])
