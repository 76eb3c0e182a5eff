"""JSON: what `json` writes is decoded equal, what it refuses is refused, and damage never raises."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from insync.formats.ddl import parse_ddl
from insync.formats.errors import SchemaError
from insync.formats.json_schema import parse_json_schema
from insync.formats.value_format import ValueFormat
from tests.formats.format_data import decode

TYPE = parse_ddl(
    "a BIGINT, `name of it` STRING, x DOUBLE, ok BOOLEAN, many ARRAY<ARRAY<INT>>, by MAP<STRING, STRUCT<n: SMALLINT>>, "
    "inner STRUCT<t: STRING, deep: STRUCT<l: ARRAY<STRING>>>"
)
TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
ROWS = st.fixed_dictionaries(
    {},
    optional={
        "a": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
        "name of it": st.none() | TEXT,
        "x": st.none() | st.floats(allow_nan=False) | st.integers(-(10**20), 10**20),
        "ok": st.none() | st.booleans(),
        "many": st.none() | st.lists(st.none() | st.lists(st.integers(-9, 9), max_size=3), max_size=3),
        "by": st.none()
        | st.dictionaries(TEXT, st.none() | st.fixed_dictionaries({"n": st.integers(-9, 9)}), max_size=3),
        "inner": st.fixed_dictionaries(
            {}, optional={"t": TEXT, "deep": st.fixed_dictionaries({"l": st.none() | st.lists(TEXT, max_size=2)})}
        ),
        "unknown": st.recursive(
            st.none() | st.integers() | TEXT, lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner), max_leaves=5
        ),
    },
)


def json_format(kind: str | pa.DataType = TYPE) -> ValueFormat:
    return ValueFormat("json", parse_ddl(kind) if isinstance(kind, str) else kind)


def expected(value: Any, kind: pa.DataType) -> Any:
    """As Arrow returns it: every field of a struct, maps as lists of pairs."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        return {field.name: expected(value.get(field.name), field.type) for field in fields}
    if pa.types.is_map(kind):
        return [(key, expected(element, kind.item_type)) for key, element in value.items()]
    if pa.types.is_list(kind):
        return [expected(element, kind.value_type) for element in value]
    return float(value) if kind == pa.float64() else value


@settings(max_examples=200, deadline=None)
@given(st.lists(st.none() | ROWS, max_size=5), st.booleans(), st.sampled_from([None, 1, "\t"]))
def test_what_another_encoder_writes_is_decoded_equal(rows: list[Any], ascii_only: bool, indent: Any) -> None:
    encoded = [
        None if row is None else json.dumps(row, ensure_ascii=ascii_only, indent=indent).encode("utf-8", "replace")
        for row in rows
    ]
    decoded, reasons = decode(json_format(), encoded)
    assert decoded == [expected(row, TYPE) for row in rows]
    assert not any(reasons)


@settings(max_examples=400, deadline=None)
@given(ROWS, st.integers(0, 200), st.binary(max_size=3), st.integers(0, 2))
@example({}, 0, b"", 0)
def test_what_the_standard_parser_refuses_is_refused(row: dict[str, Any], at: int, inserted: bytes, cut: int) -> None:
    whole = json.dumps(row, ensure_ascii=False).encode()
    at = min(at, len(whole))
    damaged = whole[:at] + inserted + whole[at + cut :]
    decoded, reasons = decode(json_format(), [whole, damaged, whole])
    assert decoded[0] == decoded[2] == expected(row, TYPE)
    assert not reasons[0]
    assert not reasons[2]
    try:
        parsed = json.loads(damaged.decode())
    except ValueError:
        assert reasons[1]
        return
    if not reasons[1]:
        assert decoded[1] is None if parsed is None else isinstance(parsed, dict)
    else:
        assert decoded[1] is None or "type" in reasons[1] or "hold" in reasons[1]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("v TIMESTAMP", '"2024-02-29T12:30:00.250+01:30"', datetime(2024, 2, 29, 11, 0, 0, 250_000, UTC)),
        ("v TIMESTAMP", '"2024-02-29 12:30:00"', datetime(2024, 2, 29, 12, 30, tzinfo=UTC)),
        ("v TIMESTAMP", "12", datetime(1970, 1, 1, 0, 0, 12, tzinfo=UTC)),
        ("v TIMESTAMP_NTZ", '"1969-12-31"', datetime(1969, 12, 31)),
        ("v DATE", '"1582-10-15"', date(1582, 10, 15)),
        ("v DECIMAL(10,2)", "12.345", Decimal("12.35")),
        (
            "v DECIMAL(38,0)",
            "12345678901234567890123456789012345678",
            Decimal("12345678901234567890123456789012345678"),
        ),
        ("v DECIMAL(5,2)", "1e2", Decimal("100.00")),
        ("v BINARY", '"aGVsbG8="', b"hello"),
        ("v STRING", '{"a": [1, null]}', '{"a": [1, null]}'),
        ("v STRING", "1.50", "1.50"),
        ("v FLOAT", '"NaN"', None),
        ("v DOUBLE", "1e999", float("inf")),
        ("v DOUBLE", "-0.0", -0.0),
        ("v BIGINT", "-9223372036854775808", -(1 << 63)),
    ],
)
def test_types_that_json_does_not_have(kind: str, text: str, value: Any) -> None:
    decoded, reasons = decode(json_format(kind), [f'{{"v": {text}}}'.encode()])
    assert reasons == [""]
    if value is None:
        assert decoded[0]["v"] != decoded[0]["v"]
    else:
        assert decoded == [{"v": value}]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BIGINT", "9223372036854775808"),
        ("BIGINT", "1.0"),
        ("BIGINT", '"1"'),
        ("TINYINT", "128"),
        ("BOOLEAN", "1"),
        ("DATE", '"2023-02-29"'),
        ("TIMESTAMP", '"yesterday"'),
        ("BINARY", '"?"'),
        ("ARRAY<INT>", "{}"),
        ("MAP<STRING,INT>", "[]"),
        ("DECIMAL(4,2)", "100"),
    ],
)
def test_a_field_of_another_type_is_null_and_reported_and_the_others_kept(kind: str, text: str) -> None:
    decoded, reasons = decode(
        json_format(f"before INT, v {kind}, after INT"), [f'{{"before":1,"v":{text},"after":2}}'.encode()]
    )
    assert decoded == [{"before": 1, "v": None, "after": 2}]
    assert reasons[0]


def test_the_last_of_several_fields_with_one_name_counts() -> None:
    assert decode(json_format("v INT"), [b'{"v": 1, "v": 2}', b'{"v": 1, "\\u0076": null}'])[0] == [
        {"v": 2},
        {"v": None},
    ]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[1]", b'{"v":1,}', b"{'v':1}", b'{"v":1}{', b"[" * 1000, b'{"v":"\xff"}']
)
def test_texts_that_are_not_a_json_object(text: bytes) -> None:
    decoded, reasons = decode(json_format("v STRING"), [text])
    assert decoded == [None]
    assert reasons[0]


def test_arrays_and_maps_can_be_the_value_itself() -> None:
    assert decode(json_format("ARRAY<INT>"), [b"[1, null]", b"{}"])[0] == [[1, None], None]
    assert decode(json_format("MAP<STRING, DOUBLE>"), [b'{"a": 1}'])[0] == [[("a", 1.0)]]


@pytest.mark.parametrize(
    "text", ["v INT,", "v", "v NOTYPE", "v ARRAY<INT", "v DECIMAL(50,2)", "MAP<STRING>", "%", "1 2 3"]
)
def test_ddl_with_a_mistake_is_refused(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_ddl(text)


def test_json_schema_becomes_columns() -> None:
    schema = {
        "type": "object",
        "definitions": {"p": {"type": "object", "properties": {"x": {"type": "number"}}}},
        "properties": {
            "id": {"type": "integer"},
            "when": {"type": ["null", "string"], "format": "date-time"},
            "p": {"$ref": "#/definitions/p"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "any": {},
            "map": {"type": "object", "additionalProperties": {"oneOf": [{"type": "null"}, {"type": "boolean"}]}},
        },
    }
    assert parse_json_schema(json.dumps(schema)) == parse_ddl(
        "id BIGINT, when TIMESTAMP, p STRUCT<x: DOUBLE>, tags ARRAY<STRING>, any STRING, map MAP<STRING, BOOLEAN>"
    )
    with pytest.raises(SchemaError, match="recursive"):
        parse_json_schema('{"type": "array", "items": {"$ref": "#"}}')
