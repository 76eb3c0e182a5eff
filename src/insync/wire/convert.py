"""Converts a message to another version, field by field: fields of both are copied, fields of the source alone are
dropped, fields of the target alone get the schema's default.

A pair of classes is compared once and gives a converter. A null where the target has no null becomes the empty value,
and nested classes are converted too. Renamed and regrouped fields are up to the caller, which passes them as
`replaced`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from functools import cache
from operator import attrgetter
from typing import Any, get_origin

from kio.schema.errors import ErrorCode
from kio.serial._implicit_defaults import get_implicit_default
from kio.serial._introspect import EntityField, EntityTupleField, classify_field, is_optional

Convert = Callable[[Any], Any]


def convert(entity: Any, target: Any, **replaced: Any) -> Any:
    """`entity` as an instance of `target`, with the fields in `replaced` as given."""
    source: Any = type(entity)
    if replaced:
        return target(**{**_values(source, target, tuple(replaced))(entity), **replaced})
    return entity if source is target else converter(source, target)(entity)


@cache
def converter(source: Any, target: Any) -> Convert:
    if source is target:
        return _same
    values = _values(source, target, ())

    def run(entity: Any) -> Any:
        return target(**values(entity))

    return run


def _same(entity: Any) -> Any:
    return entity


@cache
def _values(source: Any, target: Any, left_out: tuple[str, ...]) -> Callable[[Any], dict[str, Any]]:
    """The keyword arguments of a `target` from a `source`; the caller supplies those left out."""
    have = {f.name: f for f in fields(source)}
    wanted = [f for f in fields(target) if f.name not in left_out]
    absent = {f.name: default_of(f) for f in wanted if f.name not in have}
    changed = []
    carried = []
    for f in wanted:
        if f.name in have:
            change = _change(have[f.name], f)
            if change is None:
                carried.append(f.name)
            else:
                changed.append((f.name, attrgetter(f.name), change))
    take = _taker(carried)

    def run(entity: Any) -> dict[str, Any]:
        values = take(entity)
        for name, get, change in changed:
            values[name] = change(get(entity))
        if absent:
            values.update(absent)
        return values

    return run


def _taker(names: list[str]) -> Callable[[Any], dict[str, Any]]:
    if len(names) < 2:  # attrgetter returns a tuple for two names or more
        return lambda entity: {name: getattr(entity, name) for name in names}
    get = attrgetter(*names)
    return lambda entity: dict(zip(names, get(entity), strict=True))


def _change(have: Field[Any], want: Field[Any]) -> Convert | None:
    """The conversion of a value; None if it stays unchanged."""
    source, target = classify_field(have), classify_field(want)
    if isinstance(target, EntityTupleField):
        return _array(converter(source.type_, target.type_), None if nullable(want) else ())
    if isinstance(target, EntityField):
        nested = converter(source.type_, target.type_)
        return lambda value: None if value is None else nested(value)
    if nullable(have) and not nullable(want):
        empty = empty_of(want)
        return lambda value: empty if value is None else value
    return None


def _array(item: Convert, null: tuple[()] | None) -> Convert:
    def run(values: Any) -> Any:
        return null if values is None else tuple([item(value) for value in values])

    return run


def nullable(field: Field[Any]) -> bool:
    """kio's own test also looks at the items of an array; the array itself may be null if its type is a union."""
    return get_origin(field.type) is not tuple and is_optional(field)


def default_of(field: Field[Any]) -> Any:
    """The value of an absent field: the schema's default, else null where allowed, else the empty value."""
    if field.default is not MISSING:
        return field.default
    return None if nullable(field) else empty_of(field)


def empty_of(field: Field[Any]) -> Any:
    """Zero, false, "" or ()."""
    kind = classify_field(field)
    if kind.is_array:
        return ()
    if isinstance(kind, EntityField):
        return kind.type_(**{f.name: default_of(f) for f in fields(kind.type_)})
    name = field.metadata["kafka_type"]
    if name == "bool":
        return False
    if name == "error_code":
        return ErrorCode.none
    return b"" if name == "records" else get_implicit_default(kind.type_)


@cache
def item_type(entity_type: Any, name: str) -> Any:
    """The class of the items of an array field, or of a nested field."""
    field = next(f for f in fields(entity_type) if f.name == name)
    return classify_field(field).type_
