"""Protobuf: what Google's library writes is decoded equal, and what it refuses is refused."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from google.protobuf.message import DecodeError
from hypothesis import given, settings
from hypothesis import strategies as st

from insync.formats.errors import SchemaError
from insync.formats.protobuf_schema import load_message, to_arrow_type
from insync.formats.value_format import ValueFormat
from tests.formats.format_data import decode
from tests.formats.protobuf_data import MORE, make_file, make_message

FILE = make_file()
ORDER = make_message(FILE)
DESCRIPTORS = descriptor_pb2.FileDescriptorSet(file=[FILE]).SerializeToString()
UNSIGNED = ("uint64", "uint32", "fixed64", "fixed32")
KINDS = {0: "UNKNOWN", 1: "SMALL", 2: "LARGE", 7: "7"}
TEXT = st.text(st.characters(codec="utf-8"), max_size=6)


def integers(bits: int, *, signed: bool = True) -> st.SearchStrategy[int]:
    return st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) if signed else st.integers(0, (1 << bits) - 1)


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "double": st.floats(allow_nan=False),
    "float": st.floats(width=32, allow_nan=False),
    "bool": st.booleans(),
    "string": TEXT,
    "bytes": st.binary(max_size=6),
    **{name: integers(64 if "64" in name else 32) for name in ("int64", "int32")},
    **{name: integers(64 if "64" in name else 32, signed=False) for name in UNSIGNED},
    **{name: integers(64 if "64" in name else 32) for name in MORE},
}
LINES = st.fixed_dictionaries(
    {},
    optional={
        "sku": TEXT,
        "counts": st.lists(integers(32), max_size=3),
        "kinds": st.lists(st.sampled_from([*KINDS]), max_size=3),
    },
)
ORDERS = st.fixed_dictionaries(
    {},
    optional={
        **{f"one_{name}": values for name, values in VALUES.items()},
        **{f"many_{name}": st.lists(values, max_size=3) for name, values in VALUES.items()},
        "maybe": integers(32),
        "kind": st.sampled_from([*KINDS]),
        "line": LINES,
        "lines": st.lists(LINES, max_size=3),
        "prices": st.dictionaries(TEXT, LINES, max_size=3),
    },
)


def protobuf_format(content: bytes = DESCRIPTORS, message: str = "shop.Order") -> ValueFormat:
    kind = to_arrow_type(load_message(content, message))
    return ValueFormat("protobuf", kind, schema=base64.b64encode(content).decode(), message=message)


def build(fields: dict[str, Any]) -> Any:
    order = ORDER()
    for name, value in fields.items():
        if name == "line":
            order.line.CopyFrom(ORDER.Line(**value))
        elif name == "lines":
            order.lines.extend(ORDER.Line(**line) for line in value)
        elif name == "prices":
            for key, line in value.items():
                order.prices[key].CopyFrom(ORDER.Line(**line))
        elif name.startswith("many"):
            getattr(order, name).extend(value)
        else:
            setattr(order, name, value)
    return order


def line_columns(line: Any) -> dict[str, Any]:
    return {"sku": line.sku, "counts": list(line.counts), "kinds": [KINDS.get(kind, str(kind)) for kind in line.kinds]}


def expected(order: Any) -> dict[str, Any]:
    columns = {}
    for field in ORDER.DESCRIPTOR.fields:
        value = getattr(order, field.name)
        if field.name == "line":
            value = line_columns(value) if order.HasField("line") else None
        elif field.name == "lines":
            value = [line_columns(line) for line in value]
        elif field.name == "prices":
            value = sorted((key, line_columns(line)) for key, line in value.items())
        elif field.name == "when":
            value = value.ToDatetime(UTC) if order.HasField("when") else None
        elif field.is_repeated:
            value = list(value)
        elif field.name == "kind":
            value = KINDS.get(value, str(value))
        elif field.has_presence and not order.HasField(field.name):
            value = None
        columns[field.name] = value
    return columns


def comparable(row: dict[str, Any]) -> dict[str, Any]:
    """A map has no order, and of several entries with one key the last counts."""
    return {**row, "prices": sorted(dict(row["prices"]).items())}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.none() | ORDERS, max_size=4))
def test_what_another_encoder_writes_is_decoded_equal(rows: list[Any]) -> None:
    orders = [None if row is None else build(row) for row in rows]
    encoded = [None if order is None else order.SerializeToString() for order in orders]
    decoded, reasons = decode(protobuf_format(), encoded)
    assert [row and comparable(row) for row in decoded] == [order and expected(order) for order in orders]
    assert not any(reasons)


@settings(max_examples=120, deadline=None)
@given(ORDERS, st.integers(0, 300), st.binary(max_size=4), st.integers(0, 3))
def test_what_googles_parser_refuses_is_refused(row: dict[str, Any], at: int, inserted: bytes, cut: int) -> None:
    whole = build(row).SerializeToString()
    at = min(at, len(whole))
    damaged = whole[:at] + inserted + whole[at + cut :]
    decoded, reasons = decode(protobuf_format(), [whole, damaged, whole])
    assert comparable(decoded[0]) == comparable(decoded[2]) == expected(build(row))
    try:
        order = ORDER.FromString(damaged)
    except DecodeError:
        assert reasons[1]
        assert decoded[1] is None
        return
    assert reasons[1] == ""
    assert comparable(decoded[1]) == expected(order)


def test_unknown_fields_are_skipped_and_missing_ones_have_their_defaults() -> None:
    old = make_file()
    del old.message_type[0].field[3:], old.message_type[0].oneof_decl[:]
    content = descriptor_pb2.FileDescriptorSet(file=[old]).SerializeToString()
    encoded = build(
        {"one_double": 1.5, "one_float": 2.0, "lines": [{"sku": "a"}], "one_string": "x"}
    ).SerializeToString()
    narrow, _ = decode(protobuf_format(content), [encoded])
    assert narrow == [{"one_double": 1.5, "many_double": [], "one_float": 2.0}]
    (wide,), _ = decode(protobuf_format(), [make_message(old)(one_double=1.5).SerializeToString()])
    assert (wide["one_double"], wide["one_string"], wide["kind"], wide["maybe"], wide["line"]) == (
        1.5,
        "",
        "UNKNOWN",
        None,
        None,
    )


def test_the_last_of_a_oneof_counts_and_messages_are_merged() -> None:
    first, second = ORDER(choice_string="a"), ORDER(choice_int64=5)
    first.line.counts.append(1)
    second.line.counts.append(2)
    first.when.FromDatetime(datetime(2024, 2, 29, 1, 2, 3, 456, UTC))
    (row,), _ = decode(protobuf_format(), [first.SerializeToString() + second.SerializeToString()])
    assert (row["choice_string"], row["choice_int64"]) == (None, 5)
    assert row["line"]["counts"] == [1, 2]
    assert row["when"] == datetime(2024, 2, 29, 1, 2, 3, 456, UTC)


def test_only_the_fields_of_a_narrower_type_are_made() -> None:
    whole = protobuf_format()
    part = ValueFormat("protobuf", pa.struct([whole.type.field("one_string")]), schema=whole.schema, message="Order")
    assert decode(part, [build({"one_string": "x", "one_int64": 5}).SerializeToString()])[0] == [{"one_string": "x"}]


@pytest.mark.parametrize(
    ("content", "name", "problem"),
    [
        (b"\xff", "", "not a Protobuf descriptor set"),
        (b"", "", "has no message"),
        (DESCRIPTORS, "Missing", "no message 'Missing'"),
    ],
)
def test_descriptors_with_a_mistake_say_what_it_is(content: bytes, name: str, problem: str) -> None:
    with pytest.raises(SchemaError, match=problem):
        load_message(content, name)


def test_a_message_that_contains_itself_is_refused() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="tree.proto", syntax="proto3")
    node = file.message_type.add(name="Node")
    node.field.add(name="next", number=1, type=11, label=1, type_name=".Node")
    with pytest.raises(SchemaError, match="contains itself"):
        to_arrow_type(load_message(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString(), "Node"))
