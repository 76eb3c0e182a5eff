"""Encodes messages, in their own version or directly in another one.

kio's writer makes several calls and objects per field. Here a schema is compiled once: consecutive fields of fixed size
become a single `struct`, everything else one function. That takes a quarter of the time, so that a response with ten
thousand entries does not block a node.

An entity is encoded as if it had been converted to the class of the other version first (see `convert`): fields of the
target alone get its defaults, fields of the source alone are left out.

Responses about many topics often hold the same tuple of configs for all of them: it is encoded once and copied.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import cache
from operator import attrgetter
from struct import Struct
from typing import Any

from kio.serial._implicit_defaults import get_tagged_field_default
from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional

from insync.wire.convert import converter, default_of, empty_of, nullable
from insync.wire.types import ZERO_UUID, instant_millis, millis
from insync.wire.varint import append_uvarint

Write = Callable[[bytearray, Any], None]
"""Appends a value, or an entity's field, to the bytes."""

_FORMATS = {
    "bool": "?",
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "error_code": "h",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float64": "d",
}
"""Types that `struct` packs directly; durations, instants and uuids are converted first."""
_I16 = Struct(">h")
_I32 = Struct(">i")
_I64 = Struct(">q")
_NULL, _NOT_NULL = b"\xff", b"\x01"
_SHARED = ("CreatableTopicResult", "DescribeConfigsResult")
"""Classes whose `configs` are often shared."""
_RECENT = 8
_PADDING = "x"
"""One zero byte: no tagged fields."""


@cache
def writer(target: Any, source: Any) -> Write:
    """Encodes entities of the class `source` in the schema of the class `target`."""
    have = {field.name: field for field in fields(source)}
    steps = _Steps()
    tagged = []
    for field in fields(target):
        if "tag" in field.metadata:
            tagged.append(field)
        else:
            shares = target.__name__ in _SHARED and field.name == "configs"
            _add(steps, field, have.get(field.name), target.__flexible__, shares=shares)
    if target.__flexible__:
        present = [field for field in tagged if field.name in have]
        if present:
            steps.add(_tags(present, have))
        else:
            steps.add_padding()
    return steps.finish()


class _Steps:
    """The steps of a writer; consecutive fields of fixed size become one step."""

    def __init__(self) -> None:
        self._steps: list[Write] = []
        self._names: list[str] = []
        self._format = ""

    def add_fixed(self, name: str, code: str) -> None:
        self._names.append(name)
        self._format += code

    def add_padding(self) -> None:
        self._format += _PADDING

    def add(self, step: Write) -> None:
        self._end_run()
        self._steps.append(step)

    def _end_run(self) -> None:
        if self._format:
            self._steps.append(_run(Struct(">" + self._format), self._names))
            self._format, self._names = "", []

    def finish(self) -> Write:
        self._end_run()
        if len(self._steps) == 1:
            return self._steps[0]
        steps = tuple(self._steps)

        def write(out: bytearray, entity: Any) -> None:
            for step in steps:
                step(out, entity)

        return write


def _run(struct: Struct, names: list[str]) -> Write:
    pack_fields = struct.pack
    if not names:
        constant = pack_fields()

        def write_constant(out: bytearray, entity: Any) -> None:
            out += constant

        return write_constant
    get = attrgetter(*names)
    if len(names) == 1:

        def write_one(out: bytearray, entity: Any) -> None:
            out += pack_fields(get(entity))

        return write_one

    def write(out: bytearray, entity: Any) -> None:
        out += pack_fields(*get(entity))

    return write


def _add(steps: _Steps, want: Field[Any], have: Field[Any] | None, flexible: bool, *, shares: bool) -> None:
    if have is None:
        constant = bytearray()
        _value_writer(want, want, flexible)(constant, default_of(want))
        steps.add(_constant(bytes(constant)))
        return
    kind = classify_field(want)
    code = _FORMATS.get(want.metadata.get("kafka_type", ""))
    if code is not None and not kind.is_array and not isinstance(kind, EntityField):
        steps.add_fixed(want.name, code)
    else:
        write = _value_writer(want, have, flexible)
        steps.add(_field(want.name, _copied(write) if shares else write))


def _copied(write_value: Write) -> Write:
    """Copies the bytes of a tuple that was encoded recently."""
    recent: deque[tuple[Any, bytes]] = deque(maxlen=_RECENT)

    def write(out: bytearray, value: Any) -> None:
        for known, data in recent:
            if known is value:
                out += data
                return
        at = len(out)
        write_value(out, value)
        recent.append((value, bytes(out[at:])))

    return write


def _constant(data: bytes) -> Write:
    def write(out: bytearray, entity: Any) -> None:
        out += data

    return write


def _field(name: str, write_value: Write) -> Write:
    get = attrgetter(name)

    def write(out: bytearray, entity: Any) -> None:
        write_value(out, get(entity))

    return write


def _value_writer(want: Field[Any], have: Field[Any], flexible: bool) -> Write:
    """The writer of a field's value; a null where the target has no null becomes the empty value."""
    kind = classify_field(want)
    if kind.is_array:
        return _array(_item_writer(want, have, flexible), flexible, has_null=nullable(want) or not nullable(have))
    if isinstance(kind, EntityField):
        nested = writer(kind.type_, classify_field(have).type_)
        return _nullable_entity(nested) if is_optional(want) and "tag" not in want.metadata else nested
    write = _primitive(want.metadata["kafka_type"], flexible)
    if nullable(have) and not nullable(want):
        return _null_as(empty_of(want), write)
    return write


def _item_writer(want: Field[Any], have: Field[Any], flexible: bool) -> Write:
    kind = classify_field(want)
    if isinstance(kind, EntityTupleField):
        return writer(kind.type_, classify_field(have).type_)
    return _primitive(want.metadata["kafka_type"], flexible)


def _array(write_item: Write, flexible: bool, *, has_null: bool) -> Write:
    def write(out: bytearray, items: Any) -> None:
        if items is None and has_null:
            if flexible:
                out.append(0)
            else:
                out += _NULL * 4
            return
        count = 0 if items is None else len(items)
        if flexible:
            append_uvarint(out, count + 1)
        else:
            out += _I32.pack(count)
        if count:
            for item in items:
                write_item(out, item)

    return write


def _nullable_entity(nested: Write) -> Write:
    def write(out: bytearray, entity: Any) -> None:
        if entity is None:
            out += _NULL
        else:
            out += _NOT_NULL
            nested(out, entity)

    return write


def _null_as(empty: Any, write_value: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        write_value(out, empty if value is None else value)

    return write


# --- single values ---------------------------------------------------------------------------------------------------


def _primitive(name: str, flexible: bool) -> Write:
    code = _FORMATS.get(name)
    if code is not None:
        return _number(Struct(">" + code))
    if name in ("string", "bytes", "records"):
        return _compact if flexible else _legacy_string if name == "string" else _legacy_bytes
    return _OTHERS[name]


def _number(struct: Struct) -> Write:
    pack_one = struct.pack

    def write(out: bytearray, value: Any) -> None:
        out += pack_one(value)

    return write


def _compact(out: bytearray, value: Any) -> None:
    if value is None:
        out.append(0)
        return
    data = value.encode() if isinstance(value, str) else value
    length = len(data) + 1
    if length < 0x80:
        out.append(length)
    else:
        append_uvarint(out, length)
    out += data


def _legacy_string(out: bytearray, value: Any) -> None:
    if value is None:
        out += _NULL * 2
        return
    data = value.encode()
    out += _I16.pack(len(data))
    out += data


def _legacy_bytes(out: bytearray, value: Any) -> None:
    if value is None:
        out += _NULL * 4
        return
    out += _I32.pack(len(value))
    out += value


def _uuid(out: bytearray, value: Any) -> None:
    out += (value or ZERO_UUID).bytes


def _duration_i32(out: bytearray, value: Any) -> None:
    out += _I32.pack(millis(value))


def _duration_i64(out: bytearray, value: Any) -> None:
    out += _I64.pack(millis(value))


def _instant(out: bytearray, value: Any) -> None:
    out += _I64.pack(instant_millis(value))


_OTHERS: dict[str, Write] = {
    "uuid": _uuid,
    "timedelta_i32": _duration_i32,
    "timedelta_i64": _duration_i64,
    "datetime_i64": _instant,
}


# --- tagged fields ---------------------------------------------------------------------------------------------------


def _tags(tagged: list[Field[Any]], have: dict[str, Field[Any]]) -> Write:
    """Fields that differ from their defaults, in the order of their tags."""
    known = tuple(
        (attrgetter(field.name), _convert(field, have[field.name]), _default(field), _tag(field))
        for field in sorted(tagged, key=lambda field: field.metadata["tag"])
    )

    def write(out: bytearray, entity: Any) -> None:
        count, at = 0, len(out)
        out.append(0)
        for get, convert, default, write_tag in known:
            value = get(entity)
            if value is default or value == default:
                continue
            value = convert(value)
            if value != default:
                write_tag(out, value)
                count += 1
        out[at] = count

    return write


def _default(field: Field[Any]) -> Any:
    return get_tagged_field_default(field) if field.default is MISSING else field.default


def _convert(want: Field[Any], have: Field[Any]) -> Callable[[Any], Any]:
    """A value must have the class of the default to be compared with it."""
    target, source = classify_field(want), classify_field(have)
    if isinstance(target, EntityTupleField):
        item = converter(source.type_, target.type_)
        return lambda value: value if value is None else tuple([item(entry) for entry in value])
    if isinstance(target, EntityField):
        nested = converter(source.type_, target.type_)
        return lambda value: value if value is None else nested(value)
    return lambda value: value


def _tag(field: Field[Any]) -> Write:
    tag = field.metadata["tag"]
    write_value = _value_writer(field, field, True)

    def write(out: bytearray, value: Any) -> None:
        data = bytearray()
        write_value(data, value)
        append_uvarint(out, tag)
        append_uvarint(out, len(data))
        out += data

    return write
