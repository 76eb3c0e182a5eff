"""A Protobuf schema for tests, made without protoc, and its messages."""

from __future__ import annotations

from typing import Any

from google.protobuf import descriptor_pb2, message_factory, timestamp_pb2

from insync.formats.protobuf_schema import make_pool

FIELD = descriptor_pb2.FieldDescriptorProto
SCALARS = ("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32")
MORE = ("sfixed32", "sfixed64", "sint32", "sint64")


def make_file(*, package: str = "shop", name: str = "shop.proto") -> Any:
    """proto3: `Order` has every scalar type single, optional and repeated, an enum, a map, a oneof, and a message."""
    file = descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax="proto3")
    file.dependency.append(timestamp_pb2.DESCRIPTOR.name)
    kind = file.enum_type.add(name="Kind")
    for i, symbol in enumerate(("UNKNOWN", "SMALL", "LARGE")):
        kind.value.add(name=symbol, number=i)
    order = file.message_type.add(name="Order")
    for i, scalar in enumerate((*SCALARS, *MORE)):
        _add(order, f"one_{scalar}", i + 1, scalar)
        _add(order, f"many_{scalar}", i + 41, scalar, repeated=True)
    _add(order, "maybe", 80, "int32")
    order.field[-1].proto3_optional, order.field[-1].oneof_index = True, 1
    _add(order, "kind", 81, "enum", type_name=f".{package}.Kind")
    _add(order, "line", 82, "message", type_name=f".{package}.Order.Line")
    _add(order, "lines", 83, "message", repeated=True, type_name=f".{package}.Order.Line")
    _add(order, "prices", 84, "message", repeated=True, type_name=f".{package}.Order.PricesEntry")
    _add(order, "when", 85, "message", type_name=".google.protobuf.Timestamp")
    for i, scalar in enumerate(("string", "int64")):
        _add(order, f"choice_{scalar}", 90 + i, scalar)
        order.field[-1].oneof_index = 0
    order.oneof_decl.add(name="choice")
    order.oneof_decl.add(name="_maybe")
    line = order.nested_type.add(name="Line")
    _add(line, "sku", 1, "string")
    _add(line, "counts", 2, "int32", repeated=True)
    _add(line, "kinds", 3, "enum", repeated=True, type_name=f".{package}.Kind")
    entry = order.nested_type.add(name="PricesEntry")
    entry.options.map_entry = True
    _add(entry, "key", 1, "string")
    _add(entry, "value", 2, "message", type_name=f".{package}.Order.Line")
    file.message_type.add(name="Other")
    return file


def _add(message: Any, name: str, number: int, kind: str, *, repeated: bool = False, type_name: str = "") -> None:
    label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
    kinds = FIELD.Type.Value(f"TYPE_{kind.upper()}")
    message.field.add(name=name, number=number, type=kinds, label=label, type_name=type_name or None)


def make_message(file: Any, name: str = "Order") -> Any:
    """The class of a message."""
    pool = make_pool([file])
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{file.package}.{name}"))
