"""Topics and their configs: describe, create, add partitions, alter, delete.

DescribeTopicPartitions is used where it is served, because only it shows the ELR; otherwise Metadata.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from insync.client import apis, propagation
from insync.client.client import NO_METADATA_EXTRAS, Client
from insync.client.errors import ClientError, ErrorCode, RefusedError, UnknownTopicError, raise_for_error
from insync.client.model import Config, Partition, Topic
from insync.wire.types import ZERO_UUID, ms

TOPIC = 2
BROKER = 4
"""Kafka's resource types of configs."""

SET, DELETE = 0, 1
PAGE = 2000


async def describe(client: Client, names: Sequence[str] | None = None) -> list[Topic]:
    """The named topics, or all of them, sorted by name; `UnknownTopicError` if one is missing.

    A leader is never replaced by one of an earlier epoch, whatever an outdated broker answers.
    """
    if names is not None and not names:
        return []
    connection = await client.any_connection()
    if connection.version(apis.DESCRIBE_TOPIC_PARTITIONS) is not None:
        described = await _describe_by_pages(client, names)
    else:
        described = await _describe_from_metadata(client, names)
    return sorted((client.leaders.with_newest_leaders(topic) for topic in described), key=lambda topic: topic.name)


async def describe_one(client: Client, name: str) -> Topic:
    return (await describe(client, [name]))[0]


async def describe_partition(client: Client, name: str, index: int) -> tuple[Topic, Partition]:
    topic = await describe_one(client, name)
    partition = topic.partition(index)
    if partition is None:
        raise ClientError(f"topic '{name}' has no partition {index}, only 0 to {len(topic.partitions) - 1}")
    return topic, partition


async def _describe_by_pages(client: Client, names: Sequence[str] | None) -> list[Topic]:
    wanted = [{"name": name} for name in sorted(names or ())]
    described: dict[str, Topic] = {}
    cursor: dict[str, Any] | None = None
    while True:
        values = {"topics": wanted, "response_partition_limit": PAGE, "cursor": cursor}
        answer = await client.call_any(apis.DESCRIBE_TOPIC_PARTITIONS, values)
        for entry in answer.topics:
            page = _topic(entry)
            before = described.get(page.name)
            described[page.name] = page if before is None else _join_pages(before, page)
        if answer.next_cursor is None:
            return list(described.values())
        cursor = {
            "topic_name": answer.next_cursor.topic_name,
            "partition_index": answer.next_cursor.partition_index,
        }


def _join_pages(before: Topic, page: Topic) -> Topic:
    """Join the partitions of a topic that continues on the next page."""
    return Topic(name=page.name, id=page.id, internal=page.internal, partitions=(*before.partitions, *page.partitions))


async def _describe_from_metadata(client: Client, names: Sequence[str] | None) -> list[Topic]:
    topics = None if names is None else [{"name": name, "topic_id": ZERO_UUID} for name in names]
    answer = await client.call_any(apis.METADATA, {"topics": topics, **NO_METADATA_EXTRAS})
    client.update_brokers(answer)
    return [_topic(entry) for entry in answer.topics]


def _topic(entry: Any) -> Topic:
    name = entry.name or ""
    if entry.error_code is ErrorCode.unknown_topic_or_partition:
        raise UnknownTopicError(name)
    if entry.error_code is not ErrorCode.leader_not_available:
        raise_for_error(entry.error_code, f"describing topic '{name}'")
    return Topic(
        name=name,
        id=getattr(entry, "topic_id", None) or ZERO_UUID,
        internal=entry.is_internal,
        partitions=tuple(sorted((_partition(p) for p in entry.partitions), key=lambda p: p.index)),
    )


def _partition(entry: Any) -> Partition:
    elr = getattr(entry, "eligible_leader_replicas", None)
    last_known = getattr(entry, "last_known_elr", None)
    return Partition(
        index=entry.partition_index,
        leader=entry.leader_id,
        leader_epoch=getattr(entry, "leader_epoch", -1),
        replicas=tuple(entry.replica_nodes),
        isr=tuple(entry.isr_nodes),
        offline=tuple(getattr(entry, "offline_replicas", ())),
        elr=None if elr is None else tuple(elr),
        last_known_elr=None if last_known is None else tuple(last_known),
    )


# --- changes ---


async def create(
    client: Client,
    name: str,
    *,
    partitions: int = -1,
    replication_factor: int = -1,
    assignment: Sequence[Sequence[int]] = (),
    configs: Mapping[str, str] | None = None,
    validate_only: bool = False,
) -> None:
    """-1 means the cluster's default; an assignment names the brokers of each partition instead."""
    topic = {
        "name": name,
        "num_partitions": -1 if assignment else partitions,
        "replication_factor": -1 if assignment else replication_factor,
        "assignments": [{"partition_index": i, "broker_ids": brokers} for i, brokers in enumerate(assignment)],
        "configs": [{"name": key, "value": value} for key, value in (configs or {}).items()],
    }
    values = {"topics": [topic], "timeout": ms(int(client.timeout_s * 1000)), "validate_only": validate_only}

    async def attempt() -> None:
        answer = await client.call_controller(apis.CREATE_TOPICS, values)
        for result in answer.topics:
            raise_for_error(result.error_code, f"creating topic '{name}'", getattr(result, "error_message", None))

    async def has_topic(broker: int) -> bool:
        return await propagation.count_partitions(client, broker, name) > 0

    await client.retry(attempt)
    if not validate_only:
        await propagation.wait_for_propagation(client, has_topic)


async def delete(client: Client, name: str) -> None:
    values = {
        "topics": [{"name": name, "topic_id": ZERO_UUID}],
        "topic_names": [name],
        "timeout": ms(int(client.timeout_s * 1000)),
    }

    async def attempt() -> None:
        answer = await client.call_controller(apis.DELETE_TOPICS, values)
        for result in answer.responses:
            if result.error_code is ErrorCode.unknown_topic_or_partition:
                raise UnknownTopicError(name)
            raise_for_error(result.error_code, f"deleting topic '{name}'", getattr(result, "error_message", None))

    async def has_deleted(broker: int) -> bool:
        return await propagation.count_partitions(client, broker, name) == 0

    await client.retry(attempt)
    await propagation.wait_for_propagation(client, has_deleted)


async def create_partitions(client: Client, name: str, count: int) -> None:
    """Add partitions until the topic has `count`."""
    values = {
        "topics": [{"name": name, "count": count, "assignments": None}],
        "timeout": ms(int(client.timeout_s * 1000)),
        "validate_only": False,
    }

    async def attempt() -> None:
        answer = await client.call_controller(apis.CREATE_PARTITIONS, values)
        for result in answer.results:
            if result.error_code is ErrorCode.unknown_topic_or_partition:
                raise UnknownTopicError(name)
            raise_for_error(result.error_code, f"adding partitions to '{name}'", result.error_message)

    async def has_partitions(broker: int) -> bool:
        return await propagation.count_partitions(client, broker, name) >= count

    await client.retry(attempt)
    await propagation.wait_for_propagation(client, has_partitions)


async def describe_configs(
    client: Client, name: str, *, kind: int = TOPIC, keys: Sequence[str] | None = None, through_any: bool = False
) -> dict[str, Config]:
    """The effective configs by name: those in `keys`, or all.

    A broker's configs are requested from the broker itself, or with `through_any` from any broker, which forwards.
    """
    values = {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        "include_synonyms": False,
        "include_documentation": False,
    }
    if kind == BROKER and name and not through_any:
        answer = await client.call_broker(int(name), apis.DESCRIBE_CONFIGS, values)
    else:
        answer = await client.call_any(apis.DESCRIBE_CONFIGS, values)
    for result in answer.results:
        if kind == TOPIC and result.error_code is ErrorCode.unknown_topic_or_partition:
            raise UnknownTopicError(name)
        raise_for_error(result.error_code, f"reading the configs of {name}", result.error_message)
    return {entry.name: _config(entry) for result in answer.results for entry in result.configs}


async def alter_configs(client: Client, name: str, changes: Mapping[str, str | None], *, kind: int = TOPIC) -> None:
    """Set configs; None removes one, so that its default applies. A broker's configs are set at the broker itself."""
    entries = [
        {"name": key, "config_operation": DELETE if value is None else SET, "value": value}
        for key, value in changes.items()
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": entries}

    async def attempt() -> None:
        values = {"resources": [resource], "validate_only": False}
        if kind == BROKER and name and int(name) in client.brokers:
            answer = await client.call_broker(int(name), apis.INCREMENTAL_ALTER_CONFIGS, values)
        else:
            answer = await client.call_controller(apis.INCREMENTAL_ALTER_CONFIGS, values)
        for result in answer.responses:
            if result.error_code is ErrorCode.unknown_topic_or_partition:
                raise UnknownTopicError(name)
            if result.error_code is not ErrorCode.none:
                raise RefusedError(result.error_code, f"changing the configs of {name}", result.error_message)

    async def has_configs(broker: int) -> bool:
        return await propagation.has_configs(client, broker, name, changes)

    await client.retry(attempt)
    if kind == TOPIC:
        await propagation.wait_for_propagation(client, has_configs)


def _config(entry: Any) -> Config:
    return Config(
        name=entry.name,
        value=entry.value,
        source=entry.config_source,
        read_only=entry.read_only,
        sensitive=entry.is_sensitive,
    )


async def describe_topic_configs(
    client: Client, names: Sequence[str], keys: Sequence[str]
) -> dict[str, dict[str, str]]:
    """A few configs of many topics in one request; topics deleted meanwhile are left out."""
    if not names:
        return {}
    values = {
        "resources": [{"resource_type": TOPIC, "resource_name": name, "configuration_keys": keys} for name in names],
        "include_synonyms": False,
        "include_documentation": False,
    }
    answer = await client.call_any(apis.DESCRIBE_CONFIGS, values)
    return {
        result.resource_name: {entry.name: entry.value or "" for entry in result.configs}
        for result in answer.results
        if result.error_code is ErrorCode.none
    }
