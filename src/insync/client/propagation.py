"""Waiting until every broker has heard of a change.

A change is made once the controller has committed it; brokers learn of it a moment later, each in its own time. The
next command of a script asks any of them, and must not find the cluster as it was before.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from insync.client import apis
from insync.client.client import NO_METADATA_EXTRAS, Client
from insync.client.errors import ClientError, ErrorCode
from insync.wire.types import ZERO_UUID

TIMEOUT_S = 5.0
POLL_S = 0.02

TOPIC = 2
SET_ON_TOPIC = 1
"""Kafka's numbers, of what a config belongs to and of where a value comes from."""

HasChange = Callable[[int], Awaitable[bool]]


async def wait_for_propagation(client: Client, seen: HasChange) -> None:
    """Until `seen` holds at every broker. A broker that stays silent is not waited for for long: it does not undo what
    was done."""

    async def at(broker: int) -> None:
        while not await _sure(seen, broker):
            await asyncio.sleep(POLL_S)

    try:
        async with asyncio.timeout(min(client.timeout, TIMEOUT_S)):
            await asyncio.gather(*(at(broker) for broker in sorted(client.brokers)))
    except TimeoutError:
        return


async def _sure(seen: HasChange, broker: int) -> bool:
    try:
        return await seen(broker)
    except ClientError:
        return False


async def count_partitions(client: Client, broker: int, topic: str) -> int:
    """How many partitions of a topic this broker knows; 0 if it does not know the topic."""
    values = {"topics": [{"name": topic, "topic_id": ZERO_UUID}], **NO_METADATA_EXTRAS}
    (entry,) = (await client.call_broker(broker, apis.METADATA, values)).topics
    return 0 if entry.error_code is ErrorCode.unknown_topic_or_partition else len(entry.partitions)


async def has_configs(client: Client, broker: int, topic: str, changes: Mapping[str, str | None]) -> bool:
    """Whether the topic's own configs are as they were set, or no longer there where None took them away."""
    values = {
        "resources": [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": list(changes)}],
        "include_synonyms": False,
        "include_documentation": False,
    }
    (result,) = (await client.call_broker(broker, apis.DESCRIBE_CONFIGS, values)).results
    own = {entry.name: entry.value for entry in result.configs if entry.config_source == SET_ON_TOPIC}
    return all(_plain(own.get(key)) == _plain(value) for key, value in changes.items())


def _plain(value: str | None) -> str | None:
    """Without the liberties that brokers take when they show a value."""
    return None if value is None else value.replace(" ", "").lower()
