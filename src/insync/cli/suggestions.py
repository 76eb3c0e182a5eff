"""Similar names for a topic or a group that does not exist."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from typing import TypeVar

from insync.client import groups, topics
from insync.client.client import Client
from insync.client.errors import ClientError, ErrorCode, RefusedError, UnknownTopicError

T = TypeVar("T")


async def suggest_names(client: Client, work: Callable[[Client], Awaitable[T]]) -> T:
    """Do the work; an error about an unknown topic or group names similar ones that exist."""
    try:
        return await work(client)
    except UnknownTopicError as error:
        if similar := _similar(error.topic, await _names(_topics, client)):
            raise ClientError(f"there is no topic '{error.topic}'. Did you mean {similar}?") from None
        raise
    except RefusedError as error:
        if error.code is not ErrorCode.group_id_not_found or "'" not in str(error):
            raise
        wanted = str(error).split("'")[1]
        if similar := _similar(wanted, await _names(_groups, client)):
            raise ClientError(f"{error}. Did you mean {similar}?") from None
        raise


async def _names(list_names: Callable[[Client], Awaitable[list[str]]], client: Client) -> list[str]:
    """None if the cluster does not tell: the first error is the one that matters."""
    try:
        return await list_names(client)
    except ClientError:
        return []


async def _topics(client: Client) -> list[str]:
    return [topic.name for topic in await topics.describe(client)]


async def _groups(client: Client) -> list[str]:
    return [group.id for group in await groups.list_groups(client)]


def _similar(name: str, names: Sequence[str]) -> str:
    return " or ".join(f"'{match}'" for match in get_close_matches(name, names, n=3, cutoff=0.6))
