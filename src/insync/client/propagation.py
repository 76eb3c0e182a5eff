"""Waiting until every broker has applied a metadata change.

A change is made when the controller has committed it, but each broker applies it a moment later. The next command of a
script may ask any broker, and must not see the state before the change.
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
"""Kafka's numbers of a resource type and of a config source."""

HasChange = Callable[[int], Awaitable[bool]]


async def wait_for_propagation(client: Client, has_change: HasChange) -> None:
    """Wait until every broker has the change, or until the timeout: the change is made in any case."""

    async def wait_for_broker(broker: int) -> None:
        while not await _has_change(has_change, broker):
            await asyncio.sleep(POLL_S)

    try:
        async with asyncio.timeout(min(client.timeout_s, TIMEOUT_S)):
            await asyncio.gather(*(wait_for_broker(broker) for broker in sorted(client.brokers)))
    except TimeoutError:
        return


async def _has_change(has_change: HasChange, broker: int) -> bool:
    try:
        return await has_change(broker)
    except ClientError:
        return False


async def count_partitions(client: Client, broker: int, topic: str) -> int:
    """How many partitions of a topic this broker knows; 0 if it does not know the topic."""
    values = {"topics": [{"name": topic, "topic_id": ZERO_UUID}], **NO_METADATA_EXTRAS}
    (entry,) = (await client.call_broker(broker, apis.METADATA, values)).topics
    return 0 if entry.error_code is ErrorCode.unknown_topic_or_partition else len(entry.partitions)


async def has_configs(client: Client, broker: int, topic: str, changes: Mapping[str, str | None]) -> bool:
    """Whether the topic's own configs have these values; None means that the config is not set."""
    values = {
        "resources": [{"resource_type": TOPIC, "resource_name": topic, "configuration_keys": list(changes)}],
        "include_synonyms": False,
        "include_documentation": False,
    }
    (result,) = (await client.call_broker(broker, apis.DESCRIBE_CONFIGS, values)).results
    own = {entry.name: entry.value for entry in result.configs if entry.config_source == SET_ON_TOPIC}
    return all(_normalized(own.get(key)) == _normalized(value) for key, value in changes.items())


def _normalized(value: str | None) -> str | None:
    """Ignores differences in spaces and case, which brokers may change."""
    return None if value is None else value.replace(" ", "").lower()
