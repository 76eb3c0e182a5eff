"""Encodes and decodes entities of any schema: `writer` encodes, kio decodes.

The lengths in the bytes are checked first (see `bounds_check`). kio's reader fails on unknown tagged fields, which the
protocol says to skip; such an entity is rare, and is decoded again field by field in Python.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from typing import Any

from kio.serial import entity_reader
from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional
from kio.serial._parse import get_field_reader
from kio.serial.errors import SerialError

from insync.wire.bounds_check import check_bounds
from insync.wire.errors import MalformedFrameError
from insync.wire.varint import read_uvarint
from insync.wire.writer import writer

Read = Callable[[bytes, int], tuple[Any, int]]
"""(data, position) -> (value, position after it)."""


def encode(entity: Any, target: Any = None) -> bytes:
    """In the schema of the class `target`, by default the entity's own."""
    source: Any = type(entity)
    out = bytearray()
    writer(target or source, source)(out, entity)
    return bytes(out)


def decode(entity_type: Any, data: bytes, pos: int = 0, *, fills: bool = True) -> Any:
    """The entity in `data` from `pos` to the end; MalformedFrameError if the bytes do not follow its schema.

    With `fills` false, bytes after the entity are ignored.
    """
    end = check_bounds(entity_type, data, pos)
    if fills and end != len(data):
        raise MalformedFrameError(f"{len(data) - end} bytes follow {entity_type.__name__}")
    try:
        try:
            return entity_reader(entity_type)(data, pos)[0]
        except KeyError:  # an unknown tag: the only lookup in kio's reader
            return _tolerant(entity_type)(data, pos)[0]
    except (SerialError, ValueError, OverflowError) as error:
        raise MalformedFrameError(f"malformed {entity_type.__name__}: {error}") from error


@cache
def _tolerant(entity_type: Any) -> Read:
    flexible: bool = entity_type.__flexible__
    all_fields = fields(entity_type)
    plain = [(f.name, _field_reader(entity_type, f, flexible)) for f in all_fields if "tag" not in f.metadata]
    tagged = {
        f.metadata["tag"]: (f.name, _field_reader(entity_type, f, flexible)) for f in all_fields if "tag" in f.metadata
    }
    absent = {f.name: get_tagged_field_default(f) for f in all_fields if "tag" in f.metadata}

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        values = dict(absent)
        for name, reader in plain:
            values[name], pos = reader(data, pos)
        if flexible:
            pos = _read_tags(tagged, values, data, pos)
        return entity_type(**values), pos

    return read


def _read_tags(tagged: dict[int, tuple[str, Read]], values: dict[str, Any], data: bytes, pos: int) -> int:
    count, pos = read_uvarint(data, pos)
    for _ in range(count):
        tag, pos = read_uvarint(data, pos)
        length, pos = read_uvarint(data, pos)
        if tag in tagged:
            name, reader = tagged[tag]
            values[name] = reader(data, pos)[0]
        pos += length
    return pos


def _field_reader(entity_type: Any, field: Field[Any], flexible: bool) -> Read:
    kind = classify_field(field)
    is_tag = "tag" in field.metadata
    if isinstance(kind, EntityTupleField):
        return _array_reader(_tolerant(kind.type_), flexible)
    if isinstance(kind, EntityField):
        nested = _tolerant(kind.type_)
        return _nullable_reader(nested) if is_optional(field) and not is_tag else nested
    native = get_field_reader(entity_type, field, is_request_header=False, is_tagged_field=is_tag)
    return _positioned(native)


def _positioned(native: Any) -> Read:
    """kio's readers return the size of the value, ours the position after it."""

    def read(data: bytes, pos: int) -> tuple[Any, int]:
        value, size = native(data, pos)
        return value, pos + size

    return read


def _array_reader(item: Read, flexible: bool) -> Read:
    def read(data: bytes, pos: int) -> tuple[Any, int]:
        if flexible:
            count, pos = read_uvarint(data, pos)
            count -= 1
        else:
            count, pos = int.from_bytes(data[pos : pos + 4], "big", signed=True), pos + 4
        if count < 0:
            return None, pos
        items = []
        for _ in range(count):
            value, pos = item(data, pos)
            items.append(value)
        return tuple(items), pos

    return read


def _nullable_reader(nested: Read) -> Read:
    def read(data: bytes, pos: int) -> tuple[Any, int]:
        return nested(data, pos + 1) if data[pos] == 1 else (None, pos + 1)

    return read
