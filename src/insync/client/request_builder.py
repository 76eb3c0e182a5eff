"""Builds requests of any version from one description: plain values by field name.

    build_request(FetchRequest of version 12, {"topics": [{"topic": "t", "topic_id": id, "partitions": [...]}], ...})

A field that the version does not have is left out. So a caller gives both the name and the id of a topic and need not
know which of them is sent. A field that is missing and has no default is a programming error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, get_args, get_origin

Convert = Callable[[Any], Any]


def build_request(cls: Any, values: Mapping[str, Any]) -> Any:
    """A message of class `cls`."""
    given = {name: convert(values[name]) for name, convert in _converters(cls).items() if name in values}
    if missing := [name for name in _required(cls) if name not in given]:
        raise TypeError(f"{cls.__name__} version {cls.__version__} needs {', '.join(missing)}")
    return cls(**given)


@cache
def _required(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(cls) if field.default is MISSING)


@cache
def _converters(cls: Any) -> dict[str, Convert]:
    return {field.name: _converter(field.type) for field in fields(cls)}


def _converter(kind: Any) -> Convert:
    item = _item_type(kind)
    if item is not None:
        return _items(item)
    entity = next((option for option in (kind, *get_args(kind)) if is_dataclass(option)), None)
    return _plain if entity is None else lambda value: None if value is None else build_request(entity, value)


def _item_type(kind: Any) -> Any:
    """T if the field is `tuple[T, ...]` or `tuple[T, ...] | None`."""
    for option in (kind, *get_args(kind)):
        if get_origin(option) is tuple:
            return get_args(option)[0]
    return None


def _items(item: Any) -> Convert:
    one: Convert = (lambda value: build_request(item, value)) if is_dataclass(item) else _plain
    return lambda values: None if values is None else tuple(one(value) for value in values)


def _plain(value: Any) -> Any:
    return value
