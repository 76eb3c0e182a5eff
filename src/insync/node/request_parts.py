"""Large requests in parts: each is decided, committed and answered by itself, and other requests come in between.

An API whose requests may be divided has `split` and `merge`. A broker forwards the parts one after the other; a
controller that is asked directly decides one per step.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from insync.sansio import Message
from insync.wire.errors import ErrorCode

MAX_ITEMS = 200
"""Topics, partitions or resources in one part."""

Item = TypeVar("Item")


def divide(items: Iterable[Item], key: Callable[[Item], Hashable], size: int = MAX_ITEMS) -> list[list[Item]]:
    """Items with equal keys stay together, so that the controller notices what is named twice."""
    named: dict[Hashable, list[Item]] = {}
    for item in items:
        named.setdefault(key(item), []).append(item)
    parts: list[list[Item]] = [[]]
    for same in named.values():
        if parts[-1] and len(parts[-1]) + len(same) > size:
            parts.append([])
        parts[-1] += same
    return parts


def split_flat(request: Message, field: str, key: Callable[[Any], Hashable]) -> list[Message]:
    """Of a request with one list."""
    items = getattr(request, field)
    if len(items) <= MAX_ITEMS:
        return [request]
    return [replace(request, **{field: tuple(part)}) for part in divide(items, key)]


def split_nested(
    request: Message, field: str, key: Callable[[Any], Hashable], index: Callable[[Any], int]
) -> list[Any]:
    """Of a request with a list of topics, each with a list of `partitions`."""
    topics = getattr(request, field)
    if topics is None or sum(len(topic.partitions) for topic in topics) <= MAX_ITEMS:
        return [request]
    lines = [(topic, line) for topic in topics for line in topic.partitions]
    parts = divide(lines, lambda pair: (key(pair[0]), index(pair[1])))
    return [replace(request, **{field: _nested(part, key)}) for part in parts]


def _nested(lines: list[tuple[Any, Any]], key: Callable[[Any], Hashable]) -> tuple[Any, ...]:
    topics: dict[Hashable, tuple[Any, list[Any]]] = {}
    for topic, line in lines:
        topics.setdefault(key(topic), (topic, []))[1].append(line)
    return tuple(replace(topic, partitions=tuple(entries)) for topic, entries in topics.values())


def merge_nested(topics: Iterable[Any], key: str, field: str = "partitions") -> tuple[Any, ...]:
    """Of the answers to all parts: every topic once, with all of its partitions."""
    merged: dict[Hashable, list[Any]] = {}
    for topic in topics:
        merged.setdefault(getattr(topic, key), []).append(topic)
    return tuple(
        same[0]
        if len(same) == 1
        else replace(same[0], **{field: tuple(line for topic in same for line in getattr(topic, field))})
        for same in merged.values()
    )


def first_error(answers: list[Message]) -> Message | None:
    """An answer that refuses its whole part stands for all."""
    return next((answer for answer in answers if answer.error_code is not ErrorCode.none), None)
