"""Avro: what fastavro writes is decoded equal, also into another reader's schema; damage never raises."""

from __future__ import annotations

import io
import itertools
import json
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.formats.avro_schema import parse_avro, to_arrow_type
from insync.formats.errors import SchemaError
from insync.formats.value_format import ValueFormat
from tests.formats.format_data import decode

NUMBERS = itertools.count()
LONGS = st.integers(-(1 << 63), (1 << 63) - 1)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "long": LONGS,
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(codec="utf-8"), max_size=8),
    "bytes": st.binary(max_size=8),
}


def avro_format(reader: Any, writer: Any = None) -> ValueFormat:
    text = json.dumps(reader)
    return ValueFormat(
        "avro", to_arrow_type(parse_avro(text)), schema=text, writer_schema=json.dumps(writer) if writer else ""
    )


def encode(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def record(*fields: dict[str, Any], name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


@st.composite
def schemas(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    """A schema, and values for it as Arrow returns them. Names are distinct by their depth and number."""
    kind = draw(st.sampled_from([*SCALARS, "null or", *(("array", "map", "record") if depth else ())]))
    if kind in SCALARS:
        return kind, SCALARS[kind]
    if kind == "null or":
        name = draw(st.sampled_from(sorted(SCALARS)))
        return ["null", name], st.none() | SCALARS[name]
    if kind == "record":
        return draw(records(depth - 1))
    inner, values = draw(schemas(depth - 1))
    if kind == "array":
        return {"type": "array", "items": inner}, st.lists(values, max_size=3)
    return {"type": "map", "values": inner}, st.dictionaries(SCALARS["string"], values, max_size=3)


@st.composite
def records(draw: st.DrawFn, depth: int = 2) -> tuple[Any, st.SearchStrategy[Any]]:
    parts = [draw(schemas(depth)) for _ in range(draw(st.integers(1, 4)))]
    schema = record(*(field(f"f{i}", inner) for i, (inner, _) in enumerate(parts)), name=f"R{next(NUMBERS)}")
    return schema, st.fixed_dictionaries({f"f{i}": values for i, (_, values) in enumerate(parts)})


def as_arrow(value: Any, schema: Any) -> Any:
    """A map is a list of pairs in Arrow."""
    if isinstance(schema, list):
        return value
    kind = schema["type"] if isinstance(schema, dict) else schema
    if kind == "record":
        return {entry["name"]: as_arrow(value[entry["name"]], entry["type"]) for entry in schema["fields"]}
    if kind == "array":
        return [as_arrow(element, schema["items"]) for element in value]
    if kind == "map":
        return [(key, as_arrow(element, schema["values"])) for key, element in value.items()]
    return value


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_another_encoder_writes_is_decoded_equal(data: st.DataObject) -> None:
    schema, values = data.draw(records())
    rows = data.draw(st.lists(st.none() | values, max_size=6))
    encoded = [None if row is None else encode(schema, row) for row in rows]
    decoded, reasons = decode(avro_format(schema), encoded)
    assert decoded == [None if row is None else as_arrow(row, schema) for row in rows]
    assert not any(reasons)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damaged_values_are_reported_and_their_neighbours_kept(data: st.DataObject) -> None:
    schema, values = data.draw(records())
    good = data.draw(values)
    whole = encode(schema, good)
    at = data.draw(st.integers(0, max(len(whole) - 1, 0)))
    damaged = data.draw(st.sampled_from([whole[:at], whole[:at] + b"\xff" * 11 + whole[at:], whole + b"\0"]))
    damaged = data.draw(st.sampled_from([damaged, data.draw(st.binary(max_size=40))]))
    decoded, reasons = decode(avro_format(schema), [whole, damaged, whole])
    assert decoded[0] == decoded[2] == as_arrow(good, schema)
    assert (decoded[1] is None) == bool(reasons[1])
    assert not reasons[0]
    assert not reasons[2]


def test_more_list_elements_than_there_is_room_for() -> None:
    schema = record(field("n", {"type": "array", "items": {"type": "array", "items": "int"}}))
    rows = [{"n": [list(range(i)) for i in range(40)]}, {"n": []}, {"n": [[1], []]}] * 3
    assert decode(avro_format(schema), [encode(schema, row) for row in rows])[0] == rows


def test_a_list_of_nulls_cannot_claim_any_number_of_elements() -> None:
    schema = record(field("n", {"type": "array", "items": "null"}))
    assert decode(avro_format(schema), [encode(schema, {"n": [None] * 5})])[0] == [{"n": [None] * 5}]
    huge = b"\x80\x80\x80\x80\x80\x80\x80\x01\x00"  # 2**48 elements of no bytes
    assert decode(avro_format(schema), [huge])[1] == ["a number of elements that the value cannot hold"]


def test_logical_types_enums_and_unions_have_the_types_of_from_avro() -> None:
    schema = record(
        field("d", {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 2}),
        field("f", {"type": "fixed", "name": "F", "size": 4, "logicalType": "decimal", "precision": 5, "scale": 1}),
        field("t", {"type": "long", "logicalType": "timestamp-millis"}),
        field("day", {"type": "int", "logicalType": "date"}),
        field("e", {"type": "enum", "name": "E", "symbols": ["A", "B"]}),
        field("u", ["null", "string", "long"]),
        field("w", ["int", "long"]),
        field("raw", {"type": "fixed", "name": "G", "size": 2}),
    )
    kind = to_arrow_type(parse_avro(json.dumps(schema)))
    assert [str(kind.field(name).type) for name in ("d", "t", "day", "e", "u", "w", "raw")] == [
        *("decimal128(20, 2)", "timestamp[us, tz=UTC]", "date32[day]", "string"),
        *("struct<member0: string, member1: int64>", "int64", "binary"),
    ]
    row = {"d": Decimal("-12345678901234567.89"), "f": Decimal("12.5"), "t": 1_000, "day": 1, "e": "B", "w": 7}
    decoded, reasons = decode(avro_format(schema), [encode(schema, {**row, "u": 5, "raw": b"xy"})])
    assert reasons == [""]
    assert {name: decoded[0][name] for name in ("d", "f", "e", "w", "raw")} == {
        "d": row["d"],
        "f": row["f"],
        "e": "B",
        "w": 7,
        "raw": b"xy",
    }
    assert decoded[0]["u"] == {"member0": None, "member1": 5}
    assert decoded[0]["t"].isoformat() == "1970-01-01T00:00:01+00:00"


def test_a_decimal_beyond_its_precision_is_malformed() -> None:
    wide = record(field("d", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 0}))
    narrow = record(field("d", {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 0}))
    encoded = [encode(wide, {"d": Decimal(number)}) for number in (9_999, 10_000, -9_999, -10_000)]
    decoded, reasons = decode(avro_format(narrow), encoded)
    assert [bool(reason) for reason in reasons] == [False, True, False, True]
    assert decoded[2] == {"d": Decimal(-9_999)}


OLD = record(
    field("id", "int"),
    field("gone", {"type": "map", "values": "string"}),
    field("name", "string"),
    field("kind", {"type": "enum", "name": "K", "symbols": ["A", "B", "C"]}),
    field("inner", record(field("x", "float"), field("y", "long"), name="I")),
    field("list", {"type": "array", "items": "int"}),
)
NEW = record(
    field("title", "string", aliases=["name"]),
    field("added", ["null", "string"], default=None),
    field("count", "long", default=7),
    field("id", "double"),
    field("kind", {"type": "enum", "name": "K", "symbols": ["B", "A", "Z"], "default": "Z"}),
    field(
        "inner",
        record(field("y", ["null", "long"]), field("x", "double"), field("z", "string", default="none"), name="I"),
    ),
    field("list", {"type": "array", "items": ["null", "long"]}),
    field("point", record(field("a", "int"), name="P"), default={"a": 3}),
)


@settings(max_examples=50, deadline=None)
@given(
    SCALARS["int"],
    SCALARS["string"],
    st.sampled_from("ABC"),
    SCALARS["float"],
    LONGS,
    st.lists(SCALARS["int"], max_size=4),
)
def test_evolution_agrees_with_another_implementation(
    number: int, name: str, kind: str, x: float, y: int, many: list[int]
) -> None:
    row = {"id": number, "gone": {"a": "b"}, "name": name, "kind": kind, "inner": {"x": x, "y": y}, "list": many}
    encoded = encode(OLD, row)
    theirs = fastavro.schemaless_reader(io.BytesIO(encoded), fastavro.parse_schema(OLD), fastavro.parse_schema(NEW))
    decoded, reasons = decode(avro_format(NEW, OLD), [encoded])
    assert reasons == [""]
    assert decoded == [theirs]


@pytest.mark.parametrize(
    ("writer", "reader", "problem"),
    [
        (record(field("a", "string")), record(field("a", "int")), "string cannot be read as Avro int"),
        (record(field("a", "long")), record(field("a", "int")), "long cannot be read as Avro int"),
        (record(field("a", "int")), record(field("a", "int"), field("b", "int")), "has no default"),
        (record(field("a", "int")), record(field("a", "int"), name="Other"), "cannot be read"),
    ],
)
def test_schemas_that_do_not_fit_are_refused_with_the_field(writer: Any, reader: Any, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        decode(avro_format(reader, writer), [b"\x02"])


def test_a_branch_that_the_reader_lacks_is_malformed_only_where_it_occurs() -> None:
    writer, reader = record(field("a", ["null", "int", "string"])), record(field("a", ["null", "int"]))
    encoded = [encode(writer, {"a": value}) for value in (1, None, "text")]
    decoded, reasons = decode(avro_format(reader, writer), encoded)
    assert decoded == [{"a": 1}, {"a": None}, None]
    assert reasons[2].startswith("written as a type")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "not JSON"),
        ('{"type": "record", "name": "R"}', "not complete"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": "Missing"}]}', "'Missing' without defining"),
        ('{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}', "contains itself"),
        ("[]", "without branches"),
    ],
)
def test_schemas_with_a_mistake_say_what_it_is(text: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        to_arrow_type(parse_avro(text))


def test_defaults_of_bytes_are_their_code_points() -> None:
    writer = record(field("a", "int"))
    reader = record(
        field("a", "int"), field("b", "bytes", default="\u00ff\u0000"), field("c", ["null", "int"], default=None)
    )
    assert decode(avro_format(reader, writer), [b"\x02"])[0] == [{"a": 1, "b": b"\xff\0", "c": None}]


def test_only_the_fields_of_a_narrower_type_are_made() -> None:
    schema = record(field("a", {"type": "array", "items": "int"}), field("b", "string"), field("c", ["null", "int"]))
    whole = avro_format(schema)
    part = ValueFormat("avro", pa.struct([whole.type.field("c")]), schema=whole.schema)
    assert decode(part, [encode(schema, {"a": [1, 2], "b": "x", "c": 9})])[0] == [{"c": 9}]
