"""Every API that a node serves: one module each, found by the request's API key.

Three kinds: those that a node answers itself (`handle`), those that a controller decides and that only nodes send
(`decide`, `refuse`), and those that a controller decides for clients, which brokers forward.

A module here has the name of its messages' module: `vote` handles `wire.messages.vote.VoteRequest`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

from insync.node.apis import (
    allocate_producer_ids,
    alter_configs,
    alter_partition,
    alter_partition_reassignments,
    api_versions,
    assign_replicas_to_dirs,
    begin_quorum_epoch,
    broker_heartbeat,
    broker_registration,
    consumer_group_heartbeat,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_groups,
    delete_records,
    delete_topics,
    describe_acls,
    describe_cluster,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    describe_transactions,
    elect_leaders,
    end_quorum_epoch,
    envelope,
    fetch,
    fetch_snapshot,
    find_coordinator,
    get_replica_log_info,
    heartbeat,
    incremental_alter_configs,
    init_producer_id,
    join_group,
    leave_group,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    sync_group,
    unregister_broker,
    update_features,
    vote,
)
from insync.node.parts import Parts
from insync.wire import messages
from insync.wire.apis import APIS


def _by_key(*modules: ModuleType) -> dict[int, ModuleType]:
    return {module.KEY: module for module in modules}


ANY = _by_key(
    vote,
    begin_quorum_epoch,
    end_quorum_epoch,
    fetch,
    fetch_snapshot,
    describe_quorum,
    envelope,
    metadata,
    api_versions,
    describe_cluster,
    describe_topic_partitions,
    describe_configs,
    describe_acls,
    create_acls,
    delete_acls,
)
BROKER = _by_key(
    produce,
    list_offsets,
    offset_for_leader_epoch,
    delete_records,
    describe_log_dirs,
    describe_producers,
    get_replica_log_info,
    init_producer_id,
    find_coordinator,
    join_group,
    sync_group,
    heartbeat,
    leave_group,
    offset_commit,
    offset_fetch,
    offset_delete,
    list_groups,
    describe_groups,
    delete_groups,
    list_transactions,
    describe_transactions,
    consumer_group_heartbeat,
)
CONTROLLER = _by_key(
    alter_partition, assign_replicas_to_dirs, broker_registration, broker_heartbeat, allocate_producer_ids
)
FORWARDED = _by_key(
    create_topics,
    delete_topics,
    create_partitions,
    alter_partition_reassignments,
    list_partition_reassignments,
    elect_leaders,
    incremental_alter_configs,
    alter_configs,
    unregister_broker,
    update_features,
)

_ALL = {**ANY, **BROKER, **CONTROLLER, **FORWARDED}

ABANDONED = {key: module for key, module in _ALL.items() if hasattr(module, "abandon")}
"""Whose requests may be parked at a broker for long, and need not be once nobody waits for their answers."""
PARTS: dict[int, Parts] = {key: module.PARTS for key, module in _ALL.items() if hasattr(module, "PARTS")}
"""How large requests are divided. What a controller decides is divided where it is forwarded."""
FETCH = fetch.KEY
BETWEEN_NODES = frozenset(
    (
        *CONTROLLER,
        *(module.KEY for module in (vote, begin_quorum_epoch, end_quorum_epoch, fetch, fetch_snapshot)),
        get_replica_log_info.KEY,
    )
)
"""What nodes ask each other of their own accord. What they forward for clients is not among it."""


class _RequestTypes(Mapping[int, type[Any]]):
    """Looked up one by one: a class is made when the first request of its API arrives."""

    def __init__(self) -> None:
        self._found: dict[int, type[Any]] = {}

    def __getitem__(self, key: int) -> type[Any]:
        found = self._found.get(key)
        if found is None:
            api = APIS[_ALL[key].__name__.rpartition(".")[2]]
            found = self._found[key] = getattr(getattr(messages, api.name), f"{api.class_prefix}Request")
        return found

    def __contains__(self, key: object) -> bool:
        return key in _ALL

    def __iter__(self) -> Iterator[int]:
        return iter(_ALL)

    def __len__(self) -> int:
        return len(_ALL)


TYPES: Mapping[int, type[Any]] = _RequestTypes()
"""By API key: the class of request that the node takes."""
