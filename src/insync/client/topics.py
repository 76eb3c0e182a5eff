"""Topics and their configs: describe, create, add partitions, alter, delete.

DescribeTopicPartitions is used where it is served, because only it shows the ELR; otherwise Metadata.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
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
MAX_RUNS = 16
"""Of neighbouring partitions, that are described by a request each; more are described with their whole topic."""


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
    topic = await describe_partitions(client, name, [index])
    partition = topic.partition(index)
    if partition is None:
        topic = await describe_one(client, name)
        partition = topic.partition(index)
    if partition is None:
        raise ClientError(f"topic '{name}' has no partition {index}, only 0 to {len(topic.partitions) - 1}")
    return topic, partition


async def describe_partitions(client: Client, name: str, indexes: Iterable[int]) -> Topic:
    """The topic with these partitions only, as far as they exist; its other partitions cost nothing if the cluster
    serves DescribeTopicPartitions."""
    wanted = sorted(set(indexes))
    runs = _find_runs(wanted)
    connection = await client.any_connection()
    if len(runs) > MAX_RUNS or connection.version(apis.DESCRIBE_TOPIC_PARTITIONS) is None:
        topic = await describe_one(client, name)
        chosen = [partition for index in wanted if (partition := topic.partition(index)) is not None]
        return replace(topic, partitions=tuple(chosen))
    pages = await asyncio.gather(*(_describe_run(client, name, first, count) for first, count in runs))
    topic = pages[-1]  # if the topic was recreated in between, the newest id counts
    partitions = tuple(partition for page in pages if page.id == topic.id for partition in page.partitions)
    return client.leaders.with_newest_leaders(replace(topic, partitions=partitions))


async def refresh_partitions(client: Client, topic: Topic, indexes: Iterable[int]) -> Topic:
    """The topic with these partitions as they are now; if it was recreated, all of them."""
    newer = await describe_partitions(client, topic.name, indexes)
    if newer.id != topic.id:
        return await describe_one(client, topic.name)
    refreshed = {partition.index: partition for partition in (*topic.partitions, *newer.partitions)}
    return replace(topic, partitions=tuple(refreshed[index] for index in sorted(refreshed)))


def _find_runs(indexes: Sequence[int]) -> list[tuple[int, int]]:
    """(first, count) of each run of consecutive indexes; one empty run if there are none."""
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and index == sum(runs[-1]):
            runs[-1] = runs[-1][0], runs[-1][1] + 1
        else:
            runs.append((index, 1))
    return runs or [(0, 0)]


async def _describe_run(client: Client, name: str, first: int, count: int) -> Topic:
    cursor = {"topic_name": name, "partition_index": first}
    (topic,) = await _describe_by_pages(client, [name], cursor, count)
    return replace(topic, partitions=tuple(p for p in topic.partitions if first <= p.index < first + count))


async def _describe_by_pages(
    client: Client, names: Sequence[str] | None, cursor: Mapping[str, Any] | None = None, limit: int | None = None
) -> list[Topic]:
    """From `cursor` on; with `limit`, at least so many partitions."""
    wanted = [{"name": name} for name in sorted(names or ())]
    described: dict[str, Topic] = {}
    while True:
        page_size = PAGE if limit is None else max(1, min(limit, PAGE))
        values = {"topics": wanted, "response_partition_limit": page_size, "cursor": cursor}
        answer = await client.call_any(apis.DESCRIBE_TOPIC_PARTITIONS, values)
        for entry in answer.topics:
            page = _topic(entry)
            before = described.get(page.name)
            described[page.name] = page if before is None else _join_pages(before, page)
        count = sum(len(topic.partitions) for topic in described.values())
        if answer.next_cursor is None or (limit is not None and count >= limit):
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
