"""Checks that every length in a message stays inside its bytes, by walking its schema without building anything.

kio's native reader trusts the lengths that it reads: an array that claims two billion entries makes it allocate memory
for them and, if that fails, abort the process. So all bytes from outside are checked first. A schema is compiled once
into a tuple of steps; runs of fixed-size fields become a single step, so that a request costs a few microseconds.

An entry of a few bytes becomes objects of several hundred, and work for the node. So the entries of a request are
limited, over all its arrays. Those of a response are not: it comes from a peer that this node asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import Field, fields
from functools import cache
from struct import Struct
from typing import Any, get_origin

from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional
from kio.static.constants import EntityType

from insync.wire.errors import MalformedFrameError
from insync.wire.varint import read_uvarint

Step = Callable[[bytes, int], int]
"""(data, position) -> position after the field."""

ReadLength = Callable[[bytes, int], tuple[int, int]]
"""(data, position) -> (length or count, -1 for null; position after it)."""

_SIZES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "uint16": 2,
    "error_code": 2,
    "int32": 4,
    "uint32": 4,
    "timedelta_i32": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
    "timedelta_i64": 8,
    "datetime_i64": 8,
    "uuid": 16,
}
MAX_ENTRIES = 100_000
"""In one request."""

_UNLIMITED = 1 << 62
_entries_left = [_UNLIMITED]
"""Of the message that is being checked. Steps are plain functions of (data, position); this is their shared state."""

_I16 = Struct(">h")
_I32 = Struct(">i")


def check_bounds(entity_type: Any, data: bytes, pos: int) -> int:
    """The end of the entity at `pos`; MalformedFrameError if any part of it reaches past the data.

    Positions only grow, so most steps leave the check to the next read (an IndexError) or to the last line here.
    """
    _entries_left[0] = MAX_ENTRIES if getattr(entity_type, "__type__", None) is EntityType.request else _UNLIMITED
    try:
        for step in _steps(entity_type):
            pos = step(data, pos)
    except IndexError as error:
        raise MalformedFrameError(f"{entity_type.__name__} is cut off") from error
    return _checked(data, pos, 0)


@cache
def _steps(entity_type: Any) -> tuple[Step, ...]:
    flexible: bool = entity_type.__flexible__
    steps: list[Step] = []
    fixed = 0
    for field in fields(entity_type):
        if "tag" in field.metadata:
            continue
        size = _fixed_size(field)
        if size:
            fixed += size
            continue
        if fixed:
            steps.append(_skip(fixed))
            fixed = 0
        steps.append(_field_step(field, flexible))
    if fixed:
        steps.append(_skip(fixed))
    if flexible:
        steps.append(_tags(entity_type))
    return tuple(steps)


def _fixed_size(field: Field[Any]) -> int:
    """The size of a field of fixed size, else 0."""
    if classify_field(field).is_array:
        return 0
    return _SIZES.get(field.metadata.get("kafka_type", ""), 0)


def _field_step(field: Field[Any], flexible: bool) -> Step:
    kind = classify_field(field)
    read = _count_reader(field, flexible)
    if isinstance(kind, EntityTupleField):
        return _array(_entity(kind.type_), read)
    if isinstance(kind, EntityField):
        nested = _entity(kind.type_)
        return _nullable(nested) if is_optional(field) and "tag" not in field.metadata else nested
    name: str = field.metadata["kafka_type"]
    if kind.is_array:
        size = _SIZES.get(name, 0)
        return _fixed_array(size, read) if size else _array(_sized(name, flexible), read)
    return _skip(_SIZES[name]) if name in _SIZES else _sized(name, flexible)


def _skip(size: int) -> Step:
    def step(data: bytes, pos: int) -> int:
        return pos + size

    return step


def _entity(entity_type: Any) -> Step:
    steps = _steps(entity_type)

    def step(data: bytes, pos: int) -> int:
        for inner in steps:
            pos = inner(data, pos)
        return pos

    return step


def _nullable(nested: Step) -> Step:
    def step(data: bytes, pos: int) -> int:
        return nested(data, pos + 1) if data[pos] == 1 else pos + 1

    return step


def _sized(name: str, flexible: bool) -> Step:
    """A string or bytes: its length, then as many bytes."""
    read = _read_compact if flexible else _read_i16 if name == "string" else _read_i32

    def step(data: bytes, pos: int) -> int:
        length, pos = read(data, pos)
        return pos if length < 0 else pos + length

    return step


def _fixed_array(size: int, read_count: ReadLength) -> Step:
    def step(data: bytes, pos: int) -> int:
        count, pos = read_count(data, pos)
        _count(count)
        return _checked(data, pos, count * size)  # kio allocates for the count before it reads

    return step


def _array(item: Step, read_count: ReadLength) -> Step:
    def step(data: bytes, pos: int) -> int:
        count, pos = read_count(data, pos)
        _checked(data, pos, count)  # no item is smaller than a byte
        _count(count)
        for _ in range(count):
            pos = item(data, pos)
        return pos

    return step


def _count_reader(field: Field[Any], flexible: bool) -> ReadLength:
    """kio reads a null array as None even where the schema forbids null, and code that iterates it would fail."""
    read = _read_compact if flexible else _read_i32
    nullable = get_origin(field.type) is not tuple

    def read_count(data: bytes, pos: int) -> tuple[int, int]:
        count, pos = read(data, pos)
        if count < 0:
            if not nullable:
                raise MalformedFrameError(f"{field.name} must not be null")
            count = 0
        return count, pos

    return read_count


def _tags(entity_type: Any) -> Step:
    known = {f.metadata["tag"]: _field_step(f, True) for f in fields(entity_type) if "tag" in f.metadata}

    def step(data: bytes, pos: int) -> int:
        count, pos = read_uvarint(data, pos)
        if count == 0:
            return pos
        _count(count)
        for _ in range(count):
            tag, pos = read_uvarint(data, pos)
            length, pos = read_uvarint(data, pos)
            end = _checked(data, pos, length)
            if tag in known and known[tag](data, pos) != end:
                raise MalformedFrameError(f"tag {tag} has another size than its {length} bytes")
            pos = end
        return pos

    return step


def _count(entries: int) -> None:
    left = _entries_left[0] = _entries_left[0] - entries
    if left < 0:
        raise MalformedFrameError(f"more than {MAX_ENTRIES} entries in one request")


def _checked(data: bytes, pos: int, length: int) -> int:
    end = pos + length
    if end > len(data):
        raise MalformedFrameError(f"{length} bytes at {pos} reach past the end")
    return end


def _read_compact(data: bytes, pos: int) -> tuple[int, int]:
    """A length or count, -1 for null; the wire has it plus one."""
    value, pos = read_uvarint(data, pos)
    return value - 1, pos


def _read_i16(data: bytes, pos: int) -> tuple[int, int]:
    after = _checked(data, pos, 2)
    return _at_least_null(_I16.unpack_from(data, pos)[0]), after


def _read_i32(data: bytes, pos: int) -> tuple[int, int]:
    after = _checked(data, pos, 4)
    return _at_least_null(_I32.unpack_from(data, pos)[0]), after


def _at_least_null(length: int) -> int:
    if length < -1:
        raise MalformedFrameError(f"negative length {length}")
    return length
