"""Schemas in kio's style with less boilerplate: one decorator per class, one call per field.

    @entity(api_key=9, version=0)
    class RemoveTopicRecord:
        topic_id: UUID = kafka("uuid")

kio's readers and writers accept such a class. `since` is the version that introduced a field; `as_of` derives the
schema of an older version from it. Fields with tags are in the order of their tags, in which kio writes them. (Modules
with schemas have no `from __future__ import annotations`: kio reads the field types.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, field, fields, make_dataclass
from typing import Any, TypeVar, dataclass_transform

from kio.schema.request_header.v2.header import RequestHeader
from kio.schema.response_header.v1.header import ResponseHeader
from kio.static.constants import EntityType

T = TypeVar("T")


def kafka(
    kind: str | None = None,
    *,
    default: Any = MISSING,
    since: int = 0,
    tag: int | None = None,
    is_secret: bool = False,
) -> Any:
    """A field of Kafka type `kind`; None for nested entities and arrays of them. A secret one is not in the repr."""
    metadata: dict[str, Any] = {"since": since}
    if kind is not None:
        metadata["kafka_type"] = kind
    if tag is not None:
        metadata["tag"] = tag
    return field(default=default, metadata=metadata, repr=not is_secret)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(kafka,))
def entity(*, version: int, api_key: int | None = None) -> Callable[[type[T]], type[T]]:
    """A frozen, slotted, keyword-only dataclass with the attributes that kio needs; always a flexible version."""

    def decorate(cls: type[T]) -> type[T]:
        made = dataclass(frozen=True, slots=True, kw_only=True)(cls)
        return _describe(made, version, api_key)

    return decorate


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(kafka,))
def request(api_key: int) -> Callable[[type[T]], type[T]]:
    """An entity that is a request, in version 0."""
    return _message(api_key, EntityType.request, RequestHeader)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(kafka,))
def response(api_key: int) -> Callable[[type[T]], type[T]]:
    """An entity that is a response, in version 0."""
    return _message(api_key, EntityType.response, ResponseHeader)


def _message(api_key: int, kind: EntityType, header: type[Any]) -> Callable[[type[T]], type[T]]:
    def decorate(cls: type[T]) -> type[T]:
        made: Any = entity(version=0, api_key=api_key)(cls)
        made.__type__ = kind
        made.__header_schema__ = header
        described: type[T] = made
        return described

    return decorate


def as_of(cls: type[T], version: int) -> type[Any]:
    """The schema of `cls` in an older version: without the fields of later versions."""
    kept = [
        (f.name, f.type, field(default=f.default, metadata=dict(f.metadata), repr=f.repr))
        for f in fields(cls)  # type: ignore[arg-type]
        if _since(f) <= version
    ]
    old = make_dataclass(f"{cls.__name__}V{version}", kept, frozen=True, slots=True, kw_only=True)
    return _describe(old, version, getattr(cls, "__api_key__", None))


def _since(f: Field[Any]) -> int:
    since: int = f.metadata["since"]
    return since


def _describe(cls: type[T], version: int, api_key: int | None) -> type[T]:
    described: Any = cls
    described.__type__ = EntityType.nested if api_key is None else EntityType.data
    described.__version__ = version
    described.__flexible__ = True
    if api_key is not None:
        described.__api_key__ = api_key
    return cls
