"""Protobuf descriptors, and the columns that a message becomes.

Numbers without a sign get a type that holds all of them: uint32 a bigint, uint64 a decimal of 20 digits. A field
without presence (proto3's default) is zero or empty if it is missing, any other is null. Enums are the names of their
values; `google.protobuf.Timestamp` is a timestamp and `google.protobuf.Duration` an interval.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from insync.formats.arrow_types import DURATION, TIMESTAMP, list_of, map_of, struct_of
from insync.formats.errors import SchemaError

_UINT64 = pa.decimal128(20, 0)
_TYPES: dict[str, pa.DataType] = {
    "TYPE_DOUBLE": pa.float64(),
    "TYPE_FLOAT": pa.float32(),
    "TYPE_INT64": pa.int64(),
    "TYPE_UINT64": _UINT64,
    "TYPE_INT32": pa.int32(),
    "TYPE_FIXED64": _UINT64,
    "TYPE_FIXED32": pa.int64(),
    "TYPE_BOOL": pa.bool_(),
    "TYPE_STRING": pa.string(),
    "TYPE_BYTES": pa.binary(),
    "TYPE_UINT32": pa.int64(),
    "TYPE_ENUM": pa.string(),
    "TYPE_SFIXED32": pa.int32(),
    "TYPE_SFIXED64": pa.int64(),
    "TYPE_SINT32": pa.int32(),
    "TYPE_SINT64": pa.int64(),
}
INSTANTS = {"google.protobuf.Timestamp": TIMESTAMP, "google.protobuf.Duration": DURATION}


def import_protobuf() -> Any:
    """The package's modules, which only descriptors need."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError:
        raise SchemaError("Protobuf needs its Python package: pip install 'insync[schemas]'") from None
    return descriptor_pb2, descriptor_pool


# --- descriptors -----------------------------------------------------------------------------------------------------


def load_message(files: bytes, name: str) -> Any:
    """The descriptor of a message from a serialized FileDescriptorSet (`protoc --include_imports -o FILE`). Without a
    name, the first message of the last file, which is the one that protoc was called for."""
    descriptor_pb2, _ = import_protobuf()
    from google.protobuf.message import DecodeError

    described = descriptor_pb2.FileDescriptorSet()
    try:
        described.ParseFromString(files)
    except DecodeError:
        raise SchemaError("not a Protobuf descriptor set: write it with `protoc --include_imports -o FILE`") from None
    pool = make_pool(described.file)
    if not name:
        if not described.file or not described.file[-1].message_type:
            raise SchemaError("the Protobuf descriptor set has no message")
        last = described.file[-1]
        name = f"{last.package}.{last.message_type[0].name}".lstrip(".")
    return find_message(pool, name, [entry.name for entry in described.file])


def find_message(pool: Any, name: str, files: Iterable[str]) -> Any:
    try:
        return pool.FindMessageTypeByName(name)
    except KeyError:
        pass
    matches = []
    for file in files:
        messages = pool.FindFileByName(file).message_types_by_name
        matches += [message for short, message in messages.items() if short == name]
    if len(matches) == 1:
        return matches[0]
    raise SchemaError(f"there is no message '{name}' in the Protobuf descriptors: give its name with its package")


def make_pool(files: Iterable[Any]) -> Any:
    """Well-known types are added: a descriptor set need not include them."""
    descriptor_pb2, descriptor_pool = import_protobuf()
    from google.protobuf import (
        any_pb2,
        descriptor_database,
        duration_pb2,
        empty_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )

    given = {entry.name: entry for entry in files}
    for module in (any_pb2, duration_pb2, empty_pb2, struct_pb2, timestamp_pb2, wrappers_pb2):
        if module.DESCRIPTOR.name not in given:
            given[module.DESCRIPTOR.name] = copy = descriptor_pb2.FileDescriptorProto()
            module.DESCRIPTOR.CopyToProto(copy)
    known = descriptor_database.DescriptorDatabase()
    pool = descriptor_pool.DescriptorPool(known)
    try:
        for entry in given.values():
            known.Add(entry)
        for name in given:
            pool.FindFileByName(name)
    except (TypeError, KeyError, descriptor_database.Error) as error:
        raise SchemaError(f"the Protobuf descriptors are not complete ({error}): protoc --include_imports") from None
    return pool


def to_descriptors(text: str, references: Mapping[str, str]) -> list[Any]:
    """The file of a registered Protobuf schema, after the files that it imports."""
    descriptor_pb2, _ = import_protobuf()
    from google.protobuf.message import DecodeError

    files = []
    for name, content in (*references.items(), ("", text)):
        file = descriptor_pb2.FileDescriptorProto()
        try:
            file.ParseFromString(base64.b64decode(content, validate=True))
        except (ValueError, DecodeError):
            raise SchemaError(
                "the schema registry answers with the source of a Protobuf schema and not with its descriptor "
                "(?format=serialized): give a descriptor set with 'valueSchemaFile' or 'keySchemaFile'"
            ) from None
        file.name = name or file.name or "schema.proto"
        files.append(file)
    return files


def message_at(file: Any, indexes: tuple[int, ...]) -> Any:
    """The message that the indexes of Confluent's wire format name: its place in the file, then in its parent."""
    messages = list(file.message_types_by_name.values())
    message = None
    for index in indexes:
        if not 0 <= index < len(messages):
            return None
        message = messages[index]
        messages = list(message.nested_types)
    return message


# --- columns ---------------------------------------------------------------------------------------------------------


def to_arrow_type(message: Any, inside: tuple[str, ...] = ()) -> pa.DataType:
    if message.full_name in INSTANTS:
        return INSTANTS[message.full_name]
    if message.full_name in inside:
        raise SchemaError(
            f"the Protobuf message {message.full_name} contains itself: a column cannot have a recursive type"
        )
    below = (*inside, message.full_name)
    return struct_of((entry.name, _field_type(entry, below)) for entry in message.fields)


def _field_type(entry: Any, inside: tuple[str, ...]) -> pa.DataType:
    if is_map(entry):
        key, value = entry.message_type.fields_by_name["key"], entry.message_type.fields_by_name["value"]
        return map_of(_single_type(value, inside), _single_type(key, inside))
    single = _single_type(entry, inside)
    return list_of(single) if is_repeated(entry) else single


def _single_type(entry: Any, inside: tuple[str, ...]) -> pa.DataType:
    if entry.message_type is not None:
        return to_arrow_type(entry.message_type, inside)
    return _TYPES[type_name(entry)]


def type_name(entry: Any) -> str:
    descriptor_pb2, _ = import_protobuf()
    name: str = descriptor_pb2.FieldDescriptorProto.Type.Name(entry.type)
    if name == "TYPE_GROUP":
        raise SchemaError(f"field '{entry.full_name}' is a Protobuf group, which is not supported")
    return name


def is_repeated(entry: Any) -> bool:
    return bool(entry.is_repeated)


def is_map(entry: Any) -> bool:
    return entry.message_type is not None and bool(entry.message_type.GetOptions().map_entry)
